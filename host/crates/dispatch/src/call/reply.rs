//! What a caller gets for a call.

use crate::Dispatch;
use crate::observe::observer::CallOutcome;
use crate::run::round_trip::InputRequired;
use crate::task::commit::Changed;
use std::sync::Arc;
use toolyard_protocol::tasks::TaskView;
use toolyard_protocol::{RawJson, RpcError};
use toolyard_task::audit::By;
use toolyard_task::{Event, TaskId};

/// What the caller gets.
#[derive(Debug)]
pub enum CallReply {
    /// A `CallToolResult`.
    Result(RawJson),
    /// A JSON-RPC error of the tool's own.
    Error(RpcError),
    /// It is a task, durable by now (T-16).
    Created(Created),
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

/// A call that is a task now, as its client is told.
#[derive(Debug)]
pub struct Created {
    /// The task as it was created, durable by now (T-16, 26T-10).
    pub view: TaskView,
    /// What the model gets meanwhile (T-15).
    pub immediate_response: Option<String>,
    /// To be told that the reply has left. None where it does not matter: with
    /// sessions a client finds its tasks again.
    pub handover: Option<Handover>,
}

/// The duty to tell a client of its task. Dropped before that was done, the task is
/// cancelled: nobody else would ever learn of it.
#[must_use]
pub struct Handover {
    dispatch: Arc<Dispatch>,
    task: TaskId,
    delivered: bool,
}

impl Handover {
    pub(crate) fn of(dispatch: &Arc<Dispatch>, task: TaskId) -> Self {
        Self { dispatch: dispatch.clone(), task, delivered: false }
    }

    /// The reply has left.
    pub fn delivered(mut self) {
        self.delivered = true;
    }
}

impl std::fmt::Debug for Handover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handover").field(&self.task).finish()
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if self.delivered {
            return;
        }
        let (dispatch, id) = (self.dispatch.clone(), self.task);
        let cancel = async move {
            let message = "The client went away before it could be told of this task.".to_owned();
            let by = By::host().because("not_delivered");
            match dispatch.change(id, &Event::Cancelled { message }, &by).await {
                Ok(Changed::Done(_)) => {
                    tracing::info!(task = %id, "task cancelled: its client was not told of it")
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(task = %id, error = &error as &dyn std::error::Error, "a task that nobody was told of was not cancelled");
                }
            }
            dispatch.runs.stop(id);
        };
        self.dispatch.tracker.spawn_on(cancel, &self.dispatch.guests);
    }
}
