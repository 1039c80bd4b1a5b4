//! Buffers when sessions were last seen, until the writer stores the times. Storing each request at
//! once would cost a flush of the disk, and no reader needs the time to the second.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use toolyard_task::SessionId;

/// The times when sessions were last seen, until the writer takes them. `T` is the time, or `()`
/// where the database provides it.
pub(crate) struct LastSeenBuffer<T> {
    delay: Duration,
    seen: Mutex<Buffered<T>>,
}

struct Buffered<T> {
    sessions: HashMap<SessionId, T>,
    /// The time at which to write them even if nothing else is written.
    due: Option<Instant>,
}

impl<T> Default for Buffered<T> {
    fn default() -> Self {
        Self { sessions: HashMap::new(), due: None }
    }
}

impl<T> LastSeenBuffer<T> {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, seen: Mutex::default() }
    }

    /// Notes that a session was seen. Returns whether the caller must wake the writer, because the
    /// buffer was empty. It holds at most as many entries as there are sessions.
    pub(crate) fn touch(&self, id: &SessionId, now: T) -> bool {
        let mut seen = self.seen.lock();
        seen.sessions.insert(id.clone(), now);
        let first = seen.due.is_none();
        if first {
            seen.due = Some(Instant::now() + self.delay);
        }
        first
    }

    /// The latest time for the next write.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.seen.lock().due
    }

    /// Takes all of them, if they are due or something is written `anyway`.
    pub(crate) fn take(&self, anyway: bool, now: Instant) -> Vec<(SessionId, T)> {
        let mut seen = self.seen.lock();
        if seen.due.is_some_and(|due| anyway || due <= now) {
            return std::mem::take(&mut *seen).sessions.into_iter().collect();
        }
        Vec::new()
    }
}
