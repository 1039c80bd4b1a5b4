//! Waiting for a state, never for a while.

use serde_json::Value;
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

/// Looks at a task again until it has this status.
///
/// # Panics
/// If it is over with another one, or has not got there within [`PATIENCE`].
pub async fn becomes<F: Future<Output = Value>>(status: &str, mut look: impl FnMut() -> F) -> Value {
    let start = Instant::now();
    loop {
        let task = look().await;
        if task["status"] == status {
            return task;
        }
        let over = ["completed", "failed", "cancelled"].iter().any(|end| task["status"] == *end);
        assert!(!over && start.elapsed() < PATIENCE, "waited in vain for {status}: {task}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
