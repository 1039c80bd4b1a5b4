//! A tap between HTTP clients and a host: it passes all data on unchanged and without delay.

use super::Tap;
use crate::site::listen;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};

/// A reverse proxy on a free port. A dropped proxy accepts no further connections.
pub struct Proxy {
    port: u16,
    tap: Tap,
    listening: AbortHandle,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Proxy {
    /// A proxy in front of the host on `port` of this machine.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn before(port: u16) -> Self {
        let tap = Tap::default();
        let of_all = tap.clone();
        let (own, listening) = listen(move |stream| {
            // Small writes pass at once.
            drop(stream.set_nodelay(true));
            let tap = of_all.clone();
            let service = service_fn(move |request| {
                let tap = tap.clone();
                async move { Ok::<_, std::convert::Infallible>(pass(request, port, &tap).await) }
            });
            // A client that leaves ends its connection early, which is permitted.
            async move { drop(server::Builder::new().serve_connection(TokioIo::new(stream), service).await) }
        })
        .await;
        Self { port: own, tap, listening }
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
