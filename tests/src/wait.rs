//! Waiting for a state, never for a while.

use std::time::{Duration, Instant};

/// However slow the machine, what is waited for comes within this time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again until there is an answer.
///
/// # Panics
/// If there is none within [`PATIENCE`].
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
