//! Ticks at which a silent request shows its client that it goes on.

use std::time::Duration;
use tokio::time::Instant;

/// How long a request may be silent before the host reports progress, if its client asked for it. Clients with an
/// idle limit give up after 30 seconds or more.
const MAX_SILENCE: Duration = Duration::from_secs(10);

/// Ticks for requests that wait in silence.
pub(crate) struct Heartbeat {
    next: Option<Instant>,
}

impl Heartbeat {
    /// Ticks if the client `listens`, else never.
    pub fn new(listens: bool) -> Self {
        Self { next: listens.then(|| Instant::now() + MAX_SILENCE) }
    }

    /// Waits for the next tick, and returns the interval. Safe to drop.
    pub async fn tick(&mut self) -> Duration {
        let Some(next) = self.next else { return std::future::pending().await };
        tokio::time::sleep_until(next).await;
        self.next = Some(Instant::now() + MAX_SILENCE);
        MAX_SILENCE
    }
}
