//! Tasks that resume: parking, waking, and claims of runs that were recorded.

use super::Refusal::{NotDue, NotParked, NotResumable, NotStuck, TooManyQuestions};
use super::*;
use crate::recovery::{Durability, Recovery, recovery};
use crate::task::{JournalRetention, Resume};

const AT: Timestamp = Timestamp(IN_TIME);

/// A task whose runs are recorded, after these events.
pub(super) fn recorded(events: impl IntoIterator<Item = Event>) -> Task {
    let new = Task { resume: Some(Resume::default()), digest: Digest("pinned".into()), ..task() };
    events.into_iter().fold(new, |task, event| apply(&task, event, AT).expect("applies"))
}

pub(super) fn parked(wake: Option<i64>) -> Event {
    Event::Parked { fence: FENCE, wake: wake.map(Timestamp), reached: 5 }
}

fn woken() -> Event {
    Event::Woken { by: NEXT }
}

fn lost(from: Incarnation, reached: u64) -> Event {
    Event::Claimed { from, by: NEXT, digest: Digest("newer".into()), reached }
}

fn wake_of(task: &Task) -> Option<Timestamp> {
    task.parked().expect("is parked").wake
}

#[test]
fn a_task_whose_run_gave_up_its_journal_is_not_claimed_to_be_resumed() {
    let running = recorded([started()]);
    let given_up = Event::Unresumable { fence: FENCE, why: "full".into() };
    let given_up = apply(&running, given_up, AT).expect("applies");
    assert_eq!((given_up.resume, given_up.updated_at), (None, running.updated_at), "clients do not see it");
    let Recovery::End(why) = recovery(&given_up, Some(Durability::Resume), 1) else { panic!("is not run") };
    assert_eq!(why.to_string(), "It was not resumed: full");
    assert_eq!(apply(&given_up, lost(FENCE.incarnation, 3), AT), Err(NotResumable), "decided before");
}

#[test]
fn a_parked_task_belongs_to_no_host_and_waits_for_no_slot() {
    let running = recorded([started()]);
    let transition = transition(&running, parked(Some(IN_TIME + 70)), AT).expect("parks");
    assert_eq!(transition.effects.iter().flatten().collect::<Vec<_>>(), [&Effect::WakeWaiters]);
    let task = transition.task;
    assert_eq!(task.fence, Fence { incarnation: Incarnation::NOBODY, attempt: FENCE.attempt });
    assert_eq!(wake_of(&task), Some(Timestamp(IN_TIME + 70)));
    assert_eq!(task.resume.expect("is recorded").reached, 5);
    assert!(!task.waits() && task.journal_fence().is_none() && task.has_begun());
    assert_eq!((task.status(), task.updated_at), (Working, running.updated_at), "clients do not see it");
    // "No host" cannot change it either, and the run that parked cannot change what the next one does.
    let nobody = task.fence;
    let next = apply(&task, woken(), Timestamp(IN_TIME + 70)).expect("wakes");
    for (task, fence) in [(&task, nobody), (&task, FENCE), (&next, nobody), (&next, FENCE)] {
        for late in [
            Event::Started { fence },
            Event::Asked { fence, questions: vec![question("p")] },
            Event::Finished { fence, outcome: result(false), message: None },
            Event::Parked { fence, wake: None, reached: 9 },
            Event::Unresumable { fence, why: "late".into() },
            orphaned_by(fence.incarnation),
            lost(fence.incarnation, 9),
            Event::Taken { from: fence.incarnation, by: NEXT },
            Event::Released { incarnation: fence.incarnation },
        ] {
            assert_eq!(apply(task, late.clone(), AT), Err(Fenced), "{late:?}");
        }
    }
    assert_eq!(apply(&task, woken(), Timestamp(IN_TIME + 69)), Err(NotDue), "parked again since the look");
    // A host may say what the task waits for. The next run clears it.
    let said = Event::Said { fence: nobody, message: crate::apply::WAITING_FOR_MEMORY.into() };
    let said = apply(&task, said, AT).expect("is said");
    assert_eq!(apply(&said, woken(), Timestamp(IN_TIME + 70)).expect("wakes").status_message, None);
    let woken = next;
    assert_eq!(woken.fence, Fence { incarnation: NEXT, attempt: FENCE.attempt + 1 });
    let at = Timestamp(IN_TIME + 70);
    assert_eq!((woken.started_at, woken.parked(), woken.updated_at), (Some(at), None, task.updated_at));
    assert!(!woken.waits() && woken.journal_fence() == Some(woken.fence), "its run has begun");
    assert_eq!(apply(&woken, self::woken(), AT), Err(NotParked), "one host wakes it");
    // It is not stolen, and is parked again when its host leaves.
    let taken = Event::Taken { from: NEXT, by: Incarnation(10) };
    assert_eq!(apply(&woken, taken, AT), Err(AlreadyStarted));
    let again = Event::Parked { fence: woken.fence, wake: Some(AT), reached: 5 };
    assert!(!apply(&woken, again, AT).expect("parks").waits());
}

#[test]
fn an_answer_makes_a_parked_task_due_even_if_it_came_first() {
    let asking = recorded([started(), asked(&["q", "p"])]);
    let deadline = question("q").deadline;
    let waiting = apply(&asking, parked(None), AT).expect("parks");
    assert_eq!((wake_of(&waiting), waiting.status()), (Some(deadline), InputRequired));
    let one = apply(&waiting, answered("q"), AT).expect("is open");
    assert_eq!(wake_of(&one), Some(deadline), "another one is open");
    let both = apply(&one, answered("p"), Timestamp(IN_TIME + 7)).expect("is open");
    assert_eq!((wake_of(&both), both.status()), (Some(Timestamp(IN_TIME + 7)), Working));
    // The answers came between the run's decision and its commit.
    let late = recorded([started(), asked(&["q"]), answered("q"), parked(None)]);
    assert_eq!(wake_of(&late), Some(AT));
    let sleeping = recorded([started(), parked(Some(IN_TIME + 400))]);
    assert_eq!(wake_of(&sleeping), Some(Timestamp(IN_TIME + 400)), "nothing was asked");
}

#[test]
fn a_claim_of_a_recorded_task_keeps_its_component_and_counts_standstill() {
    let resume = |task: &Task| task.resume.map(|of| (of.reached, of.stalled)).expect("is recorded");
    let mut task = recorded([started(), lost(FENCE.incarnation, 3)]);
    assert_eq!((resume(&task), task.digest.0.as_str()), ((3, 0), "pinned"));
    assert_eq!(
        task.status_message.as_deref(),
        Some("The host that ran this task stopped. The task continues from where it was.")
    );
    // Effects since the claim was decided do not matter: its journal repeats none.
    let affected = recorded([started(), Event::Effects { fence: FENCE }]);
    assert_eq!(apply(&affected, lost(FENCE.incarnation, 3), AT).map(drop), Ok(()));
    // A run that had not begun says nothing about where the task stands.
    task = apply(&task, lost(NEXT, 3), AT).expect("applies");
    assert_eq!(resume(&task), (3, 0));
    for stalled in 1..=3 {
        assert_eq!(recovery(&task, Some(Durability::Resume), 1), Recovery::Resume, "whatever its attempts");
        task = apply(&task, Event::Started { fence: task.fence }, AT).expect("begins");
        // The length of the journal never shrinks.
        task = apply(&task, lost(NEXT, 3 - u64::from(stalled)), AT).expect("applies");
        assert_eq!(resume(&task), (3, stalled));
    }
    assert_eq!(recovery(&task, Some(Durability::Resume), 1), Recovery::End(NotRerun::Stalled));
    let ended = Event::Orphaned { incarnation: NEXT, departure: Departure::Died, why: NotRerun::Stalled };
    let ended = apply(&task, ended, AT).expect("ends").status_message.expect("says why");
    assert!(ended.contains("resumed 3 times"), "{ended}");
    task = apply(&task, Event::Started { fence: task.fence }, AT).expect("begins");
    let repeated = apply(&task, Event::Repeated { fence: task.fence }, AT).expect("goes on");
    assert_eq!(resume(&repeated), (3, 0), "it has not lost its host while it repeated");
    // Getting further counts, whether the run then loses its host or waits.
    let waits = apply(&task, Event::Parked { fence: task.fence, wake: None, reached: 4 }, AT).expect("parks");
    assert_eq!(resume(&waits), (4, 0));
    assert_eq!(resume(&apply(&task, lost(NEXT, 4), AT).expect("applies")), (4, 0));
    // So does waiting: the run has repeated everything.
    let waits = apply(&task, Event::Parked { fence: task.fence, wake: None, reached: 3 }, AT).expect("parks");
    assert_eq!(resume(&waits), (3, 0));
}

/// Only an end that is the fault of no tool is undone, and only in the ttl.
#[test]
fn the_operator_has_a_task_continued_that_stalled_or_diverged() {
    let resume = Some(Resume { stalled: 3, retention: JournalRetention::Drop, ..Resume::default() });
    let running = Task { resume, ..recorded([started()]) };
    let orphaned = |why| Event::Orphaned { incarnation: FENCE.incarnation, departure: Departure::Died, why };
    let (outcome, message) = (result(true), None);
    let diverged = Event::Stuck { fence: FENCE, outcome: outcome.clone(), message: message.clone() };
    for (end, is_stuck) in [
        (diverged, true),
        (orphaned(NotRerun::Stalled), true),
        (orphaned(NotRerun::NotDeclared), false),
        (Event::Finished { fence: FENCE, outcome, message }, false),
        (cancelled(), false),
    ] {
        let ended = apply(&running, end.clone(), AT).expect("ends");
        assert_eq!(ended.drops_journal(), !is_stuck, "{end:?}");
        let Ok(Transition { task, effects }) = transition(&ended, Event::Retried, AT) else {
            assert!(!is_stuck, "{end:?}");
            continue;
        };
        assert!(is_stuck && effects.contains(&Some(Effect::WakeRun)), "{end:?}");
        assert_eq!((task.status(), wake_of(&task), task.journal_fence()), (Working, Some(AT), None));
        let woken = apply(&task, woken(), AT).expect("is due");
        assert_eq!(recovery(&woken, Some(Durability::Resume), 1), Recovery::Resume);
        assert_eq!(apply(&ended, Event::Retried, ended.expires_at()), Err(NotStuck));
    }
    assert_eq!(apply(&running, Event::Retried, AT), Err(NotStuck), "it has not ended");
}

#[test]
fn a_run_that_hands_its_state_over_lets_the_next_one_ask_every_question_anew() {
    let answered = recorded([started(), asked(&["q"]), answered("q")]);
    let continued = apply(&answered, Event::Continued { fence: FENCE }, AT).expect("continues");
    assert_eq!(continued.updated_at, answered.updated_at, "clients do not see it");
    let parked = apply(&continued, parked(Some(IN_TIME)), AT).expect("parks");
    let woken = apply(&parked, woken(), AT).expect("wakes");
    let again = Event::Asked { fence: woken.fence, questions: vec![question("q")] };
    let asking = apply(&woken, again, AT).expect("asks");
    let [question] = &asking.questions[..] else { panic!("{:?}", asking.questions) };
    assert_eq!((question.answer.clone(), question.wire_key().as_ref()), (None, "q (2)"));
}

#[test]
fn the_questions_of_all_runs_of_a_task_are_bounded() {
    let keys: Vec<String> = (0..=MAX_QUESTIONS).map(|number| format!("q{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let full = recorded([started(), asked(&keys[..MAX_QUESTIONS])]);
    assert_eq!(apply(&full, asked(&keys[MAX_QUESTIONS..]), AT), Err(TooManyQuestions));
    assert_eq!(apply(&recorded([started()]), asked(&keys), AT), Err(TooManyQuestions));
}

#[test]
fn h_11_the_answers_that_a_task_keeps_are_bounded() {
    let large = || Ok(RawJson::of(&"x".repeat(MAX_ANSWERS_BYTES / 3)));
    let mut task = recorded([started(), asked(&["a", "b", "c", "d"])]);
    for key in ["a", "b", "c", "d"] {
        task = apply(&task, Event::Answered { key: key.into(), answer: large() }, AT).expect("asked");
    }
    let given: Vec<_> = task.questions.iter().map(|asked| matches!(asked.answer, Some(Ok(_)))).collect();
    assert_eq!(given, [true, true, false, false]);
    let small = apply(&task, Event::Answered { key: "d".into(), answer: Ok(RawJson::of(&1)) }, AT);
    assert!(small.is_err(), "it has its answer");
}
