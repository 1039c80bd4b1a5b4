//! The state machine of a task (T-17): the one place that decides a transition.
//!
//! Pure: a task, an event and the store's time give a new task and its effects, or a refusal.
//! Stores compare the version and write the new task. A writer that loses the compare reads again
//! and applies the event again, so that a late writer is judged by the newest record.

mod messages;
mod parking;
mod questions;

pub use messages::{WAITING_FOR_MEMORY, caller_left, waiting_for_tool};
pub use questions::{MAX_ANSWERS_BYTES, MAX_QUESTIONS};

use crate::approval::{ApprovalObject, ApprovedBy, CONFIRM_KEY, ConfirmBy, Decision};
use crate::confirmation::{NotApproved, approves};
use crate::event::{Event, StopsRun};
use crate::id::Incarnation;
use crate::recovery::NotRerun;
use crate::task::{Fence, Outcome, Question, Task};
use crate::wire::{RpcError, Timestamp};
use messages::orphan_message;
use questions::open;

/// How many of the latest requests of a question are remembered. A client that reconnects endlessly
/// must not make a record grow endlessly.
pub const MAX_SENT: usize = 16;

/// How often one question is asked again. After that, the guest gets the answer as it is.
pub const MAX_ASKED_AGAIN: u32 = 8;

/// Why an event does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The task has ended (T-17).
    #[error("the task is already over")]
    Terminal,
    /// The event comes from a run that was superseded.
    #[error("the event comes from a run that no longer owns the task")]
    Fenced,
    /// The time for this has not come: the ttl has not passed, or the task is parked for longer.
    #[error("the task's time is not up")]
    NotDue,
    /// The call waits for no approval, or not for one of the operator.
    #[error("the task does not wait for an approval of the operator")]
    NoApproval,
    /// The approver was shown another call.
    #[error("the call has changed since it was shown")]
    ApprovalChanged,
    /// The time for the approval is up.
    #[error("the time for an approval is up")]
    ApprovalTooLate,
    /// The call is not approved.
    #[error("the call is not approved")]
    NotApproved,
    /// No question of this key waits for an answer.
    #[error("no such question is open")]
    NotAsked,
    /// A question of this key was asked before.
    #[error("the key of the question was used before")]
    KeyReused,
    /// The task has asked [`MAX_QUESTIONS`].
    #[error("the task has asked as many questions as a task may ask")]
    TooManyQuestions,
    /// The run has begun already.
    #[error("the run has begun already")]
    AlreadyStarted,
    /// The caller knows of the task already.
    #[error("the caller has been told before")]
    AlreadyDelivered,
    /// The task is not parked.
    #[error("the task is not parked")]
    NotParked,
    /// The run has had effects that must not be repeated.
    #[error("the run has had effects that must not be repeated")]
    HadEffects,
    /// The task has no journal.
    #[error("the task cannot be resumed")]
    NotResumable,
    /// The task did not fail because its runs could not continue.
    #[error("only a task that failed because it stalled or diverged can be resumed")]
    NotStuck,
}

/// An effect of a transition, for after its commit. The order is that of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Count the end, and the bytes that are kept of the task.
    RecordEnd,
    /// Withdraw the questions that no longer wait for an answer, while their routes are still known.
    WithdrawQuestions,
    /// Notify the client of the new state of the task (T-37).
    NotifyStatus,
    /// Wake those that wait for a change of the task.
    WakeWaiters,
    /// Stop the run of the task: its outcome was decided elsewhere.
    StopRun,
    /// Give the parked task a run: it is due.
    WakeRun,
}

/// A task after an event, and the effects of the transition. The code that commits the task carries out
/// the effects, in one place.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Transition {
    /// The task after the event.
    pub task: Task,
    /// The effects, in their order; each one at most once.
    pub effects: [Option<Effect>; 6],
}

/// Applies `event` to `task` at the store's time `now`.
///
/// # Errors
/// [`Refusal`]; then the task stays unchanged.
pub fn apply(task: &Task, event: Event, now: Timestamp) -> Result<Transition, Refusal> {
    if !task.is_live() && !matches!(event, Event::Delivered | Event::Retried) {
        return Err(Refusal::Terminal);
    }
    let row = event.row();
    let mut next = task.clone();
    change(task, &mut next, event, now)?;
    note_change(task, &mut next, row.is_visible, now);
    let is_shown = task.status_message != next.status_message || task.status() != next.status();
    let has_ended = task.is_live() && next.outcome.is_some();
    let stops = match row.stops_run {
        StopsRun::Never => false,
        // A parked task has no run.
        StopsRun::AtEnd => has_ended && task.parked().is_none(),
        StopsRun::Always => true,
    };
    let effects = [
        has_ended.then_some(Effect::RecordEnd),
        questions::closes_one(task, &next).then_some(Effect::WithdrawQuestions),
        is_shown.then_some(Effect::NotifyStatus),
        Some(Effect::WakeWaiters),
        stops.then_some(Effect::StopRun),
        parking::is_due(&next, now).then_some(Effect::WakeRun),
    ];
    Ok(Transition { task: next, effects })
}

/// Turns `next`, which equals `task`, into the task after the event.
fn change(task: &Task, next: &mut Task, event: Event, now: Timestamp) -> Result<(), Refusal> {
    let is_stuck = matches!(event, Event::Stuck { .. } | Event::Orphaned { why: NotRerun::Stalled, .. });
    match event {
        Event::Started { fence } => {
            check_fence(task, fence)?;
            if task.started_at.is_some() {
                return Err(Refusal::AlreadyStarted);
            }
            if task.open_approval().is_some() {
                return Err(Refusal::NotApproved);
            }
            next.started_at = Some(now);
            // A task that continues says so until its guest says something else.
            if task.resume.is_none() || task.fence.attempt == 1 {
                next.status_message = None;
            }
        }
        Event::Said { fence, message } => {
            // A host may say why a parked task goes on waiting. No run has the fence of such a task.
            if task.fence != fence {
                return Err(Refusal::Fenced);
            }
            next.status_message = Some(message);
        }
        Event::Effects { fence } => {
            check_fence(task, fence)?;
            next.effects = true;
        }
        Event::Asked { fence, questions } => {
            check_fence(task, fence)?;
            for question in questions {
                questions::ask(next, fence, question)?;
            }
        }
        Event::Sent { key, sent } => {
            let requests = &mut open(next, &key)?.sent;
            if requests.len() == MAX_SENT {
                requests.remove(0);
            }
            requests.push(sent);
        }
        Event::Entrusted { key, client_task } => {
            let question = open(next, &key)?;
            if question.client_task.is_some() {
                return Err(Refusal::NotAsked);
            }
            question.client_task = Some(client_task);
        }
        Event::Answered { key, answer } => {
            questions::answer(next, &key, answer)?;
            if key == CONFIRM_KEY {
                settle_by_person(next);
            }
            parking::set_wake(next, now);
        }
        Event::Decided { fingerprint, decision } => {
            let approval = task.open_approval().filter(|approval| approval.is_for_operator());
            let approval = approval.ok_or(Refusal::NoApproval)?;
            if approval.fingerprint != fingerprint || !approval.is_of(task) {
                return Err(Refusal::ApprovalChanged);
            }
            if now >= approval.expires_at(task) {
                return Err(Refusal::ApprovalTooLate);
            }
            match decision {
                Decision::Approve => approve(next, ApprovedBy::Operator),
                Decision::Deny { note } => refuse(next, NotApproved::ByOperator(note.as_deref())),
            }
        }
        Event::ApprovalExpired => {
            let approval = task.open_approval().ok_or(Refusal::NoApproval)?;
            if now < approval.expires_at(task) {
                return Err(Refusal::NotDue);
            }
            refuse(next, NotApproved::InTime { wait_ms: approval.wait_ms });
        }
        Event::AskedAgain { fence, key } => {
            fence.map_or(Ok(()), |fence| check_fence(task, fence))?;
            let meant = |question: &&mut Question| {
                question.key == key
                    && question.asked_again < MAX_ASKED_AGAIN
                    && (question.answer.is_some() == fence.is_some())
            };
            let question = next.questions.iter_mut().find(meant).ok_or(Refusal::NotAsked)?;
            question.asked_again += 1;
            question.answer = None;
            question.client_task = None;
        }
        Event::Delivered => {
            let bridged = next.bridged.as_mut().filter(|bridged| bridged.undelivered);
            bridged.ok_or(Refusal::AlreadyDelivered)?.undelivered = false;
        }
        Event::CallerLeft => {
            if !task.is_undelivered() {
                return Err(Refusal::AlreadyDelivered);
            }
            next.status_message = Some(caller_left(task.status_message.as_deref()));
        }
        Event::Finished { fence, outcome, message } | Event::Stuck { fence, outcome, message } => {
            check_fence(task, fence)?;
            if task.open_approval().is_some() {
                return Err(Refusal::NotApproved);
            }
            // A status of the run ("step 3 of 4") says nothing about the end.
            next.status_message = message;
            next.outcome = Some(outcome);
        }
        Event::Cancelled { message } => {
            next.status_message = Some(message);
            next.outcome = Some(Outcome::Cancelled);
            if let Some(bridged) = &mut next.bridged {
                // An equal call runs again, because the owner or the operator wanted the end.
                bridged.undelivered = false;
            }
        }
        Event::Expired => {
            if now < task.expires_at() {
                return Err(Refusal::NotDue);
            }
            next.status_message =
                Some(format!("The task did not end within its ttl of {} ms and was stopped.", task.ttl_ms));
            next.outcome = Some(Outcome::Expired);
        }
        Event::Orphaned { incarnation, departure, why } => {
            check_holder(task, incarnation)?;
            let message = orphan_message(task, departure, &why, now);
            next.outcome = Some(Outcome::Error(RpcError::internal(message.clone())));
            next.status_message = Some(message);
        }
        Event::Claimed { from, by, digest, reached } => {
            check_holder(task, from)?;
            // Its last run has given up its journal, or had effects, since the claim was decided.
            if reached > 0 && task.resume.is_none() {
                return Err(Refusal::NotResumable);
            }
            if task.effects && task.resume.is_none() {
                return Err(Refusal::HadEffects);
            }
            // A task that had begun gets another attempt; any other one is still at its first.
            let attempt = task.fence.attempt + u32::from(task.started_at.is_some());
            next.fence = Fence { incarnation: by, attempt };
            match &mut next.resume {
                Some(resume) if task.started_at.is_some() => resume.count_lost_run(reached),
                Some(_) => {}
                None => next.digest = digest,
            }
            next.started_at = None;
            ask_for_approval_again(next, now);
            next.status_message = Some(if attempt == 1 {
                "Waiting for its turn; the host that had accepted it stopped.".to_owned()
            } else if task.resume.is_some() {
                "The host that ran this task stopped. The task continues from where it was.".to_owned()
            } else {
                format!("The host that ran it stopped; it is run again (attempt {attempt}).")
            });
            if let Some(approval) = next.open_approval() {
                next.status_message = Some(approval.status_message());
            }
        }
        Event::Taken { from, by } => {
            check_holder(task, from)?;
            if task.started_at.is_some() {
                return Err(Refusal::AlreadyStarted);
            }
            next.fence.incarnation = by;
        }
        Event::Released { incarnation } => {
            check_holder(task, incarnation)?;
            next.status_message = Some(if task.has_begun() && task.resume.is_some() {
                format!("The host that ran this task was shut down at {now}; the next one continues it.")
            } else if task.has_begun() {
                format!("The host that ran it was shut down at {now}; the next one runs it again.")
            } else {
                format!("The host that had accepted it was shut down at {now}; it waits for the next one.")
            });
        }
        Event::Parked { fence, wake, reached } => parking::park(task, next, fence, wake, reached, now)?,
        Event::Woken { by } => parking::wake(task, next, by, now)?,
        Event::Repeated { fence } => {
            check_fence(task, fence)?;
            next.resume.as_mut().ok_or(Refusal::NotResumable)?.stalled = 0;
        }
        Event::Continued { fence } => {
            check_fence(task, fence)?;
            task.resume.ok_or(Refusal::NotResumable)?;
            next.questions.iter_mut().for_each(Question::supersede);
        }
        Event::Retried => parking::retry(task, next, now)?,
        Event::Unresumable { fence, why } => {
            check_fence(task, fence)?;
            next.resume.take().ok_or(Refusal::NotResumable)?;
            next.unresumable = Some(why);
        }
    }
    if task.is_live()
        && next.outcome.is_some()
        && let Some(resume) = &mut next.resume
    {
        (resume.parked, resume.is_stuck) = (None, is_stuck);
    }
    Ok(())
}

/// Counts the change.
fn note_change(task: &Task, next: &mut Task, is_visible: bool, now: Timestamp) {
    next.version = task.version + 1;
    // Strictly later than before, so that a listing by time is stable even if a
    // clock steps back (T-20).
    if is_visible || next.status_message != task.status_message {
        next.updated_at = Timestamp(now.0.max(task.updated_at.0 + 1));
    }
}

/// The call may run.
fn approve(task: &mut Task, by: ApprovedBy) {
    if let Some(approval) = &mut task.approval {
        approval.given = Some(by);
    }
    questions::close(task);
    task.status_message = Some("Approved; waiting for its turn.".to_owned());
}

/// The call ends without having run.
fn refuse(task: &mut Task, why: NotApproved<'_>) {
    let (outcome, message) = why.outcome(&task.tool);
    task.outcome = Some(outcome);
    task.status_message = Some(message);
}

/// The person who calls has answered whether the call may run.
fn settle_by_person(task: &mut Task) {
    let Some(by) = task.open_approval().map(|approval| approval.by) else { return };
    let mut questions = task.questions.iter();
    let answer =
        questions.find(|question| question.key == CONFIRM_KEY).and_then(|question| question.answer.as_ref());
    match answer {
        Some(Ok(answer)) if approves(answer) => approve(task, ApprovedBy::Person),
        // Without an answer the operator may still decide.
        Some(Err(_)) if by == ConfirmBy::Either => {}
        _ => refuse(task, NotApproved::ByPerson),
    }
}

/// An approval counts for one component. A task that another one takes over waits for a new approval.
fn ask_for_approval_again(task: &mut Task, now: Timestamp) {
    if task.approval.as_ref().is_none_or(|approval| approval.is_of(task)) {
        return;
    }
    let Some(mut approval) = task.approval.take() else { return };
    let object = ApprovalObject::of(task);
    *approval = approval.asked_again(object, now);
    let (attempt, deadline) = (task.fence.attempt, approval.expires_at(task));
    for asked in task.questions.iter_mut().filter(|question| questions::is_about_approval(question)) {
        // Its text names no component.
        (asked.attempt, asked.deadline, asked.answer) = (attempt, deadline, None);
        (asked.sent, asked.client_task) = (Vec::new(), None);
        asked.asked_again += 1;
    }
    task.approval = Some(approval);
}

/// No run has a parked task.
fn check_fence(task: &Task, fence: Fence) -> Result<(), Refusal> {
    if task.fence == fence && task.parked().is_none() { Ok(()) } else { Err(Refusal::Fenced) }
}

/// A parked task has no holder.
fn check_holder(task: &Task, incarnation: Incarnation) -> Result<(), Refusal> {
    if task.fence.incarnation == incarnation && task.parked().is_none() {
        Ok(())
    } else {
        Err(Refusal::Fenced)
    }
}

#[cfg(test)]
mod tests;
