//! Asks the client questions, and describes the outcomes in words.

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_plugin::{Answer, Error, begin_task};

use crate::inputs::Question;

/// The key of the call's only question.
const KEY: &str = "answer";

#[derive(Deserialize, JsonSchema)]
struct Text {
    #[schemars(title = "Answer")]
    answer: String,
}

#[derive(Deserialize, JsonSchema)]
struct YesOrNo {
    #[schemars(title = "Yes")]
    answer: bool,
}

/// Asks for a text.
pub fn ask(Question { question }: Question) -> Result<String, Error> {
    Ok(said(toolyard_plugin::ask(KEY, &question)?, |Text { answer }| answer))
}

/// Becomes a task, then asks a yes-or-no question. The user can then answer much later, and from another
/// connection.
pub fn confirm(Question { question }: Question) -> Result<String, Error> {
    begin_task()?;
    let yes_or_no = |YesOrNo { answer }| if answer { "yes" } else { "no" }.to_owned();
    Ok(said(toolyard_plugin::ask(KEY, &question)?, yes_or_no))
}

fn said<T>(answer: Answer<T>, words: impl FnOnce(T) -> String) -> String {
    match answer {
        Answer::Accepted(answer) => words(answer),
        Answer::Declined => "declined".to_owned(),
        Answer::Cancelled => "cancelled".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolyard_plugin::testing::{self, Heard};

    use super::*;

    fn question() -> Question {
        Question { question: "Colour?".to_owned() }
    }

    #[test]
    fn shows_what_the_user_did() {
        type Tool = fn(Question) -> Result<String, Error>;
        let cases: [(Tool, Value, &str); 6] = [
            (ask, json!({"action": "accept", "content": {"answer": "42"}}), "42"),
            (ask, json!({"action": "accept", "content": {"answer": ""}}), ""),
            (confirm, json!({"action": "accept", "content": {"answer": true}}), "yes"),
            (confirm, json!({"action": "accept", "content": {"answer": false}}), "no"),
            (ask, json!({"action": "decline"}), "declined"),
            (confirm, json!({"action": "cancel", "content": null}), "cancelled"),
        ];
        for (tool, answer, text) in cases {
            testing::answer(KEY, answer);
            assert_eq!(tool(question()).expect("an answer"), text);
        }
    }

    #[test]
    fn only_confirming_becomes_a_task_and_both_ask_with_one_required_field() {
        for (tool, kind, title) in [(ask as fn(_) -> _, "string", "Answer"), (confirm, "boolean", "Yes")] {
            testing::answer(KEY, json!({"action": "decline"}));
            assert!(tool(question()).is_ok());
            let heard = testing::heard();
            assert_eq!(heard.contains(&Heard::BeginTask), kind == "boolean");
            let Some(Heard::Asked { method, params, .. }) = heard.last() else { panic!("a question") };
            let form = json!({
                "message": "Colour?",
                "requestedSchema": {
                    "type": "object",
                    "properties": { "answer": { "type": kind, "title": title } },
                    "required": ["answer"],
                },
            });
            assert_eq!((method.as_str(), params), ("elicitation/create", &form));
        }
    }
}
