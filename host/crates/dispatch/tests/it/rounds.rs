//! Questions of plain calls whose client is stateless: round after round, only with the state that the
//! client carries.

use crate::kit::application::{dispatch, eventually, tasks_of};
use crate::kit::stateless::{call, calls, client, delivered, eventually_asks, outcome, signed_in, text};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use toolyard_dispatch::{CallReply, Caller, Dispatch, Fault, InputRequired, Outcome, RawJson, Terms};
use toolyard_kit::{SETTINGS, TickingClock, YES, application, done, memory, question, stores, tool};
use toolyard_protocol::stateless::input::Retry;
use toolyard_store::MemoryStore;
use toolyard_task::tool::{AnswerCheck, AskedQuestion, RunContext};
use toolyard_task::{AccessRequest, AskError, TaskStore, Tool};

/// The same without the tasks extension.
async fn calls_without_tasks(dispatch: &Arc<Dispatch>, caller: &Caller, retry: Retry) -> CallReply {
    let mut call = call("t", Retry::default(), &Arc::default());
    call.terms = Terms::Stateless { tasks: false, bridge: None, retry };
    dispatch.call(caller, call).await.expect("a reply")
}

fn retry(state: Option<&str>, answers: &[(&str, &'static str)]) -> Retry {
    Retry {
        responses: answers.iter().map(|(key, text)| ((*key).to_owned(), RawJson::trusted(*text))).collect(),
        state: state.map(str::to_owned),
    }
}

fn input_required(reply: CallReply) -> InputRequired {
    match reply {
        CallReply::InputRequired(wanted) => wanted,
        other => panic!("{other:?}"),
    }
}

/// Asks `a`, then `b`, and returns the answers.
fn asks_twice(runs: &Arc<AtomicU32>) -> Arc<dyn Tool> {
    asks_twice_as("t", runs)
}

fn asks_twice_as(name: &'static str, runs: &Arc<AtomicU32>) -> Arc<dyn Tool> {
    let runs = runs.clone();
    tool(name, move |context: Arc<dyn RunContext>| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move {
            let mut got = Vec::new();
            for key in ["a", "b"] {
                match context.ask(vec![question(key)]).await {
                    Ok(answers) => got.extend(answers),
                    Err(error) => return done(&format!("{error:?}")),
                }
            }
            done(&format!("{} answers", got.len()))
        }
    })
}

/// 26M-2 to 26M-6: each round runs the guest from the start, and a state is valid only for the request
/// that it was issued for.
#[tokio::test]
async fn rounds_go_on_by_the_state_alone_and_by_no_other() {
    let (store, runs) = (memory(), Arc::new(AtomicU32::new(0)));
    let first = dispatch(&store, store.clone(), vec![asks_twice(&runs), asks_twice_as("u", &runs)]);
    let alice = signed_in("alice");
    let one = input_required(calls_without_tasks(&first, &alice, Retry::default()).await);
    assert_eq!(one.questions.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a"]);
    // Another host with the same store takes the next round.
    let second = dispatch(&store, store.clone(), vec![asks_twice(&runs)]);
    let two =
        input_required(calls_without_tasks(&second, &alice, retry(Some(&one.state), &[("a", YES)])).await);
    assert_eq!(two.questions[0].0, "b");
    assert_ne!(one.state, two.state);
    let done = calls_without_tasks(&first, &alice, retry(Some(&two.state), &[("b", YES)])).await;
    assert!(text(&done).contains("2 answers"));
    eventually("three runs and no more", || runs.load(Ordering::SeqCst) == 3).await;

    // 26M-5, 26X-10: an unknown key, and an invalid answer.
    let strange = retry(Some(&one.state), &[("c", YES), ("a", "5")]);
    let again = input_required(calls_without_tasks(&first, &alice, strange).await);
    assert_eq!(again.questions[0].0, "a");

    let refused = async |caller: &Caller, state: &str| {
        let mut call = call("t", Retry::default(), &Arc::default());
        call.terms =
            Terms::Stateless { tasks: false, bridge: None, retry: retry(Some(state), &[("b", YES)]) };
        match first.call(caller, call).await {
            Err(fault) => fault.rpc().code == -32602,
            Ok(_) => false,
        }
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
        let mut other = call(name, Retry::default(), &Arc::default());
        other.params.arguments = RawJson::trusted(arguments);
        other.terms =
            Terms::Stateless { tasks: false, bridge: None, retry: retry(Some(&two.state), &[("b", YES)]) };
        let refused = first.call(&alice, other).await.expect_err("of another request");
        assert_eq!(refused.rpc().code, -32602, "{name} {arguments}");
    }
}

/// 26M-6: the host accepts a state for an hour.
#[tokio::test]
async fn a_state_ends() {
    let (store, runs, alice) = (memory(), Arc::new(AtomicU32::new(0)), signed_in("alice"));
    let at = |ms| application(SETTINGS, stores(&store), TickingClock::at(ms), vec![asks_twice(&runs)]);
    let asked = input_required(calls_without_tasks(&at(1), &alice, Retry::default()).await);
    let answers = || retry(Some(&asked.state), &[("a", YES)]);
    let next = input_required(calls_without_tasks(&at(3_590_000), &alice, answers()).await);
    assert_eq!(next.questions[0].0, "b");
    let mut late = call("t", Retry::default(), &Arc::default());
    late.terms = Terms::Stateless { tasks: false, bridge: None, retry: answers() };
    let refused = at(3_610_000).call(&alice, late).await.expect_err("the state has ended");
    assert_eq!(refused.rpc().code, -32602);
}

/// A question of the host counts only if it was asked; an answer to the guest's may come unasked.
#[tokio::test]
async fn an_answer_without_a_state_permits_nothing() {
    let store = memory();
    let runs = Arc::new(AtomicU32::new(0));
    let guests = dispatch(&store, store.clone(), vec![asks_twice(&runs)]);
    let said = retry(None, &[("a", YES), ("b", YES)]);
    assert!(text(&calls_without_tasks(&guests, &client(), said).await).contains("2 answers"));

    let sends = tool("t", |context: Arc<dyn RunContext>| async move {
        let permitted = context.permission(vec![AccessRequest::host("https", "example.com", 443)]).await;
        done(if permitted.is_ok() { "sent" } else { "not sent" })
    });
    let dispatch = dispatch(&store, store.clone(), vec![sends]);
    let once = r#"{"action":"accept","content":{"decision":"once"}}"#;
    let asked = input_required(calls_without_tasks(&dispatch, &client(), Retry::default()).await);
    let (key, _) = &asked.questions[0];
    assert!(key.starts_with("host:"), "{key}");
    let unasked = calls_without_tasks(&dispatch, &client(), retry(None, &[(key, once)])).await;
    assert_eq!(&input_required(unasked).questions[0].0, key, "asked all the same");
    let answered = calls_without_tasks(&dispatch, &client(), retry(Some(&asked.state), &[(key, once)])).await;
    assert!(text(&answered).contains("sent") && !text(&answered).contains("not sent"));
}

/// 26M-6: of all requests that use one state, only one has effects.
#[tokio::test]
async fn a_state_leads_to_effects_once() {
    let (store, effects) = (memory(), Arc::new(AtomicU32::new(0)));
    let body = effects.clone();
    let affects = tool("t", move |context: Arc<dyn RunContext>| {
        let effects = body.clone();
        async move {
            if let Err(error) = context.ask(vec![question("a")]).await {
                return done(&format!("{error:?}"));
            }
            context.effects().await.expect("nothing stands against it");
            effects.fetch_add(1, Ordering::SeqCst);
            match context.ask(vec![question("b")]).await {
                Err(AskError::TooLate) => done("too late"),
                other => done(&format!("{other:?}")),
            }
        }
    });
    let dispatch = dispatch(&store, store.clone(), vec![affects]);
    let asked = input_required(calls_without_tasks(&dispatch, &client(), Retry::default()).await);
    let attempts = (0..8).map(|_| {
        let mut call = call("t", Retry::default(), &Arc::default());
        let retry = retry(Some(&asked.state), &[("a", YES)]);
        call.terms = Terms::Stateless { tasks: false, bridge: None, retry };
        let dispatch = dispatch.clone();
        async move { dispatch.call(&client(), call).await }
    });
    let replies = futures_util::future::join_all(attempts).await;
    assert_eq!(effects.load(Ordering::SeqCst), 1);
    let well = replies.iter().filter(|reply| reply.is_ok()).count();
    let used = |reply: &&Result<CallReply, Fault>| {
        reply.as_ref().err().is_some_and(|fault| fault.rpc().code == -32602)
    };
    assert_eq!((well, replies.iter().filter(used).count()), (1, 7));
    assert!(text(replies.iter().flatten().next().expect("one")).contains("too late"));

    // With tasks, a call that must ask after its effects becomes a task and waits. Round trips end before (26T-11).
    let asked = match calls(&dispatch, Retry::default()).await {
        Ok(reply) => input_required(reply),
        Err(fault) => panic!("{fault}"),
    };
    let view = delivered(calls(&dispatch, retry(Some(&asked.state), &[("a", YES)])).await);
    let task = tasks_of(&dispatch).await.task(&client(), &view.id).await.expect("there");
    assert!(task.effects);
    let keys = |open: bool| {
        let meant = task.questions.iter().filter(|question| question.answer.is_none() == open);
        meant.map(|question| question.key.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(keys(false), ["a"], "answered before it was a task");
    eventually_asks(&dispatch, &view.id, "b").await;
    let answers = HashMap::from([("b".to_owned(), RawJson::trusted(YES))]);
    tasks_of(&dispatch).await.update_task(&client(), &view.id, answers).await.expect("acknowledged");
    let Outcome::Result { result, .. } = outcome(&dispatch, &view.id).await else { panic!("a result") };
    assert!(result.as_str().contains("Ok("), "{}", result.as_str());
}

/// 26M-6: whichever round is repeated, the call has its effects once.
#[tokio::test]
async fn a_call_has_effects_once_from_whichever_round_it_goes_on() {
    let (store, effects) = (memory(), Arc::new(AtomicU32::new(0)));
    let body = effects.clone();
    let affects = tool("t", move |context: Arc<dyn RunContext>| {
        let effects = body.clone();
        async move {
            for key in ["a", "b"] {
                if let Err(error) = context.ask(vec![question(key)]).await {
                    return done(&format!("{error:?}"));
                }
            }
            context.effects().await.expect("nothing stands against it");
            effects.fetch_add(1, Ordering::SeqCst);
            done("done")
        }
    });
    let dispatch = dispatch(&store, store.clone(), vec![affects]);
    let round = async |state: Option<&str>, key: &str| {
        let mut call = call("t", Retry::default(), &Arc::default());
        call.terms = Terms::Stateless { tasks: false, bridge: None, retry: retry(state, &[(key, YES)]) };
        dispatch.call(&client(), call).await
    };
    let first = input_required(round(None, "").await.expect("asks"));
    let second = input_required(round(Some(&first.state), "a").await.expect("asks"));
    let again = input_required(round(Some(&first.state), "a").await.expect("asks the same"));
    assert!(text(&round(Some(&second.state), "b").await.expect("is done")).contains("done"));
    for state in [&second.state, &again.state] {
        let refused = round(Some(state), "b").await.expect_err("was used");
        assert_eq!(refused.rpc().code, -32602);
    }
    let anew = input_required(round(Some(&first.state), "a").await.expect("harmless so far"));
    assert!(round(Some(&anew.state), "b").await.is_err());
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

/// Accepts an answer of `yes`.
struct SaysYes;

impl AnswerCheck for SaysYes {
    fn check(&self, result: &RawJson) -> Result<(), String> {
        if result.as_str().contains("yes") { Ok(()) } else { Err("say yes".into()) }
    }
}

fn asks_for_yes() -> Arc<dyn Tool> {
    tool("t", |context: Arc<dyn RunContext>| async move {
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
    let store = memory();
    let dispatch = dispatch(&store, store.clone(), vec![asks_for_yes()]);
    let asked = input_required(calls_without_tasks(&dispatch, &client(), Retry::default()).await);
    let again = retry(Some(&asked.state), &[("a", NO)]);
    let asked = input_required(calls_without_tasks(&dispatch, &client(), again).await);
    let done = calls_without_tasks(&dispatch, &client(), retry(Some(&asked.state), &[("a", SURE)])).await;
    assert!(text(&done).contains("yes"));

    let (dispatch, id) = begun(&store).await;
    let mut keys = Vec::new();
    for answer in ["5", NO, "{}", NO, SURE] {
        let key = next_key(&dispatch, &id, &keys).await;
        let answers =
            HashMap::from([(key.clone(), RawJson::trusted(answer)), ("a".into(), RawJson::trusted("5"))]);
        tasks_of(&dispatch)
            .await
            .update_task(&client(), &id, answers)
            .await
            .expect("26T-17, 26X-6: acknowledged");
        keys.push(key);
    }
    assert_eq!(&keys[..2], ["a", "a (2)"]);
    let Outcome::Result { result, .. } = outcome(&dispatch, &id).await else { panic!("a result") };
    assert!(result.as_str().contains("yes"), "{}", result.as_str());
}

/// A task of a tool that begins one and then asks for a yes.
async fn begun(store: &Arc<MemoryStore>) -> (Arc<Dispatch>, String) {
    let asks = tool("t", |context: Arc<dyn RunContext>| async move {
        context.begin_task().await.expect("a task");
        let question = AskedQuestion { check: Some(Arc::new(SaysYes)), ..question("a") };
        match context.ask(vec![question]).await {
            Ok(answers) => done(&format!("{:?}", answers[0].outcome)),
            Err(error) => done(&format!("{error:?}")),
        }
    });
    let tasks: Arc<dyn TaskStore> = store.clone();
    let dispatch = dispatch(store, tasks, vec![asks]);
    let view = delivered(calls(&dispatch, Retry::default()).await);
    (dispatch, view.id)
}

/// The key of the open question, once it is a new one.
async fn next_key(dispatch: &Arc<Dispatch>, id: &str, before: &[String]) -> String {
    loop {
        let task = tasks_of(dispatch).await.task(&client(), id).await.expect("there");
        assert!(task.is_live(), "{:?}", task.outcome);
        let open: Vec<String> =
            task.open_questions().map(|question| question.wire_key().into_owned()).collect();
        if let [key] = &open[..]
            && !before.contains(key)
        {
            return key.clone();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
