use super::Refusal::{AlreadyStarted, Fenced, HadEffects, KeyReused, NotAsked, NotDue, Terminal};
use super::{apply as transition, *};
use crate::error::AskError;
use crate::id::Digest;
use crate::recovery::Departure;
use crate::task::EXPIRED_KEPT_MS;
use crate::task::Sent;
use crate::wire::RawJson;
use crate::wire::TaskStatus;
use crate::wire::TaskStatus::{Cancelled, Completed, Failed, InputRequired, Working};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

mod approval;
mod delivery;
mod resuming;
mod table;

const BEGIN: i64 = 1_000_000;
const TTL: u64 = 1_000;
const FENCE: Fence = Fence { incarnation: Incarnation(7), attempt: 2 };
/// The host that takes over.
const NEXT: Incarnation = Incarnation(9);
/// Runs that were superseded, or do not exist yet.
const OTHERS: [Fence; 4] = [
    Fence { incarnation: Incarnation(7), attempt: 1 },
    Fence { incarnation: Incarnation(7), attempt: 1_000 },
    Fence { incarnation: Incarnation(6), attempt: 2 },
    Fence { incarnation: Incarnation(8), attempt: 2 },
];

fn apply(task: &Task, event: Event, now: Timestamp) -> Result<Task, Refusal> {
    transition(task, event, now).map(|transition| transition.task)
}

fn task() -> Task {
    let at = Timestamp(BEGIN);
    let status_message = Some("waits".into());
    Task { created_at: at, updated_at: at, status_message, fence: FENCE, ..crate::tests::task() }
}

fn question(key: &str) -> Question {
    let deadline = Timestamp(BEGIN + 500);
    Question { attempt: FENCE.attempt, deadline, ..crate::tests::question(key) }
}

fn started() -> Event {
    Event::Started { fence: FENCE }
}

fn said() -> Event {
    Event::Said { fence: FENCE, message: "half way".into() }
}

fn sent(key: &str, id: &str) -> Event {
    Event::Sent { key: key.into(), sent: Sent { id: id.into(), session: None } }
}

fn asked(keys: &[&str]) -> Event {
    Event::Asked { fence: FENCE, questions: keys.iter().map(|key| question(key)).collect() }
}

fn answered(key: &str) -> Event {
    Event::Answered { key: key.into(), answer: Ok(RawJson::trusted("{}")) }
}

fn finished(outcome: Outcome) -> Event {
    Event::Finished { fence: FENCE, outcome, message: None }
}

fn result(is_error: bool) -> Outcome {
    Outcome::Result { is_error, result: RawJson::trusted(r#"{"content":[]}"#) }
}

fn cancelled() -> Event {
    Event::Cancelled { message: "stop".into() }
}

fn orphaned() -> Event {
    orphaned_by(FENCE.incarnation)
}

fn orphaned_by(incarnation: Incarnation) -> Event {
    Event::Orphaned { incarnation, departure: Departure::Died, why: NotRerun::NotDeclared }
}

fn claimed(from: Incarnation) -> Event {
    claimed_by(from, NEXT)
}

fn claimed_by(from: Incarnation, by: Incarnation) -> Event {
    Event::Claimed { from, by, digest: Digest(String::new()), reached: 0 }
}

fn released() -> Event {
    Event::Released { incarnation: FENCE.incarnation }
}

/// The task after these events, all of which must apply.
fn after(events: impl IntoIterator<Item = Event>, now: i64) -> Task {
    events.into_iter().fold(task(), |task, event| apply(&task, event, Timestamp(now)).expect("applies"))
}

const IN_TIME: i64 = BEGIN + 10;
const TOO_LATE: i64 = BEGIN + TTL as i64;

/// 26T-18, 26T-22: a question whose answer does not fit is open again under a key that was never used,
/// up to the bound.
#[test]
fn what_does_not_fit_is_asked_again_under_another_key() {
    let again = |fence| Event::AskedAgain { fence, key: "q".into() };
    let mut task = after([started(), asked(&["q"])], IN_TIME);
    let mut keys = vec![task.questions[0].wire_key().into_owned()];
    assert_eq!(apply(&task, again(Some(FENCE)), Timestamp(IN_TIME)), Err(NotAsked), "nothing was answered");
    for time in 0..MAX_ASKED_AGAIN {
        let by_run = time % 2 == 0;
        if by_run {
            task = apply(&task, answered("q"), Timestamp(IN_TIME)).expect("is open");
            assert_eq!(task.status(), TaskStatus::Working);
            let zombie = apply(&task, again(Some(OTHERS[0])), Timestamp(IN_TIME));
            assert_eq!(zombie, Err(Fenced));
            assert_eq!(apply(&task, again(None), Timestamp(IN_TIME)), Err(NotAsked), "it has an answer");
        }
        task = apply(&task, again(by_run.then_some(FENCE)), Timestamp(IN_TIME)).expect("applies");
        assert_eq!(task.status(), TaskStatus::InputRequired);
        keys.push(task.questions[0].wire_key().into_owned());
    }
    assert_eq!(apply(&task, again(None), Timestamp(IN_TIME)), Err(NotAsked), "too often");
    assert_eq!(&keys[..3], ["q", "q (2)", "q (3)"]);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 1 + MAX_ASKED_AGAIN as usize);
}

#[test]
fn ir_7_the_latest_requests_of_a_question_are_remembered() {
    let mut task = after([started(), asked(&["q"])], IN_TIME);
    for number in 0..MAX_SENT + 5 {
        task = apply(&task, sent("q", &number.to_string()), Timestamp(IN_TIME)).expect("open");
    }
    assert_eq!(task.questions[0].sent.len(), MAX_SENT);
    assert!(task.question_sent_as("4").is_none());
    assert!(task.question_sent_as("5").is_some() && task.question_sent_as("20").is_some());
}

#[test]
fn t_21_a_task_whose_ttl_passes_is_ended_first_and_goes_later() {
    let live = after([started()], IN_TIME);
    assert_eq!(live.due_at(), Timestamp(TOO_LATE));
    assert!(!live.is_gone(Timestamp(TOO_LATE + 1_000_000)), "a live task never vanishes");
    let ended = apply(&live, Event::Expired, Timestamp(TOO_LATE + 5)).expect("is due");
    let until = Timestamp(TOO_LATE + 5).plus(EXPIRED_KEPT_MS);
    assert_eq!(ended.due_at(), until);
    assert!(!ended.is_gone(Timestamp(until.0 - 1)) && ended.is_gone(until));
    let message = ended.status_message.expect("says why");
    assert!(message.contains("ttl of 1000 ms"), "{message}");

    let in_time = apply(&live, finished(result(false)), Timestamp(IN_TIME)).expect("applies");
    assert!(!in_time.is_gone(Timestamp(TOO_LATE - 1)) && in_time.is_gone(Timestamp(TOO_LATE)));
}

#[test]
fn what_a_run_said_of_itself_ends_with_the_run() {
    let running = after([started(), said()], IN_TIME);
    assert_eq!(running.status_message.as_deref(), Some("half way"));
    let ended = apply(&running, finished(result(false)), Timestamp(IN_TIME)).expect("applies");
    assert_eq!(ended.status_message, None);
    assert_eq!(after([started()], IN_TIME).status_message, None, "it waits no more");
}

#[test]
fn an_orphan_says_whether_anything_may_have_happened() {
    let message = |task: &Task| {
        let ended = apply(task, orphaned(), Timestamp(IN_TIME)).expect("applies");
        let message = ended.status_message.expect("says why");
        assert_eq!(ended.outcome, Some(Outcome::Error(RpcError::internal(message.clone()))));
        message
    };
    let first = Task { fence: Fence { attempt: 1, ..FENCE }, ..task() };
    assert!(message(&first).contains("nothing was done"));
    let begun = message(&after([started()], IN_TIME));
    assert_eq!(
        begun,
        "The host that ran this task stopped unexpectedly (seen at 1970-01-01T00:16:40.010Z); the task had begun at \
         1970-01-01T00:16:40.010Z, 0.0 s before. The tool is not declared idempotent or read-only, so it was not run \
         again; it may have had effects."
    );
    let affected = [started(), Event::Effects { fence: FENCE }];
    assert!(message(&after(affected, IN_TIME)).contains("it has had effects, or some of them"));
    let left = |task: &Task, departure, why| {
        let event = Event::Orphaned { incarnation: task.fence.incarnation, departure, why };
        apply(task, event, Timestamp(IN_TIME)).expect("applies").status_message.expect("says why")
    };
    // Claimed, and not begun again: the effects of an earlier run are not forgotten.
    let claimed = after([started(), claimed(FENCE.incarnation)], IN_TIME);
    let ended = left(&claimed, Departure::ShutDown, NotRerun::Attempts(3));
    assert!(ended.contains("was shut down") && ended.contains("an earlier run had begun"), "{ended}");
    assert!(ended.contains("It was run 3 times") && ended.contains("may have had effects"), "{ended}");
    let ended = left(&first, Departure::Died, NotRerun::Misfit("`ms` is missing".into()));
    assert!(ended.ends_with("Its tool has changed and its arguments do not fit: `ms` is missing"), "{ended}");
}

#[test]
fn a_claim_is_a_new_run_and_shuts_out_the_old_one() {
    let first = Fence { incarnation: NEXT, attempt: FENCE.attempt };
    let second = Fence { incarnation: NEXT, attempt: FENCE.attempt + 1 };
    let not_begun = after([claimed(FENCE.incarnation)], IN_TIME);
    assert_eq!(not_begun.started_at, None);
    assert_eq!(not_begun.fence, first, "what had not begun is no other attempt");
    let begun = after([started(), said(), claimed(FENCE.incarnation)], IN_TIME);
    assert_eq!((begun.fence, begun.started_at), (second, None));
    assert!(begun.has_begun());
    assert!(begun.status_message.as_deref().is_some_and(|message| message.contains("attempt")));
    // A4: late events of the old host change nothing, and the next host can claim it.
    for late in [started(), released(), claimed(FENCE.incarnation)] {
        assert_eq!(apply(&begun, late, Timestamp(IN_TIME)), Err(Fenced));
    }
    let again = claimed_by(NEXT, Incarnation(NEXT.0 + 1));
    let again = apply(&begun, again, Timestamp(IN_TIME)).expect("applies");
    assert_eq!(again.fence.attempt, second.attempt, "it had not begun this time");
    let running = apply(&begun, Event::Started { fence: second }, Timestamp(IN_TIME)).expect("begins again");
    assert_eq!((running.started_at, running.status_message), (Some(Timestamp(IN_TIME)), None));
}

#[test]
fn ir_7_what_an_earlier_run_asked_is_not_asked_again() {
    let fence = Fence { incarnation: NEXT, attempt: FENCE.attempt + 1 };
    let again = |key: &str, params: &str| Question {
        params: RawJson::trusted(params.to_owned()),
        attempt: fence.attempt,
        deadline: Timestamp(BEGIN + 900),
        ..question(key)
    };
    let before = [started(), asked(&["open", "known", "other"]), sent("open", "r"), answered("known")];
    let before = after(before.into_iter().chain([answered("other"), claimed(FENCE.incarnation)]), IN_TIME);
    assert_eq!(before.status(), InputRequired, "the client may answer meanwhile");
    let asks = |questions| apply(&before, Event::Asked { fence, questions }, Timestamp(IN_TIME));
    let after =
        asks(vec![again("open", "{}"), again("known", "{}"), again("other", r#"{"a":1}"#)]).expect("applies");
    let [open, known, other] = &after.questions[..] else { panic!("three questions") };
    assert_eq!((open.deadline, open.sent.len(), &*open.wire_key()), (Timestamp(BEGIN + 900), 1, "open"));
    assert!(open.answer.is_none() && known.answer.is_some());
    // 26T-18: a different question gets another key for its client.
    assert_eq!((other.answer.as_ref(), other.wire_key().as_ref()), (None, "other (2)"));
    // Within one run, a key stands for one question.
    let twice = Event::Asked { fence, questions: vec![again("open", "{}")] };
    assert_eq!(apply(&after, twice, Timestamp(IN_TIME)), Err(KeyReused));
    assert_eq!(asks(vec![again("new", "{}"), again("new", "{}")]), Err(KeyReused));
}

/// A random event. `by` is the number of a run, fenced off or not.
#[derive(Debug, Clone)]
enum Action {
    Start { by: Option<usize> },
    Say { by: Option<usize> },
    Affect { by: Option<usize> },
    Ask { by: Option<usize>, keys: Vec<u8> },
    Answer { key: u8, well: bool },
    Send { key: u8 },
    Entrust { key: u8 },
    Finish { by: Option<usize>, outcome: Outcome },
    Cancel,
    Expire,
    Orphan { mine: bool },
    Claim { mine: bool },
    Release { mine: bool },
}

impl Action {
    fn event(&self, mine: Fence) -> Event {
        let fence = |by: &Option<usize>| by.map_or(mine, |other| OTHERS[other]);
        let holder = |mine| Incarnation(if mine { FENCE.incarnation.0 } else { 99 });
        let question = |key: &u8| Question { attempt: mine.attempt, ..question(&key.to_string()) };
        match self {
            Self::Start { by } => Event::Started { fence: fence(by) },
            Self::Say { by } => Event::Said { fence: fence(by), message: "so".into() },
            Self::Affect { by } => Event::Effects { fence: fence(by) },
            Self::Ask { by, keys } => {
                Event::Asked { fence: fence(by), questions: keys.iter().map(question).collect() }
            }
            Self::Answer { key, well } => {
                let answer = if *well { Ok(RawJson::trusted("1")) } else { Err(AskError::TimedOut) };
                Event::Answered { key: key.to_string(), answer }
            }
            Self::Send { key } => sent(&key.to_string(), "r"),
            Self::Entrust { key } => Event::Entrusted { key: key.to_string(), client_task: "theirs".into() },
            Self::Finish { by, outcome } => {
                Event::Finished { fence: fence(by), outcome: outcome.clone(), message: None }
            }
            Self::Cancel => cancelled(),
            Self::Expire => Event::Expired,
            Self::Orphan { mine } => orphaned_by(holder(*mine)),
            // It stays with its host, so that later events come from the same host.
            Self::Claim { mine } => claimed_by(holder(*mine), FENCE.incarnation),
            Self::Release { mine } => Event::Released { incarnation: holder(*mine) },
        }
    }
}

/// A minimal model of the state machine: no times except the end of the ttl, no texts, one kind of end.
#[derive(Debug, Default)]
struct Model {
    begun: bool,
    affected: bool,
    /// How often the task was claimed after it had begun.
    claims: u32,
    /// Keys of questions, each with its attempt and whether it was answered.
    keys: BTreeMap<u8, (u32, bool)>,
    /// Keys of questions that the client runs as tasks.
    entrusted: BTreeSet<u8>,
    end: Option<TaskStatus>,
}

impl Model {
    fn step(&mut self, action: &Action, now: i64) -> Result<(), Refusal> {
        if self.end.is_some() {
            return Err(Terminal);
        }
        match action {
            Action::Start { by: Some(_) }
            | Action::Say { by: Some(_) }
            | Action::Affect { by: Some(_) }
            | Action::Ask { by: Some(_), .. }
            | Action::Finish { by: Some(_), .. }
            | Action::Orphan { mine: false }
            | Action::Claim { mine: false }
            | Action::Release { mine: false } => return Err(Fenced),
            Action::Claim { mine: true } if self.affected => return Err(HadEffects),
            Action::Claim { mine: true } => self.claims += u32::from(std::mem::take(&mut self.begun)),
            Action::Release { mine: true } => {}
            Action::Start { by: None } if self.begun => return Err(AlreadyStarted),
            Action::Start { by: None } => self.begun = true,
            Action::Say { by: None } => {}
            Action::Affect { by: None } => self.affected = true,
            Action::Ask { by: None, keys } => {
                let mut all = self.keys.clone();
                for key in keys {
                    // The same question of an earlier attempt keeps its answer.
                    let (attempt, _) = all.entry(*key).or_insert((u32::MAX, false));
                    if *attempt == self.claims {
                        return Err(KeyReused);
                    }
                    *attempt = self.claims;
                }
                self.keys = all;
            }
            Action::Answer { key, .. } => match self.keys.get_mut(key) {
                Some((_, answered @ false)) => *answered = true,
                _ => return Err(NotAsked),
            },
            Action::Send { key } => match self.keys.get(key) {
                Some((_, false)) => {}
                _ => return Err(NotAsked),
            },
            Action::Entrust { key } => match self.keys.get(key) {
                Some((_, false)) if self.entrusted.insert(*key) => {}
                _ => return Err(NotAsked),
            },
            Action::Finish { by: None, outcome: Outcome::Result { is_error: false, .. } } => {
                self.end = Some(Completed);
            }
            Action::Finish { by: None, .. } | Action::Orphan { mine: true } => self.end = Some(Failed),
            Action::Cancel => self.end = Some(Cancelled),
            Action::Expire if now < TOO_LATE => return Err(NotDue),
            Action::Expire => self.end = Some(Failed),
        }
        Ok(())
    }

    fn status(&self) -> TaskStatus {
        let open = self.keys.values().any(|(_, answered)| !answered);
        self.end.unwrap_or(if open { InputRequired } else { Working })
    }
}

fn action() -> impl Strategy<Value = Action> {
    let by = || prop_oneof![4 => Just(None), 1 => (0..OTHERS.len()).prop_map(Some)];
    let broke = Outcome::Error(RpcError::internal("broke"));
    let outcome = proptest::sample::select(vec![result(false), result(true), broke]);
    // Ends are rare, so that sequences are long.
    prop_oneof![
        4 => by().prop_map(|by| Action::Start { by }),
        4 => by().prop_map(|by| Action::Say { by }),
        2 => by().prop_map(|by| Action::Affect { by }),
        6 => (by(), vec(0..6_u8, 0..3)).prop_map(|(by, keys)| Action::Ask { by, keys }),
        6 => (0..6_u8, any::<bool>()).prop_map(|(key, well)| Action::Answer { key, well }),
        4 => (0..6_u8).prop_map(|key| Action::Send { key }),
        3 => (0..6_u8).prop_map(|key| Action::Entrust { key }),
        1 => (by(), outcome).prop_map(|(by, outcome)| Action::Finish { by, outcome }),
        1 => Just(Action::Cancel),
        3 => Just(Action::Expire),
        1 => any::<bool>().prop_map(|mine| Action::Orphan { mine }),
        3 => any::<bool>().prop_map(|mine| Action::Claim { mine }),
        1 => any::<bool>().prop_map(|mine| Action::Release { mine }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn t_17_t_18_t_20_t_35_apply_agrees_with_the_model(
        steps in vec((action(), -50..120_i64), 1..60),
    ) {
        let mut task = task();
        let mut model = Model::default();
        let mut now = BEGIN;
        for (action, passed) in steps {
            now += passed;
            let expected = model.step(&action, now);
            let next = apply(&task, action.event(task.fence), Timestamp(now));
            prop_assert_eq!(next.as_ref().map(drop), expected.as_ref().map(drop));
            let Ok(next) = next else { continue };
            prop_assert_eq!(next.version, task.version + 1);
            if matches!(action, Action::Affect { .. } | Action::Send { .. } | Action::Entrust { .. }) {
                prop_assert_eq!(next.view(), task.view(), "nothing to be seen from outside");
            } else {
                // The time of the last change rises even if the clock steps back.
                prop_assert_eq!(next.updated_at, Timestamp(now).max(task.updated_at.plus(1)));
            }
            prop_assert_eq!(next.status(), model.status());
            prop_assert_eq!(next.is_live(), model.end.is_none());
            prop_assert_eq!(next.status().is_terminal(), model.end.is_some());
            prop_assert_eq!(next.started_at.is_some(), model.begun);
            prop_assert_eq!(next.effects, model.affected);
            prop_assert_eq!(next.fence, Fence { attempt: FENCE.attempt + model.claims, ..FENCE });
            let open = next.questions.iter().filter(|question| question.answer.is_none()).count();
            prop_assert_eq!(open, model.keys.values().filter(|(_, answered)| !answered).count());
            prop_assert_eq!(next.questions.len(), model.keys.len());
            // The fields that no event may change.
            let fixed = |task: &Task| (task.id, task.owner.clone(), task.created_at, task.ttl_ms, task.rerun);
            prop_assert_eq!(fixed(&next), fixed(&task));
            task = next;
        }
    }
}
