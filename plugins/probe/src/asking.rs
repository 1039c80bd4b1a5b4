//! Asking the client, and saying in words what came of it.

use contract::{Answer, AskError, Question, TaskError, ToolResult, host, result};
use serde::Deserialize;
use serde_json::{Value, json};

/// The one question of a call.
const KEY: &str = "answer";

/// Asks for a text.
pub fn ask(question: &str) -> ToolResult {
    report(host::ask(&[form(question, json!({ "type": "string", "title": "Answer" }))]))
}

/// Becomes a task, then asks for a yes or no: the question is then one that can
/// be answered much later and from elsewhere.
pub fn confirm(question: &str) -> ToolResult {
    match host::begin_task() {
        Ok(()) => report(host::ask(&[form(question, json!({ "type": "boolean", "title": "Yes" }))])),
        Err(TaskError::Busy(why)) => result::failure(format!("no task, the host is busy: {why}")),
        Err(TaskError::Failed(why)) => result::failure(format!("no task: {why}")),
    }
}

/// A form of one field. `mode` is left out: it means the same, and clients of
/// revisions before 2025-11-25 do not know it.
fn form(message: &str, field: Value) -> Question {
    let params = json!({
        "message": message,
        "requestedSchema": { "type": "object", "properties": { KEY: field }, "required": [KEY] },
    });
    Question { key: KEY.to_owned(), method: "elicitation/create".to_owned(), params: params.to_string() }
}

/// What the tool says about the outcome of asking.
fn report(asked: Result<Vec<Answer>, AskError>) -> ToolResult {
    let outcome = match asked {
        Ok(answers) => answers.into_iter().find(|answer| answer.key == KEY).map(|answer| answer.outcome),
        Err(error) => Some(Err(error)),
    };
    match outcome {
        Some(Ok(json)) => report_answer(&json),
        Some(Err(error)) => result::failure(describe(&error)),
        None => result::failure("the host gave no answer to the question"),
    }
}

/// MCP `ElicitResult`.
#[derive(Deserialize)]
struct Elicited {
    action: String,
    #[serde(default)]
    content: Value,
}

fn report_answer(json: &str) -> ToolResult {
    let elicited: Elicited = match serde_json::from_str(json) {
        Ok(elicited) => elicited,
        Err(error) => return result::failure(format!("the answer cannot be read: {error}")),
    };
    match (elicited.action.as_str(), &elicited.content[KEY]) {
        ("accept", Value::String(text)) => result::text(text),
        ("accept", Value::Bool(true)) => result::text("yes"),
        ("accept", Value::Bool(false)) => result::text("no"),
        ("accept", other) => result::failure(format!("the answer is neither a text nor yes or no: {other}")),
        ("decline", _) => result::text("declined"),
        ("cancel", _) => result::text("cancelled"),
        (action, _) => result::failure(format!("the client did something unknown: {action}")),
    }
}

fn describe(error: &AskError) -> String {
    match error {
        AskError::Unsupported(what) if what.is_empty() => "not supported by this client".to_owned(),
        AskError::Unsupported(what) => format!("not supported by this client: {what}"),
        AskError::TimedOut => "no answer came in time".to_owned(),
        AskError::Refused(error) => format!("the client refused: {} ({})", error.message, error.code),
        AskError::Invalid(why) => format!("the host found the question invalid: {why}"),
        AskError::TooLate => "it is too late to ask, the call has had effects".to_owned(),
        AskError::Cancelled => "the call is being stopped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use contract::{Content, RpcError};

    use super::*;

    /// The outcome as (is it an error, its text).
    fn said(asked: Result<Vec<Answer>, AskError>) -> (bool, String) {
        let result = report(asked);
        match result.content.as_slice() {
            [Content::Text(block)] => (result.is_error, block.text.clone()),
            other => panic!("one block of text, not {}", other.len()),
        }
    }

    fn answered(outcome: Result<Value, AskError>) -> Result<Vec<Answer>, AskError> {
        Ok(vec![Answer { key: KEY.to_owned(), outcome: outcome.map(|json| json.to_string()) }])
    }

    #[test]
    fn shows_what_the_user_did() {
        let cases = [
            (json!({"action": "accept", "content": {"answer": "42"}}), "42"),
            (json!({"action": "accept", "content": {"answer": ""}}), ""),
            (json!({"action": "accept", "content": {"answer": true}}), "yes"),
            (json!({"action": "accept", "content": {"answer": false}}), "no"),
            (json!({"action": "decline"}), "declined"),
            (json!({"action": "cancel", "content": null}), "cancelled"),
        ];
        for (outcome, text) in cases {
            assert_eq!(said(answered(Ok(outcome))), (false, text.to_owned()));
        }
    }

    #[test]
    fn a_strange_answer_is_an_error() {
        let cases = [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {"answer": 3}}),
            json!({"action": "dance"}),
            json!([]),
        ];
        for outcome in cases {
            assert!(said(answered(Ok(outcome))).0);
        }
        assert!(said(Ok(Vec::new())).0);
    }

    #[test]
    fn every_failure_to_ask_is_said() {
        let refused = RpcError { code: -1, message: "no".to_owned(), data: None };
        let cases = [
            (AskError::Unsupported(String::new()), "not supported by this client"),
            (AskError::Unsupported("form".to_owned()), "not supported by this client: form"),
            (AskError::TimedOut, "no answer came in time"),
            (AskError::Refused(refused), "the client refused: no (-1)"),
            (AskError::Invalid("why".to_owned()), "the host found the question invalid: why"),
            (AskError::TooLate, "it is too late to ask, the call has had effects"),
            (AskError::Cancelled, "the call is being stopped"),
        ];
        for (error, text) in cases {
            assert_eq!(describe(&error), text);
            assert_eq!(said(answered(Err(error))), (true, text.to_owned()));
        }
        assert!(said(Err(AskError::TimedOut)).0);
    }

    #[test]
    fn the_form_has_one_required_field() {
        let question = form("Colour?", json!({ "type": "string" }));
        let params: Value = serde_json::from_str(&question.params).expect("the form is JSON");
        assert_eq!(question.method, "elicitation/create");
        assert_eq!(params["message"], "Colour?");
        assert_eq!(params["requestedSchema"]["properties"]["answer"]["type"], "string");
        assert_eq!(params["requestedSchema"]["required"], json!(["answer"]));
    }
}
