//! What one run has asked so far: a key stands for one question in the whole call.

use std::collections::HashMap;
use toolyard_protocol::RawJson;
use toolyard_protocol::question::Checked;
use toolyard_task::tool::{AskError, GivenAnswer};
use toolyard_task::wire::QuestionKind;

/// What a run has asked so far.
#[derive(Default)]
pub(crate) struct Asked {
    /// By key.
    questions: HashMap<String, Remembered>,
}

struct Remembered {
    checked: Checked,
    answer: Option<Result<RawJson, AskError>>,
}

impl Asked {
    /// Takes questions in, of which a call may ask so many.
    ///
    /// # Errors
    /// [`AskError::Invalid`] if there are too many, or a key was used for another
    /// question; then none is taken in.
    pub fn add(&mut self, checked: &[(String, Checked)], most: usize) -> Result<(), AskError> {
        let new = checked.iter().filter(|(key, _)| !self.questions.contains_key(key)).count();
        if self.questions.len() + new > most {
            // M-5: a loop of samplings ends, too.
            return Err(AskError::Invalid(format!(
                "a call asks at most {most} questions (`limits.questions`)"
            )));
        }
        let reused = |(key, question): &&(String, Checked)| {
            self.questions.get(key).is_some_and(|before| !same(&before.checked, question))
        };
        if let Some((key, _)) = checked.iter().find(reused) {
            return Err(AskError::Invalid(format!("the key `{key}` was used for another question")));
        }
        for (key, question) in checked {
            let remembered = || Remembered { checked: question.clone(), answer: None };
            self.questions.entry(key.clone()).or_insert_with(remembered);
        }
        Ok(())
    }

    /// The answer that the question of this key has had already.
    pub fn answer(&self, key: &str) -> Option<Result<RawJson, AskError>> {
        self.questions.get(key)?.answer.clone()
    }

    /// Notes answers.
    pub fn note(&mut self, answers: &[GivenAnswer]) {
        for answer in answers {
            if let Some(remembered) = self.questions.get_mut(&answer.key) {
                remembered.answer = Some(answer.outcome.clone());
            }
        }
    }

    /// The `elicitationId` of the question of this key, if the user agreed to open
    /// its page.
    pub fn agreed_to(&self, key: &str) -> Option<String> {
        let Remembered { checked, answer: Some(Ok(answer)) } = self.questions.get(key)? else { return None };
        let action = answer.decode::<serde_json::Value>().ok()?["action"] == "accept";
        if checked.kind == QuestionKind::Url && action {
            checked.params.decode::<serde_json::Value>().ok()?["elicitationId"].as_str().map(str::to_owned)
        } else {
            None
        }
    }
}

/// Whether two questions are one. The ids of elicitations are the host's and tell
/// nothing.
pub(crate) fn same(one: &Checked, other: &Checked) -> bool {
    let bare = |checked: &Checked| {
        let mut value: serde_json::Value = checked.params.decode().unwrap_or_default();
        if let (QuestionKind::Url, Some(members)) = (checked.kind, value.as_object_mut()) {
            members.remove("elicitationId");
        }
        value
    };
    one.kind == other.kind && (one.params == other.params || bare(one) == bare(other))
}
