//! The task that a run works on.

use toolyard_task::task::Era;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Fence, TaskId};

/// The task that a run works on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunTask {
    pub id: TaskId,
    pub fence: Fence,
    /// When this run began, by the clock of the store, if it began before it was set up.
    pub started_at: Option<Timestamp>,
    /// When its ttl passes.
    pub expires_at: Timestamp,
    /// The generation of protocol that it was created under.
    pub era: Era,
    /// Whether its client knows no tasks.
    pub bridged: bool,
    /// Whether an earlier run lost its host while it repeated what was recorded.
    pub is_stalled: bool,
}
