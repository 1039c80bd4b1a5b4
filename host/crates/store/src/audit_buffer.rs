//! Audit entries that belong to no change and wait to be written with the next one. `T` is the time
//! of each entry.

use crate::audit_lines::body_or_log;
use crate::write_buffer::{WriteBuffer, WriteBy};
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use toolyard_task::audit::Entry;

/// Entries that belong to no change, until the writer takes them.
pub(crate) struct AuditBuffer<T> {
    /// Whether entries are exported; otherwise the buffer keeps none.
    pub(crate) on: bool,
    /// The maximum number of waiting entries.
    most: usize,
    noted: WriteBuffer<AuditEntries<T>>,
    was_used: AtomicBool,
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
}

impl<T> Default for AuditEntries<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), lost: 0 }
    }
}

impl<T> AuditEntries<T> {
    fn add(&mut self, most: usize, entry: (T, String)) {
        if self.entries.len() < most {
            self.entries.push_back(entry);
        } else {
            self.lost += 1;
        }
    }
}

impl<T> AuditBuffer<T> {
    pub(crate) fn new(on: bool, most: usize, delay: Duration) -> Self {
        let (was_used, written) = (AtomicBool::new(false), Notify::new());
        Self { on, most, noted: WriteBuffer::new(delay), was_used, written }
    }

    /// Adds an entry, if entries are exported. Returns whether the writer must be woken.
    pub(crate) fn note(&self, at: T, entry: &Entry) -> bool {
        let Some(body) = self.on.then(|| body_or_log(entry)).flatten() else { return false };
        self.was_used.store(true, Ordering::Relaxed);
        self.noted.change(|noted| {
            noted.add(self.most, (at, body));
            WriteBy::Delay
        })
    }

    /// The latest time for the next write.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.noted.due()
    }

    /// Takes all of them, if they are due or something is written `anyway`.
    pub(crate) fn take(&self, anyway: bool, now: Instant) -> Option<AuditEntries<T>> {
        self.noted.take(anyway, now)
    }

    /// Whether there ever were any.
    pub(crate) fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Relaxed)
    }

    /// Puts back entries that could not be written, before those that arrived since.
    pub(crate) fn put_back(&self, before: AuditEntries<T>) {
        self.noted.change(|noted| {
            let since = mem::replace(noted, before);
            noted.lost += since.lost;
            since.entries.into_iter().for_each(|entry| noted.add(self.most, entry));
            WriteBy::Delay
        });
    }
}
