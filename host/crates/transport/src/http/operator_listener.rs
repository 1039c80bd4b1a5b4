//! The listeners for operators: few connections at once, each served in its own task, all joined at the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long current answers may take after the listener stops.
const LINGER: Duration = Duration::from_secs(1);
/// The pause after a connection that could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves each connection, at most `most` at once, until `stop` is cancelled. Further clients wait in the kernel's queue.
/// `name` is that of the listener in the log.
pub async fn serve<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    (name, most): (&'static str, usize),
    stop: CancellationToken,
    connection: impl Fn(TcpStream) -> F,
) {
    let permits = Arc::new(Semaphore::new(most));
    let connections = TaskTracker::new();
    loop {
        let accept = async {
            let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
            Ok((listener.accept().await?.0, permit))
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                let serving = connection(stream);
                connections.spawn(async move {
                    serving.await;
                    drop(permit);
                });
            }
            Err(error) => pause(name, &error).await,
        }
    }
    connections.close();
    if tokio::time::timeout(LINGER, connections.wait()).await.is_err() {
        tracing::debug!(listener = name, "connections were cut because the host stops");
    }
}

/// Pauses after a connection that could not be accepted. Most likely the process has no free file descriptors. Some will
/// be released, so a listener waits a little instead of ending or spinning.
pub(super) async fn pause(listener: &'static str, error: &io::Error) {
    tracing::warn!(
        event = "http.accept_failed",
        listener,
        error = error as &dyn std::error::Error,
        "cannot accept connection"
    );
    tokio::time::sleep(ACCEPT_AGAIN).await;
}
