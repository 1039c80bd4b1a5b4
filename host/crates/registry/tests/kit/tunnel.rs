//! An HTTP proxy with `CONNECT`, which connects to one address for every request.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug)]
pub struct Tunnel {
    pub address: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Tunnel {
    pub async fn to(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (upstream, kept) = (upstream.to_owned(), Arc::clone(&heads));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (upstream, kept) = (upstream.clone(), Arc::clone(&kept));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    kept.lock().expect("no panic").push(String::from_utf8_lossy(&head).into_owned());
                    let mut other = TcpStream::connect(&upstream).await.expect("the registry");
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("an answer");
                    let _ = copy_bidirectional(&mut stream, &mut other).await;
                });
            }
        });
        Self { address, heads }
    }

    /// The requests for tunnels so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no panic").clone()
    }
}
