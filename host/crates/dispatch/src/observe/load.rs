//! How busy this host is, for gauges and for the operator.

use crate::settings::Bounds;

/// How busy this host is at one moment, and how much it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Tasks of this host that wait for a slot.
    pub waiting: usize,
    /// Tasks of this host that run.
    pub working: usize,
    /// Tasks of this host that run and wait for their clients' answers.
    pub asking: usize,
    /// Runs of guests that hold a slot, plain calls included.
    pub runs: u32,
    /// Questions that clients have received and not answered.
    pub questions: usize,
    /// Calls of this host that wait for an approval.
    pub approvals: usize,
    /// How much may run and wait at once on this host.
    pub bounds: Bounds,
    /// How many live tasks the whole store may have, those of other hosts included.
    pub live_tasks: u32,
}
