//! Errors as clients see them. The private half (the source of a store's failure) goes to the log,
//! never to the client.

use toolyard_protocol::stateless::TASKS;
use toolyard_protocol::stateless::error::MISSING_CAPABILITY;
use toolyard_task::wire::error::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};
use toolyard_task::wire::{RpcError, TaskStatus};
use toolyard_task::{Refusal, StoreError};

/// When a client that the host refuses as busy is advised to try again, in milliseconds. `Retry-After`
/// counts whole seconds, and most slots and places in queues are free again within one.
pub const RETRY_AFTER_MS: u64 = 1_000;

/// Why a request was not done.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No tool of this name (TL-9).
    #[error("Unknown tool: {0}")]
    UnknownTool(String),
    /// The tool cannot be called as a task (T-3).
    #[error("The tool `{0}` cannot be called as a task (its taskSupport is \"forbidden\")")]
    TaskForbidden(String),
    /// The tool can only be called as a task (T-4).
    #[error(
        "The tool `{0}` can only be called as a task (its taskSupport is \"required\"): send `params.task`"
    )]
    TaskRequired(String),
    /// The tool can only be called as a task, and the request does not declare the
    /// tasks extension (26T-4).
    #[error("Missing required client capability: this needs the extension {TASKS}")]
    TaskExtensionRequired,
    /// The host rejects the state that a client brings back (26M-6).
    #[error("Invalid requestState: {0}")]
    RequestState(&'static str),
    /// The params do not fit.
    #[error("{0}")]
    InvalidParams(String),
    /// No such task, or another owner's; the message is the same (T-23).
    #[error("Task not found")]
    UnknownTask,
    /// The task cannot be cancelled (T-35).
    #[error("Cannot cancel task: already in terminal status '{}'", .0.as_str())]
    AlreadyOver(TaskStatus),
    /// The cursor was forged, or belongs to another list (T-31).
    #[error("Invalid cursor: it is not one that this server gave for this list")]
    InvalidCursor,
    /// Too much is under way.
    #[error("Busy: {what}; try again later")]
    Busy {
        /// The exceeded bound, in words.
        what: String,
        /// The limit, as it is set.
        limit: &'static str,
        /// When to try again (milliseconds).
        retry_after_ms: u64,
    },
    /// The request exceeds a rate limit (T-42). Nothing was done.
    #[error("Too many requests: {what}; try again later")]
    TooOften {
        /// The kind of operation, in words.
        what: &'static str,
        /// The limit, as it is set.
        limit: &'static str,
        /// When to try again (milliseconds).
        retry_after_ms: u64,
    },
    /// The rules allow the tool, but not with these arguments.
    #[error("The tool `{0}` may not be called with these arguments")]
    ArgumentsDenied(String),
    /// The call needs an approval, which only a task can wait for.
    #[error(
        "`{tool}` runs only after an approval, and this call cannot wait for one{}. Nothing was run.",
        if *.may_be_task { ": call it as a task" } else { "" }
    )]
    NeedsApproval {
        /// The tool.
        tool: String,
        /// Whether it can be called as a task.
        may_be_task: bool,
    },
    /// The operator denies every call of the tool.
    #[error("The operator of this host denies every call of `{0}`. Nothing was run.")]
    NeverApproved(String),
    /// The approval was not decided.
    #[error("Nothing was decided: {0}")]
    NotDecided(Refusal),
    /// The token lacks a scope that this needs. Nothing was done.
    #[error("Forbidden: this needs {} that the token does not have", scopes(.0))]
    InsufficientScope(Vec<String>),
    /// Tasks were switched off.
    #[error("Method not found: tasks are switched off on this server")]
    TasksOff,
    /// The host is going down.
    #[error("The server is shutting down")]
    Closing,
    /// The store failed; the reason is in the log.
    #[error("The task store is not available; {}", changed(.0))]
    Store(#[from] StoreError),
    /// There is no such prompt (PR-4).
    #[error("Unknown prompt: {0}")]
    UnknownPrompt(String),
    /// The prompt or resource to complete does not exist (CO-3).
    #[error("completion/complete: {0}")]
    NothingToComplete(String),
    /// The error comes from the plugin, or is about it.
    #[error("{0}")]
    Answered(RpcError),
    /// The request was cancelled by its sender and gets no answer (C-1).
    #[error("The request was cancelled")]
    Cancelled,
}

fn changed(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unavailable(_) | StoreError::Corrupt(_) => "nothing was changed",
        StoreError::Undecided(_) => "whether anything was changed is not known",
    }
}

fn scopes(scopes: &[String]) -> String {
    let named: Vec<String> = scopes.iter().map(|scope| format!("`{scope}`")).collect();
    format!("the scope{} {}", if named.len() == 1 { "" } else { "s" }, named.join(", "))
}

impl Fault {
    /// Too much is under way: `what` says in words which bound is exceeded, and `limit` is its setting.
    pub(crate) const fn busy(limit: &'static str, what: String) -> Self {
        Self::Busy { what, limit, retry_after_ms: RETRY_AFTER_MS }
    }

    /// The JSON-RPC error for it.
    #[must_use]
    pub fn rpc(&self) -> RpcError {
        let error = RpcError::new(self.code(), self.to_string());
        match self {
            Self::Answered(error) => error.clone(),
            Self::Busy { limit, retry_after_ms, .. } | Self::TooOften { limit, retry_after_ms, .. } => {
                error.with_data(&serde_json::json!({"limit": limit, "retryAfterMs": retry_after_ms}))
            }
            Self::TaskExtensionRequired => {
                error.with_data(&serde_json::json!({"requiredCapabilities": {"extensions": {TASKS: {}}}}))
            }
            Self::InsufficientScope(scopes) => {
                error.with_data(&serde_json::json!({"requiredScopes": scopes}))
            }
            _ => error,
        }
    }

    const fn code(&self) -> i32 {
        match self {
            Self::Answered(error) => error.code,
            Self::TaskForbidden(_) | Self::TaskRequired(_) | Self::TasksOff => METHOD_NOT_FOUND,
            Self::TaskExtensionRequired => MISSING_CAPABILITY,
            Self::UnknownTool(_)
            | Self::RequestState(_)
            | Self::InvalidParams(_)
            | Self::ArgumentsDenied(_)
            | Self::NeedsApproval { .. }
            | Self::NeverApproved(_)
            | Self::NotDecided(_)
            | Self::UnknownTask
            | Self::UnknownPrompt(_)
            | Self::NothingToComplete(_)
            | Self::AlreadyOver(_)
            | Self::InvalidCursor => INVALID_PARAMS,
            Self::InsufficientScope(_) => INVALID_REQUEST,
            Self::TooOften { .. } | Self::Busy { .. } | Self::Closing | Self::Store(_) | Self::Cancelled => {
                INTERNAL_ERROR
            }
        }
    }
}
