//! The form by which the host asks a person to choose one of several answers.

use serde_json::{Value, json};
use toolyard_protocol::RawJson;
use toolyard_protocol::question::CheckedQuestion;
use toolyard_task::wire::QuestionKind;

/// The name of the one field.
const FIELD: &str = "decision";

/// The form with this message. Each choice is a value and its title. `enumNames` rather than `oneOf`: clients of every
/// revision that has forms know it.
pub(super) fn choice_form(
    message: &str,
    field_title: &str,
    choices: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> CheckedQuestion {
    let (values, titles): (Vec<_>, Vec<_>) = choices.into_iter().unzip();
    let params = json!({
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                FIELD: {"type": "string", "title": field_title, "enum": values, "enumNames": titles},
            },
            "required": [FIELD],
        },
    });
    CheckedQuestion { kind: QuestionKind::Form, params: RawJson::of(&params) }
}

/// The chosen value in an `ElicitResult`; `None` for a declined or cancelled form.
pub(super) fn chosen(answer: &RawJson) -> Option<String> {
    let answer: Value = answer.decode().ok()?;
    answer["content"][FIELD].as_str().filter(|_| answer["action"] == "accept").map(str::to_owned)
}
