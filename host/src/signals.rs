//! Signals: the first starts an orderly shutdown, the second ends the process at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that the first SIGINT, SIGTERM or SIGHUP cancels. A second signal ends the process at once, with
/// the exit code that shells expect.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn stop_signal() -> std::io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    // Ends with the runtime: it only waits for signals.
    tokio::spawn(async move {
        loop {
            let number = tokio::select! {
                _ = interrupt.recv() => 2,
                _ = terminate.recv() => 15,
                _ = hangup.recv() => 1,
            };
            if stopping.is_cancelled() {
                std::process::exit(128 + number);
            }
            stopping.cancel();
        }
    });
    Ok(stop)
}
