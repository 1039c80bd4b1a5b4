//! Questions that are ready to be put to a client.

use std::sync::Arc;
use toolyard_protocol::question::CheckedQuestion;
use toolyard_task::tool::AnswerCheck;
use toolyard_task::wire::QuestionKind;

pub(crate) use crate::task::questions::{DOUBTS, KEYS};

/// A valid question, ready to be asked.
#[derive(Clone)]
pub(crate) struct PendingQuestion {
    pub key: String,
    pub question: CheckedQuestion,
    /// A check of the answer beyond its form.
    pub check: Option<Arc<dyn AnswerCheck>>,
}

/// Whether two questions are the same. The ids of elicitations come from the host and do not matter.
pub(crate) fn same(one: &CheckedQuestion, other: &CheckedQuestion) -> bool {
    one.kind == other.kind && (one.params == other.params || bare(one) == bare(other))
}

/// The params of a question without the members that the host adds.
pub(crate) fn bare(checked: &CheckedQuestion) -> serde_json::Value {
    let mut value: serde_json::Value = checked.params.decode().unwrap_or_default();
    if let (QuestionKind::Url, Some(members)) = (checked.kind, value.as_object_mut()) {
        members.remove("elicitationId");
    }
    value
}
