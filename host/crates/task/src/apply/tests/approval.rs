//! Approvals: one decision, by those who may decide, about the call that they were shown.

use super::Refusal::{ApprovalChanged, ApprovalTooLate, NoApproval, NotApproved};
use super::*;
use crate::approval::{Approval, Confirm, ConfirmTerms, PAGE_KEY};
use crate::wire::QuestionKind;
use serde_json::json;

/// How long the approval waits (milliseconds).
const WAIT: u64 = 300;
/// When its time is up.
pub(super) const WAIT_OVER: i64 = BEGIN + WAIT as i64;

/// A task that waits for an approval by these, and whose caller can be asked.
pub(super) fn unapproved(by: ConfirmBy) -> Task {
    let mut task = task();
    let terms = ConfirmTerms { confirm: Confirm::Ask, by, message: None };
    let object = ApprovalObject::of(&task);
    let approval = Approval::asked(&terms, object, WAIT);
    let question = object.question(&approval, FENCE.attempt, Timestamp(WAIT_OVER));
    if by != ConfirmBy::Operator {
        task.questions.push(question);
    }
    task.approval = Some(Box::new(approval));
    task
}

pub(super) fn decided(decision: Decision) -> Event {
    let fingerprint = unapproved(ConfirmBy::Either).approval.expect("asked").fingerprint;
    Event::Decided { fingerprint, decision }
}

fn deny() -> Event {
    decided(Decision::Deny { note: Some("not today".into()) })
}

/// The answer of the person who calls.
fn person_says(yes: bool) -> Event {
    let answer = json!({"action": "accept", "content": {"approve": yes}});
    Event::Answered { key: CONFIRM_KEY.into(), answer: Ok(RawJson::of(&answer)) }
}

fn at(task: &Task, event: Event) -> Result<Task, Refusal> {
    apply(task, event, Timestamp(IN_TIME))
}

#[test]
fn nothing_runs_before_somebody_has_approved() {
    let task = unapproved(ConfirmBy::Operator);
    assert_eq!(task.status(), InputRequired);
    assert_eq!(at(&task, started()), Err(NotApproved));
    assert_eq!(at(&task, finished(result(false))), Err(NotApproved));
    let approved = at(&task, decided(Decision::Approve)).expect("in time");
    assert_eq!(approved.status(), Working);
    assert_eq!(at(&approved, started()).expect("approved").status(), Working);
}

#[test]
fn who_opens_the_page_of_the_operator_decides_nothing() {
    let mut task = unapproved(ConfirmBy::Operator);
    let approval = task.approval.clone().expect("asked");
    let page = ApprovalObject::of(&task).page(&approval, ("http://c/q/t", "e"), 1, Timestamp(WAIT_OVER));
    assert_eq!(page.kind, QuestionKind::Url);
    task.questions.push(page);
    for answer in [json!({"action": "accept"}), json!({"action": "accept", "content": {"approve": true}})] {
        let opened = Event::Answered { key: PAGE_KEY.into(), answer: Ok(RawJson::of(&answer)) };
        let opened = at(&task, opened).expect("open");
        assert_eq!((opened.status(), opened.open_questions().count()), (InputRequired, 0));
        assert_eq!(at(&opened, started()), Err(NotApproved));
    }
    let approved = at(&task, decided(Decision::Approve)).expect("in time");
    assert_eq!(approved.open_questions().count(), 0, "it is closed");
}

#[test]
fn the_first_decision_is_the_only_one() {
    let task = unapproved(ConfirmBy::Either);
    let events = [decided(Decision::Approve), deny(), person_says(true), person_says(false), cancelled()];
    for first in &events {
        let after = at(&task, first.clone()).expect("the first one");
        for second in &events[..4] {
            let late = at(&after, second.clone());
            assert!(matches!(late, Err(NoApproval | NotAsked | Terminal)), "{first:?}, {second:?}: {late:?}");
        }
        assert!(apply(&after, Event::ApprovalExpired, Timestamp(WAIT_OVER)).is_err(), "{first:?}, its time");
    }
}

#[test]
fn a_denied_call_ends_without_a_run_and_its_caller_reads_why() {
    for (event, words) in [(deny(), "not today"), (person_says(false), "The user did not approve")] {
        let Transition { task, effects } =
            transition(&unapproved(ConfirmBy::Either), event, Timestamp(IN_TIME)).expect("in time");
        assert_eq!(task.status(), Failed);
        let Some(Outcome::Result { is_error: true, result }) = &task.outcome else { panic!("{task:?}") };
        assert!(result.as_str().contains(words) && result.as_str().contains("Nothing was run"), "{result:?}");
        assert!(effects.contains(&Some(Effect::StopRun)) && effects.contains(&Some(Effect::RecordEnd)));
    }
}

#[test]
fn only_those_who_may_decide_do() {
    let of_person = unapproved(ConfirmBy::Person);
    assert_eq!(at(&of_person, decided(Decision::Approve)), Err(NoApproval), "the operator");
    assert_eq!(at(&of_person, person_says(true)).expect("the caller").status(), Working);
    let of_operator = unapproved(ConfirmBy::Operator);
    assert_eq!(at(&of_operator, person_says(true)), Err(NotAsked), "the caller");
    // A client that cannot show the question leaves it to the operator.
    let unable = Event::Answered { key: CONFIRM_KEY.into(), answer: Err(AskError::Unsupported("x".into())) };
    let still = at(&unapproved(ConfirmBy::Either), unable).expect("was asked");
    assert_eq!(at(&still, decided(Decision::Approve)).expect("the operator").status(), Working);
}

#[test]
fn an_approval_is_of_the_call_that_was_shown() {
    let task = unapproved(ConfirmBy::Operator);
    let other = Event::Decided { fingerprint: "00".repeat(32), decision: Decision::Approve };
    assert_eq!(at(&task, other), Err(ApprovalChanged));
    // No store changes arguments; if one did, the approval would not count.
    let changed = Task { arguments: RawJson::of(&json!({"to": "elsewhere"})), ..task };
    assert_eq!(at(&changed, decided(Decision::Approve)), Err(ApprovalChanged));
}

#[test]
fn another_component_is_approved_anew() {
    let claimed = |digest: &str| {
        let (from, digest) = (FENCE.incarnation, Digest(digest.into()));
        Event::Claimed { from, by: NEXT, digest, reached: 0 }
    };
    let approved = at(&unapproved(ConfirmBy::Either), decided(Decision::Approve)).expect("in time");
    let same = at(&approved, claimed("")).expect("claimed");
    assert!(same.open_approval().is_none(), "the same component keeps its approval");
    let other = at(&approved, claimed("ab")).expect("claimed");
    assert_eq!(at(&other, Event::Started { fence: other.fence }), Err(NotApproved));
    assert_eq!(at(&other, decided(Decision::Approve)), Err(ApprovalChanged), "the old page");
    assert_eq!(other.open_questions().count(), 1, "the caller is asked again");
    assert_eq!(other.open_approval().expect("open").expires_at(&other), Timestamp(IN_TIME + WAIT as i64));
}

#[test]
fn without_a_decision_the_call_is_denied_when_its_time_is_up() {
    let task = unapproved(ConfirmBy::Operator);
    let too_early = Timestamp(WAIT_OVER - 1);
    assert_eq!(apply(&task, Event::ApprovalExpired, too_early), Err(NotDue));
    assert_eq!(apply(&task, decided(Decision::Approve), too_early).expect("in time").status(), Working);
    let in_time = Timestamp(WAIT_OVER);
    assert_eq!(apply(&task, decided(Decision::Approve), in_time), Err(ApprovalTooLate));
    assert_eq!(apply(&task, Event::ApprovalExpired, in_time).expect("its time").status(), Failed);
}
