//! Approvals: a call that the operator wants confirmed waits as a task for a decision. Nothing of
//! the guest runs before that.
//!
//! An approval is a part of its task, so the state machine decides between two approvers, a cancel and an
//! end of time: the first event that is committed wins. It counts for one task, one tool, one component and
//! one set of arguments; [`Approval::fingerprint`] covers all four.

use crate::id::{Digest, TaskId};
use crate::task::{Outcome, Question, Task};
use crate::wire::error::clip;
use crate::wire::{QuestionKind, RawJson, Timestamp, text_result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The key of the question to the person who calls. Keys of guests never begin with `host:`.
pub const CONFIRM_KEY: &str = "host:confirm";
/// The key of the address of the page where the operator decides. It goes to the person who calls, whose answer
/// decides nothing.
pub const PAGE_KEY: &str = "host:approval-page";
/// The name of the one field of [`CONFIRM_KEY`].
const FIELD: &str = "approve";
/// The longest note of an approver (characters).
pub const MAX_NOTE: usize = 500;
/// The longest text of arguments in a question (characters).
const SHOWN_ARGUMENTS: usize = 2_000;

/// Whether the calls of a tool are confirmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confirm {
    /// They run at once.
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
    /// It may not. The caller reads the note.
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

    /// When it stops waiting.
    #[must_use]
    pub fn expires_at(&self, of: &Task) -> Timestamp {
        self.asked_again.unwrap_or(of.created_at).plus(self.wait_ms).min(of.expires_at())
    }

    /// Whether it waits for a decision.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.given.is_none()
    }

    /// Whether this call is the one that was, or is to be, approved.
    #[must_use]
    pub fn is_of(&self, task: &Task) -> bool {
        self.fingerprint == ApprovalObject::of(task).fingerprint()
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
    /// Its tool.
    pub tool: &'a str,
    /// Its component.
    pub digest: &'a Digest,
    /// Its arguments.
    pub arguments: &'a RawJson,
}

impl<'a> ApprovalObject<'a> {
    /// The call of this task.
    #[must_use]
    pub fn of(task: &'a Task) -> Self {
        Self { task: task.id, tool: &task.tool, digest: &task.digest, arguments: &task.arguments }
    }

    fn fingerprint(self) -> String {
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

    /// The question to the person who calls, for clients that can show a form. Names and arguments come from
    /// the caller's model and the plugin, so they are quoted with all characters escaped that could hide or
    /// reverse a part of them.
    #[must_use]
    pub fn question(self, approval: &Approval, attempt: u32, deadline: Timestamp) -> Question {
        let head = format!("The operator of this host wants the call of {:?} confirmed.", self.tool);
        let params = json!({
            "message": self.message(head, approval, "May it run?"),
            "requestedSchema": {
                "type": "object",
                "properties": {FIELD: {"type": "boolean", "title": "Run it", "default": false}},
                "required": [FIELD],
            },
        });
        asked(CONFIRM_KEY, QuestionKind::Form, &params, (attempt, deadline))
    }

    /// The address of the page where the operator decides, for clients that can show it to the person who calls. The
    /// page asks for a login.
    #[must_use]
    pub fn page(
        self,
        approval: &Approval,
        (url, elicitation_id): (&str, &str),
        attempt: u32,
        deadline: Timestamp,
    ) -> Question {
        let head = format!("The call of {:?} waits until an operator of this host approves it.", self.tool);
        let tail = "An operator decides on this page, after a login. To open it decides nothing.";
        let params = json!({
            "mode": "url",
            "message": self.message(head, approval, tail),
            "url": url,
            "elicitationId": elicitation_id,
        });
        asked(PAGE_KEY, QuestionKind::Url, &params, (attempt, deadline))
    }

    fn message(self, mut head: String, approval: &Approval, tail: &str) -> String {
        if let Some(text) = &approval.message {
            head += &format!(" {text}");
        }
        let arguments: String = self.arguments.as_str().chars().flat_map(escaped).collect();
        head + &format!("\nArguments: {}\n{tail}", clip(&arguments, SHOWN_ARGUMENTS))
    }
}

fn asked(key: &str, kind: QuestionKind, params: &Value, (attempt, deadline): (u32, Timestamp)) -> Question {
    Question {
        key: key.to_owned(),
        kind,
        params: RawJson::of(params),
        attempt,
        deadline,
        sent: Vec::new(),
        client_task: None,
        answer: None,
        asked_again: 0,
    }
}

/// A character as it is, or as an escape if it is invisible or reorders text.
fn escaped(character: char) -> Box<dyn Iterator<Item = char>> {
    match character {
        '"' | '\\' | '\'' => Box::new(std::iter::once(character)),
        other => Box::new(other.escape_debug()),
    }
}

/// Whether an `ElicitResult` approves. Anything but a plain yes is a no.
pub(crate) fn approves(answer: &RawJson) -> bool {
    let answer: Value = answer.decode().unwrap_or_default();
    answer["action"] == "accept" && answer["content"][FIELD] == true
}

/// Why a call that needed an approval has ended without running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotApproved<'a> {
    /// The operator denied it.
    ByOperator(Option<&'a str>),
    /// The person who calls denied it.
    ByPerson,
    /// There was no decision in time.
    InTime {
        /// How long it waited.
        wait_ms: u64,
    },
}

impl NotApproved<'_> {
    /// The outcome and the status message: a result that the model reads.
    pub fn outcome(self, tool: &str) -> (Outcome, String) {
        let tool = clip(tool, 128);
        let text = match self {
            Self::ByOperator(None) => format!("The operator denied this call of `{tool}`. Nothing was run."),
            Self::ByOperator(Some(note)) => {
                format!("The operator denied this call of `{tool}`. Nothing was run. Their note: {note}")
            }
            Self::ByPerson => format!("The user did not approve this call of `{tool}`. Nothing was run."),
            Self::InTime { wait_ms } => {
                let (minutes, seconds) = (wait_ms / 60_000, wait_ms % 60_000 / 1_000);
                let time =
                    if seconds == 0 { format!("{minutes} min") } else { format!("{}s", wait_ms / 1_000) };
                format!("There was no approval of this call of `{tool}` within {time}. Nothing was run.")
            }
        };
        (Outcome::Result { is_error: true, result: text_result(&text, true) }, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn anything_but_a_plain_yes_is_a_no() {
        let yes = json!({"action": "accept", "content": {"approve": true}});
        assert!(approves(&RawJson::of(&yes)));
        for no in [
            json!({"action": "accept", "content": {"approve": false}}),
            json!({"action": "accept", "content": {"approve": "true"}}),
            json!({"action": "accept"}),
            json!({"action": "decline", "content": {"approve": true}}),
            json!(true),
        ] {
            assert!(!approves(&RawJson::of(&no)), "{no}");
        }
    }

    #[test]
    fn a_question_shows_no_text_that_hides_or_reorders() {
        let (digest, arguments) = (Digest("ab".into()), RawJson::of(&json!({"to": "\u{202e}eu"})));
        let of = ApprovalObject {
            task: TaskId(Uuid::nil()),
            tool: "deploy",
            digest: &digest,
            arguments: &arguments,
        };
        let terms =
            ConfirmTerms { message: Some("Deploys to production.".into()), ..ConfirmTerms::default() };
        let question = of.question(&Approval::asked(&terms, of, 1_000), 1, Timestamp(5));
        let params: Value = question.params.decode().expect("JSON");
        let message = params["message"].as_str().expect("a text");
        assert!(
            message.contains("Deploys to production.") && message.contains(r#"{"to":"\u{202e}eu"}"#),
            "{message}"
        );
    }
}
