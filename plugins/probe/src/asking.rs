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
