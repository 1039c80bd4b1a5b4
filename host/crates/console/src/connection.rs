//! The listener: connections and their limits.

use crate::console::Console;
use crate::route;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a browser may read nothing of a reply.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long current replies may take after the listener stops.
const LINGER: Duration = Duration::from_secs(1);

/// Serves the console until `stop` is cancelled.
pub async fn serve(console: Arc<Console>, listener: TcpListener, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(console.settings.connections.max(1)));
    let connections = TaskTracker::new();
    loop {
        // Clients over the limit wait in the kernel's queue.
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                let (console, stop) = (console.clone(), stop.clone());
                connections.spawn(async move {
                    connection(stream, console, stop).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(
                    event = "http.accept_failed",
                    listener = "console",
                    error = &error as &dyn std::error::Error,
                    "cannot accept connection"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    connections.close();
    if tokio::time::timeout(LINGER, connections.wait()).await.is_err() {
        tracing::debug!("connections of the console were cut because the host stops");
    }
    console.links.remove_address(&console.origin());
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    Ok((listener.accept().await?.0, permit))
}

async fn connection(stream: TcpStream, console: Arc<Console>, stop: CancellationToken) {
    let stopping = stop.clone();
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    let service = service_fn(move |request| {
        let (console, stop) = (console.clone(), stopping.clone());
        async move { Ok::<_, std::convert::Infallible>(route::answer(&console, request, stop).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(64)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(error = &error as &dyn std::error::Error, "a connection of the console ended early");
    }
}
