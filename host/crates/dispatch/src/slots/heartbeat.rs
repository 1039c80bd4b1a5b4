//! Ticks at which a silent request shows its client that it goes on.

use std::time::Duration;
use tokio::time::Instant;

/// Ticks for requests that wait in silence.
pub(crate) struct Heartbeat {
    every: Duration,
    next: Instant,
}

impl Heartbeat {
    /// Ticks at this interval; zero means never.
    pub fn new(every: Duration) -> Self {
        Self { every, next: Instant::now() + every }
    }

    /// Waits for the next tick, and returns the interval. Safe to drop.
    pub async fn tick(&mut self) -> Duration {
        if self.every.is_zero() {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.next).await;
        self.next = Instant::now() + self.every;
        self.every
    }
}
