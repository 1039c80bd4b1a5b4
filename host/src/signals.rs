//! Signals: the first asks for an orderly end, the second ends at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Turns true at the first SIGINT, SIGTERM or SIGHUP. A second one ends the
/// process on the spot, with the exit code that shells expect.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn stop_signal() -> std::io::Result<watch::Receiver<bool>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (stop, stopped) = watch::channel(false);
    // Ends with the runtime: it does nothing but wait.
    tokio::spawn(async move {
        let mut first = true;
        loop {
            let number = tokio::select! {
                _ = interrupt.recv() => 2,
                _ = terminate.recv() => 15,
                _ = hangup.recv() => 1,
            };
            if !first {
                std::process::exit(128 + number);
            }
            first = false;
            stop.send_replace(true);
        }
    });
    Ok(stopped)
}
