//! The connections of browsers.

use crate::console::Console;
use crate::route;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

/// How long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a browser may read nothing of a reply.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// Serves a browser, until it leaves or `stop` is cancelled.
pub async fn serve(stream: TcpStream, console: Arc<Console>, stop: CancellationToken) {
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
