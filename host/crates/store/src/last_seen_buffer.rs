//! Buffers when sessions were last seen, until the writer stores the times. Storing each request at
//! once would cost a flush of the disk, and no reader needs the time to the second.

use crate::write_buffer::{WriteBuffer, WriteBy};
use std::collections::HashMap;
use toolyard_task::SessionId;

/// The times when sessions were last seen, until the writer takes them. `T` is the time, or `()`
/// where the database provides it.
pub(crate) type LastSeenBuffer<T> = WriteBuffer<HashMap<SessionId, T>>;

impl<T> LastSeenBuffer<T> {
    /// Notes that a session was seen. Returns whether the caller must wake the writer. The buffer holds at most as
    /// many entries as there are sessions.
    pub(crate) fn touch(&self, id: &SessionId, now: T) -> bool {
        self.change(|seen| {
            seen.insert(id.clone(), now);
            WriteBy::Delay
        })
    }
}
