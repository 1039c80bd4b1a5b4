//! Audit entries that belong to no change and wait to be written with the next one. `T` is the time
//! of each entry.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Entries that belong to no change, until the writer takes them.
pub(crate) struct AuditBuffer<T> {
    /// Whether entries are exported; otherwise the buffer keeps none.
    pub(crate) on: bool,
    /// The maximum number of waiting entries.
    most: usize,
    delay: Duration,
    noted: Mutex<AuditEntries<T>>,
    /// Notified after each commit that wrote a row.
    pub(crate) written: Notify,
}

/// The entries that wait.
#[derive(Clone)]
pub(crate) struct AuditEntries<T> {
    /// The time and the text of each entry.
    pub(crate) entries: VecDeque<(T, String)>,
    /// How many did not fit.
    pub(crate) lost: u64,
    /// Whether there ever were any.
    used: bool,
    /// The time at which to write them even if nothing else is written.
    due: Option<Instant>,
}

impl<T> Default for AuditEntries<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), lost: 0, used: false, due: None }
    }
}

impl<T> AuditBuffer<T> {
    pub(crate) fn new(on: bool, most: usize, delay: Duration) -> Self {
        Self { on, most, delay, noted: Mutex::default(), written: Notify::new() }
    }

    /// Adds an entry. Returns whether it is the first since the writer last took the entries, so
    /// that the writer must be woken.
    pub(crate) fn note(&self, at: T, body: String) -> bool {
        let mut noted = self.noted.lock();
        noted.used = true;
        if noted.entries.len() < self.most {
            noted.entries.push_back((at, body));
        } else {
            noted.lost += 1;
        }
        let first = noted.due.is_none();
        if first {
            noted.due = Some(Instant::now() + self.delay);
        }
        first
    }

    /// The latest time for the next write.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.noted.lock().due
    }

    /// Takes all of them, if they are due or something is written `anyway`.
    pub(crate) fn take(&self, anyway: bool, now: Instant) -> Option<AuditEntries<T>> {
        let mut noted = self.noted.lock();
        if !noted.due.is_some_and(|due| anyway || due <= now) {
            return None;
        }
        Some(std::mem::replace(&mut *noted, AuditEntries { used: true, ..AuditEntries::default() }))
    }

    /// Whether there ever were any.
    pub(crate) fn was_used(&self) -> bool {
        self.noted.lock().used
    }

    /// Puts back entries that could not be written, before those that arrived since.
    pub(crate) fn put_back(&self, mut before: AuditEntries<T>) {
        let mut noted = self.noted.lock();
        before.lost += noted.lost;
        for entry in noted.entries.drain(..) {
            if before.entries.len() < self.most {
                before.entries.push_back(entry);
            } else {
                before.lost += 1;
            }
        }
        before.due = Some(Instant::now() + self.delay);
        *noted = before;
    }
}
