//! Questions that are put to a client, and to whom.

use std::sync::Arc;
use toolyard_protocol::question::Checked;
use toolyard_task::tool::AnswerCheck;
use toolyard_task::wire::QuestionKind;

/// How the keys of the host's own questions begin.
pub(crate) const KEYS: &str = "host:";

/// A question that may be asked as it stands.
pub(crate) struct Posed {
    pub key: String,
    pub question: Checked,
    /// What an answer must be besides well formed.
    pub check: Option<Arc<dyn AnswerCheck>>,
}

/// Whether two questions are one. The ids of elicitations are the host's and tell
/// nothing.
pub(crate) fn same(one: &Checked, other: &Checked) -> bool {
    one.kind == other.kind && (one.params == other.params || bare(one) == bare(other))
}

/// What a question asks, without what the host adds to it.
pub(crate) fn bare(checked: &Checked) -> serde_json::Value {
    let mut value: serde_json::Value = checked.params.decode().unwrap_or_default();
    if let (QuestionKind::Url, Some(members)) = (checked.kind, value.as_object_mut()) {
        members.remove("elicitationId");
    }
    value
}
