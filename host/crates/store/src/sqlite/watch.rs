//! Hints about changes of other processes to the file. The writer's connection checks, because
//! `PRAGMA data_version` does not count a connection's own commits: so this process's own changes
//! wake no waiter.

use async_trait::async_trait;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use toolyard_task::store::{Hint, Hints};

/// The receivers of hints, and the time of the next check.
pub(super) struct Watch {
    /// `None` once the store is shut down, which ends the feeds.
    feeds: Mutex<Option<watch::Sender<()>>>,
    every: Duration,
    next: Mutex<Option<Instant>>,
}

impl Watch {
    pub(super) fn new(every: Duration) -> Self {
        Self { feeds: Mutex::new(Some(watch::Sender::new(()))), every, next: Mutex::new(None) }
    }

    /// A feed of hints from now on.
    pub(super) fn feed(&self) -> Box<dyn Hints> {
        Box::new(Feed(self.feeds.lock().as_ref().map(watch::Sender::subscribe)))
    }

    /// Ends all feeds.
    pub(super) fn end(&self) {
        self.feeds.lock().take();
    }

    /// The time of the next check; `None` without a receiver.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let heard = self.feeds.lock().as_ref().is_some_and(|all| all.receiver_count() > 0);
        let mut next = self.next.lock();
        *next = if heard { Some(next.unwrap_or(now + self.every)) } else { None };
        *next
    }

    /// Whether a check is due; if so, sets the time of the next one.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let due = self.due(now).is_some_and(|next| next <= now);
        if due {
            *self.next.lock() = Some(now + self.every);
        }
        due
    }

    /// Notifies the feeds. Feeds that are behind get only one notification.
    pub(super) fn others_wrote(&self) {
        if let Some(feeds) = self.feeds.lock().as_ref() {
            feeds.send_replace(());
        }
    }
}

struct Feed(Option<watch::Receiver<()>>);

#[async_trait]
impl Hints for Feed {
    async fn next(&mut self) -> Option<Hint> {
        self.0.as_mut()?.changed().await.ok().map(|()| Hint::Anything)
    }
}
