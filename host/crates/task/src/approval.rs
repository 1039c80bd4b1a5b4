//! Approvals: a call that the operator wants confirmed waits as a task for a decision. Nothing of
//! the guest runs before that.
//!
//! An approval is a part of its task, so the state machine decides between two approvers, a cancel and an
//! end of time: the first event that is committed wins. It counts for one task, one tool, one component and
//! one set of arguments; [`Approval::fingerprint`] covers all four.

use crate::id::{Digest, TaskId};
use crate::wire::{RawJson, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The key of the question to the person who calls. Keys of guests never begin with `host:`.
pub const CONFIRM_KEY: &str = "host:confirm";
/// The key of the address of the page where the operator decides. It goes to the person who calls, whose answer
/// decides nothing.
pub const PAGE_KEY: &str = "host:approval-page";
/// The longest note of an approver (characters).
pub const MAX_NOTE: usize = 500;

/// Whether the calls of a tool are confirmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confirm {
    /// The calls run at once.
    #[default]
    Never,
    /// Each waits for an approval.
    Ask,
    /// Each is refused.
    AlwaysDeny,
}

/// The people who may approve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfirmBy {
    /// The operator, at the console or at the command line.
    #[default]
    Operator,
    /// The person who calls, by an elicitation of their client.
    Person,
    /// Either of them.
    Either,
}

/// The operator's terms for the calls of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfirmTerms {
    /// Whether they are confirmed.
    pub confirm: Confirm,
    /// By whom.
    pub by: ConfirmBy,
    /// A text of the operator for the approver.
    pub message: Option<String>,
}

/// The approval that a task waits for, or was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// SHA-256 of the task's id, its tool, its component and its arguments, in hexadecimal digits.
    pub fingerprint: String,
    /// The people who may decide.
    pub by: ConfirmBy,
    /// The operator's text for the approver.
    pub message: Option<String>,
    /// How long it waits for a decision (milliseconds).
    pub wait_ms: u64,
    /// When it was asked for again, by the store's clock. `None`: with the creation of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_again: Option<Timestamp>,
    /// The login to the console that made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// How the call was approved. A denied call has ended.
    pub given: Option<ApprovedBy>,
}

/// How a call was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovedBy {
    /// By the operator.
    Operator,
    /// By the person who calls.
    Person,
}

/// A decision of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Approve,
    /// The call may not run. The caller reads the note.
    Deny {
        /// The note, at most [`MAX_NOTE`] characters.
        note: Option<String>,
    },
}

impl Approval {
    /// The approval that a new task waits for.
    #[must_use]
    pub fn asked(terms: &ConfirmTerms, of: ApprovalObject<'_>, wait_ms: u64) -> Self {
        Self {
            fingerprint: of.fingerprint(),
            by: terms.by,
            message: terms.message.clone(),
            wait_ms,
            asked_again: None,
            login: None,
            given: None,
        }
    }

    /// The same, asked again for this call.
    pub(crate) fn asked_again(&self, of: ApprovalObject<'_>, now: Timestamp) -> Self {
        Self { fingerprint: of.fingerprint(), asked_again: Some(now), given: None, ..self.clone() }
    }

    /// The status message of a task that waits for it.
    #[must_use]
    pub fn status_message(&self) -> String {
        let who = match self.by {
            ConfirmBy::Operator => "the operator of this host",
            ConfirmBy::Person => "the user",
            ConfirmBy::Either => "the user, or the operator of this host",
        };
        format!("Waiting for approval by {who}; nothing has run yet.")
    }

    /// Whether it waits for a decision.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.given.is_none()
    }

    /// Whether the operator may decide.
    #[must_use]
    pub const fn is_for_operator(&self) -> bool {
        !matches!(self.by, ConfirmBy::Person)
    }
}

/// The object of an approval.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalObject<'a> {
    /// The task.
    pub task: TaskId,
    /// The tool of the call.
    pub tool: &'a str,
    /// The component of the tool.
    pub digest: &'a Digest,
    /// The arguments of the call.
    pub arguments: &'a RawJson,
}

impl ApprovalObject<'_> {
    pub(crate) fn fingerprint(self) -> String {
        let mut hash = Sha256::new();
        for part in [
            self.task.0.as_bytes().as_slice(),
            self.tool.as_bytes(),
            self.digest.0.as_bytes(),
            self.arguments.as_bytes(),
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;

    #[test]
    fn a_fingerprint_is_of_one_task_one_tool_one_component_and_its_arguments() {
        let (digest, other) = (Digest("ab".into()), Digest("ac".into()));
        let (arguments, others) = (RawJson::of(&json!({"to": "eu"})), RawJson::of(&json!({"to": "us"})));
        let of = |task, tool, digest, arguments| {
            ApprovalObject { task: TaskId(Uuid::from_u128(task)), tool, digest, arguments }.fingerprint()
        };
        let all = [
            of(1, "deploy", &digest, &arguments),
            of(2, "deploy", &digest, &arguments),
            of(1, "deploya", &digest, &arguments),
            of(1, "deploy", &other, &arguments),
            of(1, "deploy", &digest, &others),
        ];
        assert_eq!(all[0], of(1, "deploy", &digest, &arguments));
        assert!(all.iter().enumerate().all(|(at, print)| !all[..at].contains(print)), "{all:?}");
    }
}
