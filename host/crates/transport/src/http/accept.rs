//! Connections: accepted one by one, each served in its own task, all joined at the end.
//!
//! A Unix socket serves the relays of one user of this machine. The socket tells which user connects, so no token is
//! needed, and no proxy stands between.

use super::connection_limit::{ConnectionLimit, ConnectionSlot};
use super::endpoint::Endpoint;
use super::operator_listener;
use super::overflow;
use super::session_registry::StreamPurpose;
use super::write_timeout::{ClientStream, TimedStream, peek};
use crate::metrics::OpenGauge;
use crate::server::Server;
use crate::settings::Settings;
use http::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolyard_dispatch::{Fault, RETRY_AFTER_MS};

/// How long open connections may continue after all calls have ended, so that answers can be written.
const LINGER: Duration = Duration::from_secs(2);
/// How long a client whose connection must make room may take to finish sending a request.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long a relay may read nothing: its client may be stopped, and its answers have no other copy.
const RELAY_WRITE: Duration = Duration::from_secs(24 * 60 * 60);

/// The socket at which clients connect.
#[derive(Debug)]
pub enum Listener {
    /// A network address, for everybody who has access.
    Tcp(TcpListener),
    /// A Unix socket, for the user of this process.
    Unix(UnixListener),
}

impl Listener {
    /// The next connection, with its address; `None` for the user of this process. The permissions of a Unix
    /// socket keep other users out, but not root.
    async fn accept(&self) -> io::Result<(ClientStream, Option<IpAddr>)> {
        loop {
            match self {
                Self::Tcp(listener) => {
                    let (stream, peer) = listener.accept().await?;
                    return Ok((Either::Left(stream), Some(peer.ip())));
                }
                Self::Unix(listener) => {
                    let (stream, _) = listener.accept().await?;
                    let uid = stream.peer_cred()?.uid();
                    if uid == rustix::process::geteuid().as_raw() {
                        return Ok((Either::Right(stream), None));
                    }
                    tracing::warn!(
                        event = "background.user_refused",
                        uid,
                        "connection of another user refused"
                    );
                }
            }
        }
    }
}

/// Serves `listener` until `stop` is cancelled. From then on it accepts no connections and sends no
/// notifications, and each connection ends with its current answer. Calls continue until `drained` ends. Then
/// it writes their answers and returns.
pub async fn serve(
    server: Arc<Server>,
    listener: Listener,
    stop: CancellationToken,
    drained: impl Future<Output = ()>,
) {
    let connections = TaskTracker::new();
    let requests = TaskTracker::new();
    let endpoint = Arc::new(Endpoint::new(server, requests.clone(), stop.clone()));
    let attendant = tokio::spawn(endpoint.clone().run_notifications(stop.clone()));
    let acceptor = Acceptor {
        limit: ConnectionLimit::new(
            endpoint.server.settings.connections,
            endpoint.server.shares.connections.clone(),
        ),
        overflow: Arc::new(Semaphore::new(overflow::MAX_WAITING)),
        connections: connections.clone(),
        endpoint: endpoint.clone(),
        stop: stop.clone(),
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        // `accept` ends only when the listener is dropped: new clients are refused, and a successor finds the
        // port free.
        () = acceptor.accept(listener) => {}
    }
    // Streams that belong to no request.
    endpoint.registry.end_streams(|purpose| *purpose == StreamPurpose::Standalone);
    drained.await;
    // By now every waiting request has its answer, or will never get one.
    requests.close();
    if tokio::time::timeout(LINGER, requests.wait()).await.is_err() {
        tracing::debug!("requests were left because the server stops");
    }
    endpoint.registry.end_streams(|_| true);
    connections.close();
    if tokio::time::timeout(LINGER, connections.wait()).await.is_err() {
        tracing::debug!("connections were cut because the server stops");
    }
    attendant.abort();
}

/// Accepts connections.
struct Acceptor {
    limit: Arc<ConnectionLimit>,
    overflow: Arc<Semaphore>,
    connections: TaskTracker,
    endpoint: Arc<Endpoint>,
    stop: CancellationToken,
}

impl Acceptor {
    async fn accept(self, listener: Listener) {
        loop {
            // A place in the overflow comes first: without one, clients wait in the kernel's queue instead of
            // in the host's memory.
            let Ok(place) = self.overflow.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => match self.limit.free() {
                    Some(slot) => self.serve(stream, peer, slot),
                    None => self.wait_for_slot(stream, peer, place),
                },
                Err(error) => operator_listener::pause("mcp", &error).await,
            }
        }
    }

    /// The stop token of a connection: a child, because all waiters of a shared token share one lock.
    fn connection_stop(&self) -> CancellationToken {
        self.stop.child_token()
    }

    fn serve(&self, stream: ClientStream, peer: Option<IpAddr>, slot: ConnectionSlot) {
        let (endpoint, stop) = (self.endpoint.clone(), self.connection_stop());
        self.connections.spawn(connection(stream, peer, endpoint, stop, slot));
    }

    /// Makes a connection wait for a slot.
    fn wait_for_slot(&self, stream: ClientStream, peer: Option<IpAddr>, place: OwnedSemaphorePermit) {
        let (endpoint, stop, limit) = (self.endpoint.clone(), self.connection_stop(), self.limit.clone());
        self.connections.spawn(async move {
            let fault = full(&endpoint.server);
            let waited = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                waited = overflow::wait(stream, &limit, &fault) => waited,
            };
            drop(place);
            match waited {
                Some((stream, slot)) => connection(stream, peer, endpoint, stop, slot).await,
                None => endpoint.server.metrics.count_fault(&fault),
            }
        });
    }
}

fn full(server: &Server) -> Fault {
    Fault::Busy {
        what: format!("this server serves {} connections, its most", server.settings.connections),
        limit: "wire.connections",
        retry_after_ms: RETRY_AFTER_MS,
    }
}

async fn connection(
    mut stream: ClientStream,
    peer: Option<IpAddr>,
    endpoint: Arc<Endpoint>,
    stop: CancellationToken,
    slot: ConnectionSlot,
) {
    let _open = OpenGauge::one(&endpoint.server.metrics.connections);
    let Settings { head_time, mut write_time, .. } = endpoint.server.settings;
    match &stream {
        Either::Left(stream) => prepare(stream, write_time),
        Either::Right(_) => write_time = RELAY_WRITE,
    }
    let must_leave = tokio::select! {
        biased;
        first_byte = tokio::time::timeout(head_time, peek(&stream)) => match first_byte {
            Ok(Ok(1..)) => false,
            Ok(Ok(0) | Err(_)) | Err(_) => return,
        },
        () = slot.leave() => true,
        () = stop.cancelled() => return,
    };
    if must_leave {
        drop(slot);
        let fault = full(&endpoint.server);
        endpoint.server.metrics.count_fault(&fault);
        // The client gets the reason: its request may be on its way.
        return overflow::refuse(&mut stream, false, &fault).await;
    }
    exchange(stream, peer, write_time, &endpoint, &stop, slot).await;
}

/// Serves the requests of one connection. `peer` is `None` for the user of this process.
async fn exchange(
    stream: ClientStream,
    peer: Option<IpAddr>,
    write_time: Duration,
    endpoint: &Arc<Endpoint>,
    stop: &CancellationToken,
    slot: ConnectionSlot,
) {
    let head_time = endpoint.server.settings.head_time;
    let slot = Arc::new(slot);
    let service = service_fn(|request| {
        let endpoint = endpoint.clone();
        let busy = slot.busy();
        async move {
            let mut reply = endpoint.handle(request, peer, &busy).await;
            if busy.is_wanted() {
                // A connection waits for a slot, so this one makes room after its answer.
                reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(reply.map(|body| body.while_busy(busy)))
        }
    });
    let stream = TimedStream::new(stream, write_time, slot.activity().clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_headers(100)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let done = tokio::select! {
        done = &mut connection => Some(done),
        () = stop.cancelled() => None,
        () = slot.leave() => None,
        () = slot.evicted() => return endpoint.server.metrics.count_fault(&full(&endpoint.server)),
    };
    let done = match done {
        Some(done) => done,
        None => {
            // Does not end the connection while it has unread bytes: they may be a whole request.
            slot.activity().leave();
            if slot.is_busy() {
                connection.as_mut().graceful_shutdown();
            }
            match tokio::time::timeout(FAREWELL, &mut connection).await {
                Ok(done) => done,
                Err(_) => {
                    slot.activity().leave_at_once();
                    connection.await
                }
            }
        }
    };
    if let Err(error) = done {
        tracing::debug!(error = &error as &dyn std::error::Error, "a connection ended early");
    }
}

/// Sets the options of a socket. A socket that refuses them is served anyway.
fn prepare(stream: &TcpStream, write_time: Duration) {
    // An event takes more than one small write; without this option the second one waits for the client's
    // delayed acknowledgement (44 ms on Linux).
    let mut told = stream.set_nodelay(true);
    // A client that vanished acknowledges nothing; without a timeout, the comments on a silent stream would
    // fill the socket's buffer for a quarter of an hour.
    #[cfg(target_os = "linux")]
    {
        told = told.and(socket2::SockRef::from(stream).set_tcp_user_timeout(Some(write_time)));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = write_time;
    if let Err(error) = told {
        tracing::debug!(error = &error as &dyn std::error::Error, "a socket could not be prepared");
    }
}
