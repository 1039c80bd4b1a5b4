//! The errors of stores and of questions.

use crate::wire::RpcError;
use serde::{Deserialize, Serialize};

/// An error of a store. It wrote nothing, unless the error says that this is undecided.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store may work later: locked, out of space, shutting down.
    #[error("the task store is not available")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store failed at the commit of a change, and it is still unknown whether the change counts.
    #[error("the task store is not available, and a change to it may have been made or not")]
    Undecided(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store holds a record that cannot be decoded.
    #[error("the task store holds a record that cannot be read")]
    Corrupt(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskError {
    /// The client cannot be asked this; the text says why.
    Unsupported(String),
    /// No answer in time.
    TimedOut,
    /// The client answered with an error.
    Refused(RpcError),
    /// The question is malformed.
    Invalid(String),
    /// The call has had effects and cannot be run again to ask.
    TooLate,
    /// The run is being stopped.
    Cancelled,
}

impl AskError {
    /// The end of a question as one word, for the audit log and the timeline.
    pub(crate) const fn name_of<T>(answer: &Result<T, Self>) -> &'static str {
        match answer {
            Ok(_) => "answered",
            Err(Self::TimedOut) => "timed_out",
            Err(Self::Refused(_)) => "refused",
            Err(Self::Unsupported(_) | Self::Invalid(_) | Self::TooLate | Self::Cancelled) => "not_answered",
        }
    }
}
