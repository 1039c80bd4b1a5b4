//! Audit entries that belong to no change and wait to be written with the next one. `T`
//! tells when each was made.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Entries that belong to no change, until the writer takes them along.
pub(crate) struct AuditBuffer<T> {
    /// Whether anybody exports; nothing is kept otherwise.
    pub(crate) on: bool,
    /// So many wait at most.
    most: usize,
    delay: Duration,
    noted: Mutex<AuditEntries<T>>,
    /// Told after each commit that wrote a row.
    pub(crate) written: Notify,
}

/// The entries that wait.
#[derive(Clone)]
pub(crate) struct AuditEntries<T> {
    /// When, and what.
    pub(crate) entries: VecDeque<(T, String)>,
    /// How many did not fit.
    pub(crate) lost: u64,
    /// Whether there ever were any.
    used: bool,
    /// When to write them even if nothing else is written.
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

    /// Takes an entry. Says whether it is the first since the writer came by, and
    /// the writer must be told.
    pub(crate) fn note(&self, at: T, body: String) -> bool {
        let mut noted = self.lock();
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

    /// When something is to be written at the latest.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.lock().due
    }

    /// Takes all of them, if they are due or something is written `anyway`.
    pub(crate) fn take(&self, anyway: bool, now: Instant) -> Option<AuditEntries<T>> {
        let mut noted = self.lock();
        if !noted.due.is_some_and(|due| anyway || due <= now) {
            return None;
        }
        Some(std::mem::replace(&mut *noted, AuditEntries { used: true, ..AuditEntries::default() }))
    }

    /// Whether there ever were any.
    pub(crate) fn was_used(&self) -> bool {
        self.lock().used
    }

    /// They could not be written: they wait again, before those that came since.
    pub(crate) fn put_back(&self, mut before: AuditEntries<T>) {
        let mut noted = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, AuditEntries<T>> {
        self.noted.lock().expect("no section panics")
    }
}
