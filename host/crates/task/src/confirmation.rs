//! The approval of a task: how long it waits, its question to the person who calls, and the end of a call that was
//! not approved.

use crate::approval::{Approval, ApprovalObject, CONFIRM_KEY, PAGE_KEY};
use crate::task::{Outcome, Question, Task};
use crate::wire::visible::clip;
use crate::wire::{QuestionKind, RawJson, Timestamp, text_result};
use serde_json::{Value, json};

/// The name of the one field of [`CONFIRM_KEY`].
const FIELD: &str = "approve";
/// The longest text of arguments in a question (characters).
const MAX_SHOWN_ARGUMENTS: usize = 2_000;

impl Approval {
    /// When it stops waiting.
    #[must_use]
    pub fn expires_at(&self, of: &Task) -> Timestamp {
        self.asked_again.unwrap_or(of.created_at).plus(self.wait_ms).min(of.expires_at())
    }

    /// Whether this call is the one that was, or is to be, approved.
    #[must_use]
    pub fn is_of(&self, task: &Task) -> bool {
        self.fingerprint == ApprovalObject::of(task).fingerprint()
    }
}

impl<'a> ApprovalObject<'a> {
    /// The call of this task.
    #[must_use]
    pub fn of(task: &'a Task) -> Self {
        Self { task: task.id, tool: &task.tool, digest: &task.digest, arguments: &task.arguments }
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
        head + &format!("\nArguments: {}\n{tail}", clip(&arguments, MAX_SHOWN_ARGUMENTS))
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
    use crate::approval::ConfirmTerms;
    use crate::id::{Digest, TaskId};
    use uuid::Uuid;

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
        let (digest, arguments) = (&Digest("ab".into()), &RawJson::of(&json!({"to": "\u{202e}eu"})));
        let of = ApprovalObject { task: TaskId(Uuid::nil()), tool: "deploy", digest, arguments };
        let terms = ConfirmTerms { message: Some("Deploys it.".into()), ..ConfirmTerms::default() };
        let question = of.question(&Approval::asked(&terms, of, 1_000), 1, Timestamp(5));
        let params: Value = question.params.decode().expect("JSON");
        let message = params["message"].as_str().expect("a text");
        assert!(message.contains("Deploys it.") && message.contains(r#"{"to":"\u{202e}eu"}"#), "{message}");
    }
}
