//! Questions of a task.

use super::Refusal;
use crate::approval::{CONFIRM_KEY, PAGE_KEY};
use crate::error::AskError;
use crate::task::{Fence, Question, Task};
use crate::wire::{RawJson, RpcError};

/// The most questions of one task. One run asks at most `limits.questions`, which is not more; only a task that hands
/// its state over from run to run can reach this.
pub const MAX_QUESTIONS: usize = 1_000;

/// The most bytes of all answers that a task keeps: each change of the task writes them again.
pub const MAX_ANSWERS_BYTES: usize = 4 << 20;

/// The open question of this key has this answer. The guest gets an error in place of one for which there is no room.
pub(super) fn answer(task: &mut Task, key: &str, answer: Result<RawJson, AskError>) -> Result<(), Refusal> {
    let bytes =
        |answer: &Result<RawJson, AskError>| answer.as_ref().map_or(0, |answer| answer.as_bytes().len());
    let kept: usize = task.questions.iter().filter_map(|question| question.answer.as_ref().map(bytes)).sum();
    let question = open(task, key)?;
    question.answer = Some(match kept + bytes(&answer) <= MAX_ANSWERS_BYTES {
        true => answer,
        false => Err(AskError::Refused(RpcError::invalid_params(format!(
            "the answers of one task have at most {MAX_ANSWERS_BYTES} bytes"
        )))),
    });
    Ok(())
}

/// Closes the questions about the approval after a decision.
pub(super) fn close(task: &mut Task) {
    let open = |question: &&mut Question| is_about_approval(question) && question.answer.is_none();
    task.questions
        .iter_mut()
        .filter(open)
        .for_each(|question| question.answer = Some(Err(AskError::Cancelled)));
}

pub(super) fn is_about_approval(question: &Question) -> bool {
    [CONFIRM_KEY, PAGE_KEY].contains(&&*question.key)
}

/// The run asks this question.
pub(super) fn ask(task: &mut Task, fence: Fence, question: Question) -> Result<(), Refusal> {
    let is_full = task.questions.len() == MAX_QUESTIONS;
    match task.questions.iter_mut().find(|asked| asked.key == question.key) {
        None if is_full => return Err(Refusal::TooManyQuestions),
        None => task.questions.push(question),
        Some(asked) if asked.attempt < fence.attempt => ask_anew(asked, question),
        Some(_) => return Err(Refusal::KeyReused),
    }
    Ok(())
}

/// A later attempt asks under the key of an earlier one. The client is not asked the
/// same question twice; what is another question has another key on the wire (26T-18).
fn ask_anew(asked: &mut Question, question: Question) {
    let is_same = asked.kind == question.kind && asked.params == question.params;
    if is_same && !asked.is_superseded() {
        asked.attempt = question.attempt;
        asked.deadline = question.deadline;
    } else {
        let asked_again = asked.asked_again + 1;
        *asked = Question { asked_again, ..question };
    }
}

/// The question of this key, if it waits for an answer.
pub(super) fn open<'a>(task: &'a mut Task, key: &str) -> Result<&'a mut Question, Refusal> {
    let mut questions = task.questions.iter_mut();
    questions.find(|question| question.key == key && question.answer.is_none()).ok_or(Refusal::NotAsked)
}

/// Whether a question that was open is now closed.
pub(super) fn closes_one(task: &Task, next: &Task) -> bool {
    let is_open = |key: &str| next.open_questions().any(|question| question.key == key);
    task.open_questions().any(|question| !is_open(&question.key))
}
