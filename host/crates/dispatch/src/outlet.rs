//! The port to the client of a call, for what is sent besides the answer.

use toolyard_task::TaskId;
use toolyard_task::wire::{Progress, RawJson};

/// How far a call is, and whom to tell under which token.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressNotice {
    /// The token of the call (P-1).
    pub token: RawJson,
    /// The task that the call became.
    pub task: Option<TaskId>,
    /// What to tell.
    pub progress: Progress,
}

/// Where notices for the client of a call go. It never blocks; what a slow
/// client cannot take is dropped.
pub trait Outlet: Send + Sync + 'static {
    /// Tells how far the call is.
    fn progress(&self, notice: ProgressNotice);
}

/// For callers that want no notices.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOutlet;

impl Outlet for NoOutlet {
    fn progress(&self, _notice: ProgressNotice) {}
}
