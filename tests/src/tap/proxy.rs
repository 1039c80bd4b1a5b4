//! A tap between HTTP clients and a host: it passes all data on unchanged and without delay.

use super::{Exchange, Tap};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Empty, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

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
    let mut connections = tokio::task::JoinSet::new();
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

type Answer = Response<Either<Tapped, Empty<Bytes>>>;

async fn pass(request: Request<Incoming>, upstream: u16, tap: &Tap) -> Answer {
    let answer = try_pass(request, upstream, tap).await;
    answer.map(|answer| answer.map(Either::Left)).unwrap_or_else(|| {
        let mut gone = Response::new(Either::Right(Empty::new()));
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
    let connection = Aborted(tokio::spawn(async move {
        // The task ends when either side closes the connection.
        drop(connection.await);
    }));
    let response = sender.send_request(Request::from_parts(head, Full::new(body))).await.ok()?;
    exchange.head(response.status(), response.headers());
    Some(response.map(|body| Tapped { body, exchange, _connection: connection }))
}

/// If a client leaves, its connection to the host is closed too.
struct Aborted(JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An observed body.
struct Tapped {
    body: Incoming,
    exchange: Exchange,
    _connection: Aborted,
}

impl Body for Tapped {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.exchange.piece(data);
                }
                if self.body.is_end_stream() {
                    self.exchange.end();
                }
            }
            Some(Err(_)) => {}
            None => self.exchange.end(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
