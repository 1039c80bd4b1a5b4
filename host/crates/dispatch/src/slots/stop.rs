//! A stop signal: set once, for those that poll it and those that wait for it.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// A flag that can be waited for.
#[derive(Debug, Default)]
pub struct Stop {
    set: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// Sets it. Says whether this was the first time.
    pub fn set(&self) -> bool {
        let first = !self.set.swap(true, Ordering::SeqCst);
        self.notify.notify_waiters();
        first
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }

    /// Waits until it is set.
    pub async fn wait(&self) {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            // Registered before the flag is read, so that a set in between is
            // not missed.
            notified.as_mut().enable();
            if self.is_set() {
                return;
            }
            notified.await;
        }
    }
}
