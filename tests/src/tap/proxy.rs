//! A tap between HTTP clients and a host: it passes all data on unchanged and without delay.

use super::Tap;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A reverse proxy on a free port. It ends when dropped.
pub struct Proxy {
    port: u16,
    tap: Tap,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// A proxy in front of the host on `port` of this machine.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn before(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let own = listener.local_addr().expect("an address").port();
        let tap = Tap::default();
        let task = tokio::spawn(accept(listener, port, tap.clone()));
        Self { port: own, tap, task }
    }

    /// The URL of the host's endpoint through the proxy.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The observer of its messages.
    pub const fn tap(&self) -> &Tap {
        &self.tap
    }
}

async fn accept(listener: TcpListener, upstream: u16, tap: Tap) {
    // Dropping the proxy drops these connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // Small writes pass at once.
        drop(stream.set_nodelay(true));
        let tap = tap.clone();
        let service = service_fn(move |request| {
            let tap = tap.clone();
            async move { Ok::<_, std::convert::Infallible>(pass(request, upstream, &tap).await) }
        });
        // A client that leaves ends its connection early, which is permitted.
        connections.spawn(async move {
            drop(server::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

type Tapped = UnsyncBoxBody<Bytes, hyper::Error>;

async fn pass(request: Request<Incoming>, upstream: u16, tap: &Tap) -> Response<Tapped> {
    try_pass(request, upstream, tap).await.unwrap_or_else(|| {
        let mut gone = Response::new(whole(Bytes::new()));
        *gone.status_mut() = StatusCode::BAD_GATEWAY;
        gone
    })
}

/// `None` if either side breaks the connection.
async fn try_pass(request: Request<Incoming>, upstream: u16, tap: &Tap) -> Option<Response<Tapped>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    let mut exchange = tap.exchange(&head.headers, &body);
    let stream = TcpStream::connect(("127.0.0.1", upstream)).await.ok()?;
    stream.set_nodelay(true).ok()?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.ok()?;
    // If a client leaves, this is dropped, which closes its connection to the host too.
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let response = sender.send_request(Request::from_parts(head, Full::new(body))).await.ok()?;
    exchange.head(response.status(), response.headers());
    let (head, body) = response.into_parts();
    if !exchange.is_stream() {
        let body = body.collect().await.ok()?.to_bytes();
        exchange.piece(&body);
        exchange.end();
        return Some(Response::from_parts(head, whole(body)));
    }
    let body = body.map_frame(move |frame| {
        // Holds the connection to the host open.
        let _ = &connections;
        if let Some(data) = frame.data_ref() {
            exchange.piece(data);
        }
        frame
    });
    Some(Response::from_parts(head, body.boxed_unsync()))
}

fn whole(body: Bytes) -> Tapped {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}
