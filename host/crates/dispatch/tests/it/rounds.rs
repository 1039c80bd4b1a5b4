//! Questions of plain calls whose client is stateless: round after round, only with the state that the
//! client carries.

use crate::kit::prelude::*;
use crate::kit::stateless::{answer_when_asked, calls, client, delivered, outcome, signed_in, text};
use toolyard_dispatch::{InputRequired, ToolCall};
use toolyard_task::tool::{AnswerCheck, AskedQuestion};
use toolyard_task::{AccessRequest, AskError};

fn retry(state: Option<&str>, answers: &[(&str, &'static str)]) -> Retry {
    Retry {
        responses: answers.iter().map(|(key, text)| ((*key).to_owned(), RawJson::trusted(*text))).collect(),
        state: state.map(str::to_owned),
    }
}

/// A call without the tasks extension.
fn call(name: &str, retry: Retry) -> ToolCall {
    let terms = Terms::Stateless { tasks: false, bridge: None, retry };
    call_on(terms, name, Arc::new(NoClientChannel))
}

/// A round of the tool `t`.
async fn round(
    dispatch: &Arc<Dispatch>,
    caller: &Caller,
    state: Option<&str>,
    answers: &[(&str, &'static str)],
) -> Result<CallReply, Fault> {
    dispatch.call(caller, call("t", retry(state, answers))).await
}

/// The questions of a round.
fn asked(reply: Result<CallReply, Fault>) -> InputRequired {
    let Ok(CallReply::InputRequired(wanted)) = reply else { panic!("{reply:?}") };
    wanted
}

/// Whether the host has refused the state of a round.
fn is_refused(reply: &Result<CallReply, Fault>) -> bool {
    reply.as_ref().is_err_and(|fault| fault.rpc().code == -32602)
}

/// Asks `a`, then `b`, and returns the answers.
fn asks_twice(name: &str, runs: &Arc<AtomicU32>) -> Arc<dyn Tool> {
    native(name).runs_sharing(runs, |runs, context| async move {
        runs.fetch_add(1, Ordering::SeqCst);
        let mut got = Vec::new();
        for key in ["a", "b"] {
            match context.ask(vec![question(key)]).await {
                Ok(answers) => got.extend(answers),
                Err(error) => return done(&format!("{error:?}")),
            }
        }
        done(&format!("{} answers", got.len()))
    })
}

/// 26M-2 to 26M-6: each round runs the guest from the start, and a state is valid only for the request
/// that it was issued for.
#[tokio::test]
async fn rounds_go_on_by_the_state_alone_and_by_no_other() {
    let (store, runs) = (memory(), Arc::new(AtomicU32::new(0)));
    let first = dispatch(&store, store.clone(), vec![asks_twice("t", &runs), asks_twice("u", &runs)]);
    let alice = signed_in("alice");
    let one = asked(round(&first, &alice, None, &[]).await);
    assert_eq!(one.questions.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a"]);
    // Another host with the same store takes the next round.
    let second = dispatch(&store, store.clone(), vec![asks_twice("t", &runs)]);
    let two = asked(round(&second, &alice, Some(&one.state), &[("a", YES)]).await);
    assert_eq!(two.questions[0].0, "b");
    assert_ne!(one.state, two.state);
    let done = round(&first, &alice, Some(&two.state), &[("b", YES)]).await;
    assert!(text(&done.expect("ends")).contains("2 answers"));
    eventually("three runs and no more", || runs.load(Ordering::SeqCst) == 3).await;

    // 26M-5, 26X-10: an unknown key, and an invalid answer.
    let again = asked(round(&first, &alice, Some(&one.state), &[("c", YES), ("a", "5")]).await);
    assert_eq!(again.questions[0].0, "a");

    let refused = async |caller: &Caller, state: &str| {
        is_refused(&round(&first, caller, Some(state), &[("b", YES)]).await)
    };
    assert!(!refused(&alice, &two.state).await, "hers");
    assert!(refused(&signed_in("bob"), &two.state).await, "another principal's");
    for place in (0..two.state.len()).step_by(7) {
        let mut letters: Vec<char> = two.state.chars().collect();
        letters[place] = if letters[place] == 'A' { 'B' } else { 'A' };
        assert!(refused(&alice, &letters.into_iter().collect::<String>()).await, "changed at {place}");
    }
    for state in [String::new(), "%".to_owned(), format!("{}A", two.state), "A".repeat(1 << 20)] {
        assert!(refused(&alice, &state).await, "{} bytes", state.len());
    }
    for (name, arguments) in [("t", r#"{"n":1}"#), ("u", "{}")] {
        let mut other = call(name, retry(Some(&two.state), &[("b", YES)]));
        other.params.arguments = RawJson::trusted(arguments);
        assert!(is_refused(&first.call(&alice, other).await), "of another request: {name} {arguments}");
    }
}

/// 26M-6: the host accepts a state for an hour.
#[tokio::test]
async fn a_state_ends() {
    let (store, runs, alice) = (memory(), Arc::new(AtomicU32::new(0)), signed_in("alice"));
    let at = |ms| application(SETTINGS, stores(&store), TickingClock::at(ms), vec![asks_twice("t", &runs)]);
    let first = asked(round(&at(1), &alice, None, &[]).await);
    let next = asked(round(&at(3_590_000), &alice, Some(&first.state), &[("a", YES)]).await);
    assert_eq!(next.questions[0].0, "b");
    let late = round(&at(3_610_000), &alice, Some(&first.state), &[("a", YES)]).await;
    assert!(is_refused(&late), "the state has ended: {late:?}");
}

/// A question of the host counts only if it was asked; an answer to the guest's may come unasked.
#[tokio::test]
async fn an_answer_without_a_state_permits_nothing() {
    let guests = in_memory(vec![asks_twice("t", &Arc::default())]);
    let unasked = round(&guests, &client(), None, &[("a", YES), ("b", YES)]).await;
    assert!(text(&unasked.expect("ends")).contains("2 answers"));

    let sends = tool("t", |context: Arc<dyn RunContext>| async move {
        let permitted = context.permission(vec![AccessRequest::host("https", "example.com", 443)]).await;
        done(if permitted.is_ok() { "sent" } else { "not sent" })
    });
    let dispatch = in_memory(vec![sends]);
    let once = r#"{"action":"accept","content":{"decision":"once"}}"#;
    let first = asked(round(&dispatch, &client(), None, &[]).await);
    let (key, _) = &first.questions[0];
    assert!(key.starts_with("host:"), "{key}");
    let unasked = round(&dispatch, &client(), None, &[(key, once)]).await;
    assert_eq!(&asked(unasked).questions[0].0, key, "asked all the same");
    let answered = round(&dispatch, &client(), Some(&first.state), &[(key, once)]).await.expect("ends");
    assert!(text(&answered).contains("sent") && !text(&answered).contains("not sent"));
}

/// Asks these, then has an effect, which is counted, and then asks the last, if there is one.
fn affects(
    effects: &Arc<AtomicU32>,
    before: &'static [&'static str],
    last: Option<&'static str>,
) -> Arc<dyn Tool> {
    native("t").runs_sharing(effects, move |effects, context| async move {
        for key in before {
            if let Err(error) = context.ask(vec![question(key)]).await {
                return done(&format!("{error:?}"));
            }
        }
        context.effects().await.expect("nothing stands against it");
        effects.fetch_add(1, Ordering::SeqCst);
        let Some(key) = last else { return done("done") };
        match context.ask(vec![question(key)]).await {
            Err(AskError::TooLate) => done("too late"),
            other => done(&format!("{other:?}")),
        }
    })
}

/// 26M-6: of all requests that use one state, only one has effects.
#[tokio::test]
async fn a_state_leads_to_effects_once() {
    let effects = Arc::new(AtomicU32::new(0));
    let dispatch = in_memory(vec![affects(&effects, &["a"], Some("b"))]);
    let caller = client();
    let first = asked(round(&dispatch, &caller, None, &[]).await);
    let attempts = (0..8).map(|_| round(&dispatch, &caller, Some(&first.state), &[("a", YES)]));
    let replies = futures_util::future::join_all(attempts).await;
    assert_eq!(effects.load(Ordering::SeqCst), 1);
    let well = replies.iter().filter(|reply| reply.is_ok()).count();
    assert_eq!((well, replies.iter().filter(|reply| is_refused(reply)).count()), (1, 7));
    assert!(text(replies.iter().flatten().next().expect("one")).contains("too late"));

    // With tasks, a call that must ask after its effects becomes a task and waits. Round trips end before (26T-11).
    let first = asked(calls(&dispatch, Retry::default()).await);
    let view = delivered(calls(&dispatch, retry(Some(&first.state), &[("a", YES)])).await);
    let task = tasks_of(&dispatch).await.task(&caller, &view.id).await.expect("there");
    assert!(task.effects);
    let answered = task.questions.iter().filter(|question| question.answer.is_some());
    let answered: Vec<_> = answered.map(|question| question.key.as_str()).collect();
    assert_eq!(answered, ["a"], "answered before it was a task");
    answer_when_asked(&dispatch, &view.id, "b").await;
    let Outcome::Result { result, .. } = outcome(&dispatch, &view.id).await else { panic!("a result") };
    assert!(result.as_str().contains("Ok("), "{}", result.as_str());
}

/// 26M-6: whichever round is repeated, the call has its effects once.
#[tokio::test]
async fn a_call_has_effects_once_from_whichever_round_it_goes_on() {
    let effects = Arc::new(AtomicU32::new(0));
    let dispatch = in_memory(vec![affects(&effects, &["a", "b"], None)]);
    let caller = client();
    let round = async |state: &str, key: &str| round(&dispatch, &caller, Some(state), &[(key, YES)]).await;
    let first = asked(self::round(&dispatch, &caller, None, &[]).await);
    let second = asked(round(&first.state, "a").await);
    let again = asked(round(&first.state, "a").await);
    assert!(text(&round(&second.state, "b").await.expect("is done")).contains("done"));
    for state in [&second.state, &again.state] {
        assert!(is_refused(&round(state, "b").await), "was used");
    }
    let anew = asked(round(&first.state, "a").await);
    assert!(round(&anew.state, "b").await.is_err());
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

/// Accepts an answer of `yes`.
struct SaysYes;

impl AnswerCheck for SaysYes {
    fn check(&self, result: &RawJson) -> Result<(), String> {
        if result.as_str().contains("yes") { Ok(()) } else { Err("say yes".into()) }
    }
}

/// Asks for a yes, in a plain call or in a task.
fn asks_for_yes(is_task: bool) -> Arc<dyn Tool> {
    tool("t", move |context: Arc<dyn RunContext>| async move {
        if is_task {
            context.begin_task().await.expect("a task");
        }
        let question = AskedQuestion { check: Some(Arc::new(SaysYes)), ..question("a") };
        match context.ask(vec![question]).await {
            Ok(answers) => done(&format!("{:?}", answers[0].outcome)),
            Err(error) => done(&format!("{error:?}")),
        }
    })
}

/// 26M-5, 26T-22: an answer that does not fit is asked for again, in a call and in a task, but only a
/// few times.
#[tokio::test]
async fn what_does_not_fit_is_asked_again() {
    const NO: &str = r#"{"action":"accept","content":{"x":"no"}}"#;
    const SURE: &str = r#"{"action":"accept","content":{"x":"yes"}}"#;
    let plain = in_memory(vec![asks_for_yes(false)]);
    let first = asked(round(&plain, &client(), None, &[]).await);
    let again = asked(round(&plain, &client(), Some(&first.state), &[("a", NO)]).await);
    let done = round(&plain, &client(), Some(&again.state), &[("a", SURE)]).await;
    assert!(text(&done.expect("ends")).contains("yes"));

    let dispatch = in_memory(vec![asks_for_yes(true)]);
    let id = delivered(calls(&dispatch, Retry::default()).await).id;
    let mut keys = Vec::new();
    for answer in ["5", NO, "{}", NO, SURE] {
        let key = next_key(&dispatch, &id, &keys).await;
        let answers =
            HashMap::from([(key.clone(), RawJson::trusted(answer)), ("a".into(), RawJson::trusted("5"))]);
        let answered = tasks_of(&dispatch).await.update_task(&client(), &id, answers).await;
        answered.expect("26T-17, 26X-6: acknowledged");
        keys.push(key);
    }
    assert_eq!(&keys[..2], ["a", "a (2)"]);
    let Outcome::Result { result, .. } = outcome(&dispatch, &id).await else { panic!("a result") };
    assert!(result.as_str().contains("yes"), "{}", result.as_str());
}

/// The key of the open question, once it is a new one.
async fn next_key(dispatch: &Arc<Dispatch>, id: &str, before: &[String]) -> String {
    loop {
        let task = task_of(dispatch, &client(), id).await;
        assert!(task.is_live(), "{:?}", task.outcome);
        let open: Vec<_> = task.open_questions().map(|question| question.wire_key().into_owned()).collect();
        match &open[..] {
            [key] if !before.contains(key) => return key.clone(),
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}
