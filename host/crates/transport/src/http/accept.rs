//! Connections: accepted one by one, each in a task of its own, all joined at
//! the end.

use super::endpoint::Endpoint;
use crate::Server;
use crate::metrics::Open;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::task::TaskTracker;

/// How long open connections may go on once the server stops. Streams end at
/// once; this is for answers that are being written.
const LINGER: Duration = Duration::from_secs(2);

/// Serves `listener` until `stop` turns true, then lets answers under way be
/// written and returns.
pub async fn serve(server: Arc<Server>, listener: TcpListener, mut stop: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(server.settings.connections));
    let connections = TaskTracker::new();
    let requests = TaskTracker::new();
    let endpoint = Arc::new(Endpoint::new(server, requests.clone(), stop.clone()));
    let attendant = tokio::spawn(endpoint.clone().attend(stop.clone()));
    loop {
        // The permit comes first: over the limit, clients wait in the kernel's
        // queue instead of in our memory.
        let permit = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            permit = permits.clone().acquire_owned() => permit,
        };
        let Ok(permit) = permit else { break };
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let endpoint = endpoint.clone();
                let stop = stop.clone();
                let open = Open::one(&endpoint.server.metrics.connections);
                connections.spawn(async move {
                    connection(stream, peer.ip(), endpoint, stop).await;
                    drop((permit, open));
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: others will be given
                // back, so wait a little instead of ending or spinning.
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a connection could not be accepted"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    endpoint.end_streams();
    connections.close();
    if tokio::time::timeout(LINGER, connections.wait()).await.is_err() {
        tracing::debug!("connections were cut because the server stops");
    }
    requests.close();
    if tokio::time::timeout(LINGER, requests.wait()).await.is_err() {
        tracing::debug!("requests were left because the server stops");
    }
    attendant.abort();
}

async fn connection(
    stream: TcpStream,
    peer: IpAddr,
    endpoint: Arc<Endpoint>,
    mut stop: watch::Receiver<bool>,
) {
    // An event goes out in more than one small write; without this the second
    // waits for the client's delayed acknowledgement (44 ms on Linux).
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = &error as &dyn std::error::Error, "TCP_NODELAY could not be set");
    }
    let head_time = endpoint.server.settings.head_time;
    let service = service_fn(move |request| {
        let endpoint = endpoint.clone();
        async move { Ok::<_, std::convert::Infallible>(endpoint.handle(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_headers(100)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let stopping = async move { stop.wait_for(|stop| *stop).await.is_ok() };
    let done = tokio::select! {
        done = &mut connection => done,
        _ = stopping => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = done {
        tracing::debug!(error = &error as &dyn std::error::Error, "a connection ended early");
    }
}
