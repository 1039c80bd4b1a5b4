//! The questions of one run so far: a key means one question in the whole call.

use crate::run::pending_question::{PendingQuestion, same};
use std::collections::BTreeMap;
use toolyard_protocol::RawJson;
use toolyard_protocol::question::CheckedQuestion;
use toolyard_task::task::Question;
use toolyard_task::tool::{AskError, GivenAnswer};
use toolyard_task::wire::{QuestionKind, Timestamp};

/// The questions of a run so far, and their answers.
#[derive(Default)]
pub(crate) struct QuestionHistory {
    /// By key.
    questions: BTreeMap<String, HistoryEntry>,
}

struct HistoryEntry {
    checked: CheckedQuestion,
    answer: Option<Result<RawJson, AskError>>,
}

impl QuestionHistory {
    /// Takes questions in, of which a call may ask so many.
    ///
    /// # Errors
    /// [`AskError::Invalid`] if there are too many, or a key was used for another
    /// question; then none is taken in.
    pub fn add(&mut self, posed: &[PendingQuestion], most: usize) -> Result<(), AskError> {
        let new = posed.iter().filter(|posed| !self.questions.contains_key(&posed.key)).count();
        if self.questions.len() + new > most {
            // M-5: a loop of samplings ends, too.
            return Err(AskError::Invalid(format!(
                "a call asks at most {most} questions (`limits.questions`)"
            )));
        }
        let reused = |posed: &&PendingQuestion| {
            self.questions.get(&posed.key).is_some_and(|before| !same(&before.checked, &posed.question))
        };
        if let Some(PendingQuestion { key, .. }) = posed.iter().find(reused) {
            return Err(AskError::Invalid(format!("the key `{key}` was used for another question")));
        }
        for PendingQuestion { key, question, .. } in posed {
            let remembered = || HistoryEntry { checked: question.clone(), answer: None };
            self.questions.entry(key.clone()).or_insert_with(remembered);
        }
        Ok(())
    }

    /// The answer that the question of this key has had already.
    pub fn answer(&self, key: &str) -> Option<Result<RawJson, AskError>> {
        self.questions.get(key)?.answer.clone()
    }

    /// The questions that have their answers, as those of a task that is created at
    /// this time.
    pub fn answered_questions(&self, attempt: u32, now: Timestamp) -> Vec<Question> {
        let question = |(key, asked): (&String, &HistoryEntry)| {
            Some(Question {
                key: key.clone(),
                kind: asked.checked.kind,
                params: asked.checked.params.clone(),
                attempt,
                deadline: now,
                sent: Vec::new(),
                client_task: None,
                answer: Some(asked.answer.clone()?),
                asked_again: 0,
            })
        };
        self.questions.iter().filter_map(question).collect()
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
        let HistoryEntry { checked, answer: Some(Ok(answer)) } = self.questions.get(key)? else {
            return None;
        };
        let action = answer.decode::<serde_json::Value>().ok()?["action"] == "accept";
        if checked.kind == QuestionKind::Url && action {
            checked.params.decode::<serde_json::Value>().ok()?["elicitationId"].as_str().map(str::to_owned)
        } else {
            None
        }
    }
}
