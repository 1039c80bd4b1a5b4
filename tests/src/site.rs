//! A web site for the requests of guests: it answers, echoes, redirects and misbehaves, each at its own path.

use bytes::Bytes;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The first byte of a client that wants TLS.
const TLS_HANDSHAKE: u8 = 22;

/// The queries that the weather service answers only in pairs: each waits for the other.
const PAIR: [&str; 2] = ["city=Bergen", "city=Rome"];

/// After this time without the other, the connection is closed.
const PAIR_TIME: Duration = Duration::from_secs(5);

/// A running site on a port of this machine.
pub struct Site {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    open: Arc<AtomicUsize>,
    listening: AbortHandle,
}

/// The answer of a path.
enum Page {
    /// A head and a body.
    Whole(String, Bytes),
    /// The same piece without end.
    Endless,
    /// A head, a part of the body, and then nothing.
    Stalled,
    /// Nothing at all.
    Silent,
    /// A connection that breaks within the body.
    Reset,
    /// Bytes that are not HTTP.
    Garbage,
}

impl Site {
    /// Starts a site.
    ///
    /// # Panics
    /// If it cannot listen.
    pub async fn start() -> Self {
        let (seen, open) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (seen_by_all, open_by_all) = (seen.clone(), open.clone());
        let pair = Arc::new(Barrier::new(PAIR.len()));
        let (port, listening) = listen(move |stream| {
            let (seen, open, pair) = (seen_by_all.clone(), open_by_all.clone(), pair.clone());
            async move {
                open.fetch_add(1, Ordering::SeqCst);
                serve(stream, &seen, &pair).await;
                open.fetch_sub(1, Ordering::SeqCst);
            }
        })
        .await;
        Self { port, seen, open, listening }
    }

    /// Stops it: connections are refused from now on.
    pub async fn stop(&self) {
        self.listening.abort();
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a path, with the host name `localhost`.
    pub fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    /// The heads of all requests so far.
    ///
    /// # Panics
    /// If a connection's task has panicked.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("free").clone()
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

/// Serves all connections to a free port of this machine; returns the port, and the task that accepts them.
///
/// # Panics
/// If it cannot listen.
pub async fn listen<F>(mut serve: impl FnMut(TcpStream) -> F + Send + 'static) -> (u16, AbortHandle)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let listening = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    (port, listening.abort_handle())
}

async fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>, pair: &Barrier) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
        if head == [TLS_HANDSHAKE] {
            drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
            return;
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    seen.lock().expect("free").push(head.clone());
    let is_of_pair = PAIR.iter().any(|query| head.contains(query));
    if is_of_pair && timeout(PAIR_TIME, pair.wait()).await.is_err() {
        return;
    }
    // A client that leaves has closed or reset the connection: both end it here.
    match page(&head) {
        Page::Whole(head, body) => {
            let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len());
            drop(stream.write_all(head.as_bytes()).await);
            drop(stream.write_all(&body).await);
            drop(stream.shutdown().await);
        }
        Page::Endless => {
            let piece = format!("4000\r\n{}\r\n", "e".repeat(0x4000));
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await);
            while stream.write_all(piece.as_bytes()).await.is_ok() {}
        }
        Page::Stalled => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome").await);
            until_closed(&mut stream).await;
        }
        Page::Silent => until_closed(&mut stream).await,
        Page::Reset => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome").await);
            drop(stream.flush().await);
            drop(stream.set_zero_linger());
        }
        Page::Garbage => drop(stream.write_all(b"\x00\x01\x02 220 ready when you are\r\n\r\n").await),
    }
}

async fn until_closed(stream: &mut TcpStream) {
    let mut rest = [0; 1 << 10];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}

fn page(head: &str) -> Page {
    let line = head.lines().next().unwrap_or_default();
    let target = line.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let of = |kind: &str, body: &str| {
        Page::Whole(format!("200 OK\r\ncontent-type: {kind}"), Bytes::copy_from_slice(body.as_bytes()))
    };
    match path {
        "/echo" => {
            let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
            let headers: Vec<_> = headers.map(|(name, value)| json!([name, value])).collect();
            of("application/json", &json!({ "line": line, "headers": headers }).to_string())
        }
        "/redirect" => Page::Whole(format!("302 Found\r\nlocation: {query}"), Bytes::new()),
        "/bytes" => of("text/plain", &"b".repeat(query.parse().unwrap_or_default())),
        "/head" => {
            let field = format!("x-large: {}", "h".repeat(query.parse().unwrap_or_default()));
            Page::Whole(format!("200 OK\r\n{field}"), Bytes::new())
        }
        "/page" => of("text/html; charset=utf-8", "<h1>Hello</h1>"),
        "/json" => of("application/json", "{\"a\":[1,2]}"),
        "/binary" => Page::Whole(
            "200 OK\r\ncontent-type: application/octet-stream".to_owned(),
            Bytes::from_static(b"\x00\xff\x00"),
        ),
        // The weather service of the examples `desk-*`.
        "/v1/now" => {
            let known = head.lines().any(|line| line == "authorization: Bearer demo-key-1234");
            let answer = |head: &str, body: &str| Page::Whole(head.to_owned(), Bytes::from(body.to_owned()));
            let weather = |city: &str, celsius: f64| {
                let now = json!({"city": city, "celsius": celsius, "sky": "rain"});
                of("application/json", &now.to_string())
            };
            match query {
                _ if !known => answer("401 Unauthorized", "the key is wrong"),
                "city=Oslo" => weather("Oslo", 7.5),
                "city=Bergen" => weather("Bergen", 9.0),
                "city=Rome" => weather("Rome", 21.0),
                "city=Broken" => of("application/json", "null"),
                _ => answer("404 Not Found", "no such city"),
            }
        }
        "/endless" => Page::Endless,
        "/stalled" => Page::Stalled,
        "/silent" => Page::Silent,
        "/reset" => Page::Reset,
        "/garbage" => Page::Garbage,
        _ => of("text/plain", "here"),
    }
}
