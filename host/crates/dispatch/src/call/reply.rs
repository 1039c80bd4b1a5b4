//! The replies to a call.

use crate::observe::observer::CallOutcome;
use crate::run::round_trip::InputRequired;
use crate::task::handover::Handover;
use toolyard_protocol::tasks::TaskView;
use toolyard_protocol::{RawJson, RpcError};

/// The reply to a call.
#[derive(Debug)]
pub enum CallReply {
    /// A `CallToolResult`.
    Result(RawJson),
    /// A JSON-RPC error of the tool's own.
    Error(RpcError),
    /// It is a task, durable by now (T-16).
    Created(CreatedTask),
    /// The client has to answer first, and then to make the request again (26M-2).
    InputRequired(InputRequired),
}

impl CallReply {
    /// How the call ended, unless it goes on. Without a run the only result is that of a
    /// check of the arguments, which is an error.
    pub(crate) fn outcome(&self) -> Option<CallOutcome<'_>> {
        match self {
            Self::Result(result) => Some(CallOutcome::Result { is_error: true, result }),
            Self::Error(error) => Some(CallOutcome::Error(error)),
            Self::Created(_) | Self::InputRequired(_) => None,
        }
    }
}

/// A call that became a task, as its client learns of it.
#[derive(Debug)]
pub struct CreatedTask {
    /// The task as it was created, durable by now (T-16, 26T-10).
    pub view: TaskView,
    /// Text for the model until the task ends (T-15).
    pub immediate_response: Option<String>,
    /// To be told that the reply has left. None where it does not matter: with
    /// sessions a client finds its tasks again.
    pub handover: Option<Handover>,
}
