//! Sessions that were seen and not yet noted in the store. Noting each request at
//! once would cost a flush of the disk for something nobody needs to the second.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use toolyard_task::SessionId;

/// When sessions were last seen, until the writer takes it along: a time, or nothing where
/// the store itself says what time it is.
pub(crate) struct Touches<T> {
    delay: Duration,
    seen: Mutex<Seen<T>>,
}

struct Seen<T> {
    sessions: HashMap<SessionId, T>,
    /// When to write them even if nothing else is written.
    due: Option<Instant>,
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self { sessions: HashMap::new(), due: None }
    }
}

impl<T> Touches<T> {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, seen: Mutex::default() }
    }

    /// Notes that a session was seen. Says whether it is the first since the
    /// writer came by, and the writer must be told. It holds at most as many as
    /// there are sessions.
    pub(crate) fn touch(&self, id: &SessionId, now: T) -> bool {
        let mut seen = self.seen.lock().expect("no section panics");
        seen.sessions.insert(id.clone(), now);
        let first = seen.due.is_none();
        if first {
            seen.due = Some(Instant::now() + self.delay);
        }
        first
    }

    /// When it is to be written at the latest.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.seen.lock().expect("no section panics").due
    }

    /// Takes all of them, if they are due or something is written `anyway`.
    pub(crate) fn take(&self, anyway: bool, now: Instant) -> Vec<(SessionId, T)> {
        let mut seen = self.seen.lock().expect("no section panics");
        if seen.due.is_some_and(|due| anyway || due <= now) {
            return std::mem::take(&mut *seen).sessions.into_iter().collect();
        }
        Vec::new()
    }
}
