//! Signals: the first starts an orderly shutdown, the second ends the process at once. A server without a terminal
//! reloads its configuration at SIGHUP.

use std::io::IsTerminal as _;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A token that the first SIGINT, SIGTERM or SIGHUP cancels. A second signal ends the process at once, with
/// the exit code that shells expect.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn stop_signal() -> std::io::Result<CancellationToken> {
    stop_or(None)
}

/// The same for a server: SIGHUP notifies `reload` instead, unless stdin is a terminal. A terminal that is closed sends
/// that signal too, and then the server stops.
///
/// # Errors
/// As [`stop_signal`].
pub fn stop_or_reload(reload: Arc<Notify>) -> std::io::Result<CancellationToken> {
    stop_or((!std::io::stdin().is_terminal()).then_some(reload))
}

fn stop_or(reload: Option<Arc<Notify>>) -> std::io::Result<CancellationToken> {
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
                _ = hangup.recv() => match &reload {
                    Some(reload) => {
                        reload.notify_one();
                        continue;
                    }
                    None => 1,
                },
            };
            if stopping.is_cancelled() {
                std::process::exit(128 + number);
            }
            let signal = match number {
                1 => "SIGHUP",
                2 => "SIGINT",
                _ => "SIGTERM",
            };
            tracing::info!(event = "shutdown.signal", signal, "stopping");
            stopping.cancel();
        }
    });
    Ok(stop)
}
