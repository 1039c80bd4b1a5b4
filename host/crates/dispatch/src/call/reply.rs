//! The replies to a call.

use crate::observe::observer::CallOutcome;
use crate::run::questions::round_trip::InputRequired;
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
    /// The call is now a task, which is durable (T-16).
    Created(CreatedTask),
    /// A `CallToolResult` for a client that knows no tasks: it names a task, or is the outcome of one.
    HandedOff(HandOff),
    /// A `CallToolResult` of a host tool that found no task with the given id.
    UnknownTask(RawJson),
    /// The client must first answer, and then repeat the request (26M-2).
    InputRequired(InputRequired),
    /// The same for the questions of a task that the call has become.
    TaskAsks(TaskQuestions),
}

impl CallReply {
    /// How the call ended, unless it goes on. Without a run, the only result is that of the argument
    /// check, which is an error.
    pub(crate) fn outcome(&self) -> Option<CallOutcome<'_>> {
        match self {
            Self::Result(result) => Some(CallOutcome::Result { is_error: true, result }),
            Self::Error(error) => Some(CallOutcome::Error(error)),
            Self::Created(_)
            | Self::HandedOff(_)
            | Self::UnknownTask(_)
            | Self::InputRequired(_)
            | Self::TaskAsks(_) => None,
        }
    }
}

/// A call that became a task, as its client learns of it.
#[derive(Debug)]
pub struct CreatedTask {
    /// The task as it was created, which is durable (T-16, 26T-10).
    pub view: TaskView,
    /// Text for the model until the task ends (T-15).
    pub immediate_response: Option<String>,
    /// Must be told when the reply has left. `None` if that does not matter: with sessions, a client
    /// finds its tasks again.
    pub handover: Option<Handover>,
}

/// The questions of a task for a client that knows no tasks, and whose person can be asked.
#[derive(Debug)]
pub struct TaskQuestions {
    /// The questions. The repeated request waits for the same task.
    pub input: InputRequired,
    /// Must be told when the reply has left.
    pub handover: Handover,
}

/// A result for a client that knows no tasks.
#[derive(Debug)]
pub struct HandOff {
    /// The `CallToolResult`, or the JSON-RPC error that a task ended with.
    pub outcome: Result<RawJson, RpcError>,
    /// Must be told when the reply has left.
    pub handover: Handover,
}
