//! How a call ended, for metrics and traces.

use toolyard_task::RunEnd;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// With a result.
    Ok,
    /// With a result that is an error.
    ToolError,
    /// With a JSON-RPC error of this code.
    Error(i32),
    /// The call needs answers that its client brings with the next request (26M-2).
    InputRequired,
    /// The call was stopped: cancelled, out of its ttl, or the host stopped.
    Stopped,
}

impl CallEnd {
    pub(crate) const fn of(end: &RunEnd) -> Self {
        match end {
            RunEnd::Result { is_error: false, .. } => Self::Ok,
            RunEnd::Result { is_error: true, .. } => Self::ToolError,
            RunEnd::Error(error) => Self::Error(error.code),
            RunEnd::Stopped => Self::Stopped,
        }
    }
}
