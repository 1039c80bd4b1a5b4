//! Values that wait to be written with the next commit.

use parking_lot::Mutex;
use std::mem;
use std::time::{Duration, Instant};

/// Values that wait until the writer takes them.
pub(crate) struct WriteBuffer<T> {
    delay: Duration,
    waiting: Mutex<Waiting<T>>,
}

#[derive(Default)]
struct Waiting<T> {
    values: T,
    /// The time at which to write them even if nothing else is written.
    due: Option<Instant>,
}

/// When a change of the values must be written.
pub(crate) enum WriteBy {
    /// Not at all, unless other values are written.
    Never,
    /// After the delay of the buffer.
    Delay,
    /// At once.
    Now,
}

impl<T: Default> WriteBuffer<T> {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, waiting: Mutex::default() }
    }

    /// Changes the values. Returns whether the writer must be woken, because its next write is now due earlier.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T) -> WriteBy) -> bool {
        let mut waiting = self.waiting.lock();
        let due = match change(&mut waiting.values) {
            WriteBy::Never => return false,
            WriteBy::Delay => Instant::now() + self.delay,
            WriteBy::Now => Instant::now(),
        };
        let is_earlier = waiting.due.is_none_or(|known| due < known);
        if is_earlier {
            waiting.due = Some(due);
        }
        is_earlier
    }

    /// The latest time for the next write.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting.lock().due
    }

    /// Takes the values, if they are due or something is written `anyway`.
    pub(crate) fn take(&self, anyway: bool, now: Instant) -> Option<T> {
        let mut waiting = self.waiting.lock();
        let is_due = waiting.due.is_some_and(|due| anyway || due <= now);
        is_due.then(|| mem::take(&mut *waiting).values)
    }
}
