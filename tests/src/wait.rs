//! Waiting for a state, never for a fixed time.

use serde_json::Value;
use std::time::{Duration, Instant};

/// An awaited state comes within this time, even on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks repeatedly until there is an answer.
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

/// Asks repeatedly until it is so.
pub async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let ask = || {
        let asked = is_so();
        async move { asked.await.then_some(()) }
    };
    eventually(what, ask).await;
}

/// Reads a task repeatedly until it has this status.
///
/// # Panics
/// If it ends with another status, or does not reach this one within [`PATIENCE`].
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
