//! Each fault, on connections to a server that sends everything back.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::timeout;

/// Data that does not arrive within this time counts as held back. On a slow machine, a test that expects no
/// data may pass wrongly, but never fails wrongly.
const A_WHILE: Duration = Duration::from_millis(200);
/// Data that may pass arrives within this time, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that echoes its input, and counts the bytes.
struct Echo {
    port: u16,
    got: Arc<AtomicU64>,
}

impl Echo {
    async fn start() -> Self {
        let got = Arc::<AtomicU64>::default();
        let of_all = got.clone();
        let (port, _) = crate::site::listen(move |mut stream| {
            let counted = of_all.clone();
            async move {
                let mut piece = [0; 1 << 10];
                while let Ok(read @ 1..) = stream.read(&mut piece).await {
                    counted.fetch_add(read as u64, Ordering::Relaxed);
                    if stream.write_all(&piece[..read]).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await;
        Self { port, got }
    }

    fn got(&self) -> u64 {
        self.got.load(Ordering::Relaxed)
    }

    /// Waits until so many bytes have arrived.
    async fn has_got(&self, count: u64) {
        crate::until("the bytes to arrive", || async { self.got() == count }).await;
    }
}

async fn connect(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port())).await.expect("it listens")
}

/// Reads this many bytes.
async fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    timeout(PATIENCE, stream.read_exact(&mut bytes)).await.expect("in time").expect("whole");
    bytes
}

/// Sends a word and waits for the echo.
async fn there_and_back(stream: &mut TcpStream, word: &[u8]) {
    stream.write_all(word).await.expect("it stands");
    assert_eq!(read(stream, word.len()).await, word);
}

/// Reads up to the end, which must be a reset; returns the bytes before it.
async fn until_reset(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("in time");
    assert_eq!(ended.expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    bytes
}

async fn nothing_comes(stream: &mut TcpStream) {
    let mut byte = [0];
    timeout(A_WHILE, stream.read(&mut byte)).await.expect_err("nothing");
}

#[tokio::test]
async fn a_cut_comes_after_so_many_bytes_of_its_direction() {
    let echo = Echo::start().await;
    let proxy = FaultProxy::before(echo.port).await;
    let mut stream = connect(&proxy).await;
    there_and_back(&mut stream, b"before").await;
    proxy.switch(Fault::Cut(Way::ToClient, 4));
    stream.write_all(b"abcdefgh").await.expect("it stands");
    assert_eq!(until_reset(&mut stream).await, b"abcd");
    assert_eq!(echo.got(), 14, "all of it had arrived");
}

#[tokio::test]
async fn one_way_alone_passes() {
    let echo = Echo::start().await;
    let proxy = FaultProxy::before(echo.port).await;
    let mut stream = connect(&proxy).await;
    there_and_back(&mut stream, b"before").await;
    proxy.switch(Fault::Only(Way::ToServer));
    stream.write_all(b"there").await.expect("it stands");
    echo.has_got(11).await;
    nothing_comes(&mut stream).await;
    proxy.switch(Fault::None);
    assert_eq!(read(&mut stream, 5).await, b"there");
    proxy.switch(Fault::Only(Way::ToClient));
    stream.write_all(b"not").await.expect("it stands");
    nothing_comes(&mut stream).await;
    assert_eq!(echo.got(), 11);
    proxy.switch(Fault::None);
    assert_eq!(read(&mut stream, 3).await, b"not");
}
