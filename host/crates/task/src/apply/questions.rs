//! Questions of a task.

use super::Refusal;
use crate::task::{Fence, Question, Task};

/// The most questions of one task. One run asks at most `limits.questions`, which is not more; only a task that hands
/// its state over from run to run can reach this.
pub const MAX_QUESTIONS: usize = 1_000;

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
