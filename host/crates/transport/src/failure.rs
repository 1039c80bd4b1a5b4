//! Why a request has no result.

use toolyard_dispatch::{Fault, Handover};
use toolyard_protocol::RpcError;

/// The reason why a request has no result.
pub(crate) enum Failure {
    /// The request was stopped.
    Cancelled,
    /// The request did nothing, and HTTP has a status for that.
    Refused(Fault),
    /// The request is valid, but something prevents it.
    Fault(Fault),
    /// The method does not exist, or its params are invalid.
    Invalid(RpcError),
    /// The request cannot be answered in this form, whatever its method.
    BadRequest(RpcError),
    /// The tool or the task failed.
    Answered(RpcError),
    /// The same for a task that its client learns of through this answer.
    EndOfTask(Box<(RpcError, Handover)>),
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Self {
        Self::Invalid(error)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Cancelled => Self::Cancelled,
            refused @ (Fault::InsufficientScope(_) | Fault::TooOften { .. }) => Self::Refused(refused),
            other => Self::Fault(other),
        }
    }
}
