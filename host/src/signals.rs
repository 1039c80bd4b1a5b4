//! Signals: the first asks for an orderly end, the second ends at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Cancelled at the first SIGINT, SIGTERM or SIGHUP. A second one ends the process on the spot, with the
/// exit code that shells expect.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn stop_signal() -> std::io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    // Ends with the runtime: it does nothing but wait.
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

/// The token as the libraries take it: turns true when the token is cancelled.
pub fn watched(stop: &CancellationToken) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(stop.is_cancelled());
    let stop = stop.clone();
    // Ends with the runtime, or before it when no receiver is left.
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => drop(sender.send_replace(true)),
            () = sender.closed() => {}
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_receiver_turns_true_with_its_token_before_and_after_it_is_made() {
        let stop = CancellationToken::new();
        let mut early = watched(&stop);
        assert!(!*early.borrow());
        stop.cancel();
        early.wait_for(|stop| *stop).await.expect("is cancelled");
        assert!(*watched(&stop).borrow());
    }
}
