//! The questions of one run so far: a key means one question in the whole call.

use crate::client::client_channel::ClientRoute;
use crate::run::questions::pending::{PendingQuestion, same};
use std::collections::BTreeMap;
use std::sync::Arc;
use toolyard_protocol::RawJson;
use toolyard_protocol::question::CheckedQuestion;
use toolyard_task::AskError;
use toolyard_task::task::{Question, Sent};
use toolyard_task::tool::GivenAnswer;
use toolyard_task::wire::{QuestionKind, Timestamp};

/// The questions of a run so far, and their answers.
#[derive(Default)]
pub(crate) struct QuestionHistory {
    /// By key.
    questions: BTreeMap<String, HistoryEntry>,
    /// The keys of what earlier runs of the task have asked.
    pub earlier: Vec<String>,
}

struct HistoryEntry {
    checked: CheckedQuestion,
    answer: Option<Result<RawJson, AskError>>,
    /// The request of a plain call that carries it, and the route of that request.
    sent: Option<(Sent, Arc<dyn ClientRoute>)>,
}

impl QuestionHistory {
    /// Accepts questions, of which a call may ask at most this many in all its runs.
    ///
    /// # Errors
    /// [`AskError::Invalid`] if there are too many, or a key was used for another question; then none
    /// is accepted.
    pub fn add(&mut self, asked: &[PendingQuestion], most: usize) -> Result<(), AskError> {
        let new = asked.iter().filter(|asked| !self.questions.contains_key(&asked.key)).count();
        let is_left = |key: &&String| {
            !self.questions.contains_key(*key) && asked.iter().all(|asked| asked.key != **key)
        };
        let earlier = self.earlier.iter().filter(is_left).count();
        if earlier + self.questions.len() + new > most {
            // M-5: a loop of samplings ends, too.
            return Err(AskError::Invalid(format!(
                "a call asks at most {most} questions (`limits.questions`)"
            )));
        }
        let reused = |asked: &&PendingQuestion| {
            self.questions.get(&asked.key).is_some_and(|before| !same(&before.checked, &asked.question))
        };
        if let Some(PendingQuestion { key, .. }) = asked.iter().find(reused) {
            return Err(AskError::Invalid(format!("the key `{key}` was used for another question")));
        }
        for PendingQuestion { key, question, .. } in asked {
            let remembered = || HistoryEntry { checked: question.clone(), answer: None, sent: None };
            self.questions.entry(key.clone()).or_insert_with(remembered);
        }
        Ok(())
    }

    /// The answer that the question of this key already has.
    pub fn answer(&self, key: &str) -> Option<Result<RawJson, AskError>> {
        self.questions.get(key)?.answer.clone()
    }

    /// The questions for a task that is created at this time: the answered ones and, with a deadline,
    /// the open ones as well.
    pub fn questions_of_task(
        &self,
        attempt: u32,
        now: Timestamp,
        deadline: Option<Timestamp>,
    ) -> Vec<Question> {
        let question = |(key, asked): (&String, &HistoryEntry)| {
            let deadline = if asked.answer.is_some() { now } else { deadline? };
            Some(Question {
                key: key.clone(),
                kind: asked.checked.kind,
                params: asked.checked.params.clone(),
                attempt,
                deadline,
                sent: asked.sent.iter().map(|(sent, _)| sent.clone()).collect(),
                client_task: None,
                answer: asked.answer.clone(),
                asked_again: 0,
            })
        };
        self.questions.iter().filter_map(question).collect()
    }

    /// Notes the request that carries a question of a plain call.
    pub fn mark_sent(&mut self, key: &str, sent: Sent, route: Arc<dyn ClientRoute>) {
        if let Some(asked) = self.questions.get_mut(key) {
            asked.sent = Some((sent, route));
        }
    }

    /// The questions of a plain call that wait for answers: key, id of the request, route.
    pub fn questions_out(&self) -> Vec<(String, String, Arc<dyn ClientRoute>)> {
        let out = |(key, asked): (&String, &HistoryEntry)| {
            let (sent, route) = asked.sent.as_ref().filter(|_| asked.answer.is_none())?;
            Some((key.clone(), sent.id.clone(), route.clone()))
        };
        self.questions.iter().filter_map(out).collect()
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
        let HistoryEntry { checked, answer: Some(Ok(answer)), .. } = self.questions.get(key)? else {
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
