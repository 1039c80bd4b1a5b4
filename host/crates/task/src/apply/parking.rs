//! Tasks that wait without a run.

use super::{Refusal, WAITING_FOR_MEMORY, check_fence, waiting_for_tool};
use crate::id::Incarnation;
use crate::task::{Fence, Parked, Resume, Task};
use crate::wire::Timestamp;

/// Takes the task from its run. `next` equals `task`.
pub(super) fn park(
    task: &Task,
    next: &mut Task,
    fence: Fence,
    wake: Option<Timestamp>,
    reached: u64,
    now: Timestamp,
) -> Result<(), Refusal> {
    check_fence(task, fence)?;
    let resume = next.resume.as_mut().ok_or(Refusal::NotResumable)?;
    resume.note_length(reached);
    // A run that parks has repeated everything.
    resume.stalled = 0;
    // An answer may have come after the run decided to wait for it.
    resume.parked = Some(Parked { wake: wake.or_else(|| Some(at_an_answer(task, now))) });
    next.fence.incarnation = Incarnation::NOBODY;
    Ok(())
}

/// Gives a parked task to this host, whose run begins at once, if the task is due: it may have been woken and parked
/// since the host looked. `next` equals `task`.
pub(super) fn wake(task: &Task, next: &mut Task, by: Incarnation, now: Timestamp) -> Result<(), Refusal> {
    let parked = task.parked().ok_or(Refusal::NotParked)?;
    if parked.wake.is_none_or(|wake| now < wake) {
        return Err(Refusal::NotDue);
    }
    next.resume = task.resume.map(|resume| Resume { parked: None, ..resume });
    next.fence = Fence { incarnation: by, attempt: task.fence.attempt + 1 };
    next.started_at = Some(now);
    let waited_for = [WAITING_FOR_MEMORY.to_owned(), waiting_for_tool(&task.tool)];
    next.status_message.take_if(|message| waited_for.contains(message));
    Ok(())
}

/// The operator has a stuck task continued: it is due at once. `next` equals `task`.
pub(super) fn retry(task: &Task, next: &mut Task, now: Timestamp) -> Result<(), Refusal> {
    let stuck = task.resume.filter(|resume| resume.is_stuck && !task.is_live() && now < task.expires_at());
    let resume = stuck.ok_or(Refusal::NotStuck)?;
    let parked = Some(Parked { wake: Some(now) });
    next.resume = Some(Resume { stalled: 0, is_stuck: false, parked, ..resume });
    next.outcome = None;
    next.fence.incarnation = Incarnation::NOBODY;
    next.status_message = Some("The operator of this host has the task continued.".to_owned());
    Ok(())
}

/// A question of this task was closed. If the task is parked, it is due accordingly.
pub(super) fn set_wake(task: &mut Task, now: Timestamp) {
    if task.parked().is_some() {
        let wake = Some(at_an_answer(task, now));
        task.resume = task.resume.map(|resume| Resume { parked: Some(Parked { wake }), ..resume });
    }
}

/// When a task that waits for answers is due: now if no question is open, else at the first deadline of its
/// open questions.
fn at_an_answer(task: &Task, now: Timestamp) -> Timestamp {
    task.open_questions().map(|question| question.deadline).min().unwrap_or(now)
}

/// Whether the task waits without a run and its time has come.
pub(super) fn is_due(task: &Task, now: Timestamp) -> bool {
    task.parked().and_then(|parked| parked.wake).is_some_and(|wake| wake <= now)
}

impl Resume {
    /// Notes the length of the journal. Returns whether it grew.
    const fn note_length(&mut self, reached: u64) -> bool {
        let grew = reached > self.reached;
        if grew {
            self.reached = reached;
            self.stalled = 0;
        }
        grew
    }

    /// A run lost its host when the journal had this many entries. [`super::Event::Repeated`] came before if it had not
    /// been repeating.
    pub(super) const fn count_lost_run(&mut self, reached: u64) {
        if !self.note_length(reached) {
            self.stalled = self.stalled.saturating_add(1);
        }
    }
}
