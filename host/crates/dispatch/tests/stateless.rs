//! Calls of stateless clients: rounds of questions, and a running call that becomes a
//! task, with a clock that runs out at once, or never.

#[path = "kit/faulty.rs"]
mod faulty;
#[path = "kit/native.rs"]
mod native;
#[path = "kit/settings.rs"]
mod settings;

use faulty::faulty;
use futures_util::{FutureExt as _, StreamExt as _};
use native::{dispatch, eventually, memory, tool, tool_waited_for};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use toolyard_dispatch::{
    CallParams, CallReply, Caller, Created, Dispatch, Fault, InputRequired, NoOutlet, Outcome, Principal,
    RawJson, Stop, Subject, TaskId, Terms, ToolCall,
};
use toolyard_protocol::stateless::input::Retry;
use toolyard_store::MemoryStore;
use toolyard_task::tool::{AnswerCheck, AskError, AskedQuestion, RunContext, RunEnd};
use toolyard_task::wire::{TaskStatus, text_result};
use toolyard_task::{TaskStore, Tool, Wanted};

const FORM: &str = r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#;
/// Short, but not at once: the run is under way when it is over.
const SOON: Duration = Duration::from_millis(20);
const NEVER: Duration = Duration::from_secs(3600);
const YES: &str = r#"{"action":"accept","content":{}}"#;

fn client() -> Caller {
    let principal = Arc::new(Principal::Local);
    Caller::stateless(principal, None, RawJson::trusted(r#"{"elicitation":{}}"#))
}

fn signed_in(subject: &str) -> Caller {
    let principal = Principal::Subject(Subject {
        issuer: "https://a.example".into(),
        subject: subject.into(),
        client: None,
        scopes: std::collections::BTreeSet::new(),
        claims: serde_json::Value::Null,
        expires_at: None,
    });
    Caller::stateless(Arc::new(principal), None, RawJson::trusted(r#"{"elicitation":{}}"#))
}

fn call(name: &str, retry: Retry, stop: &Arc<Stop>) -> ToolCall {
    ToolCall {
        params: CallParams {
            name: name.to_owned(),
            arguments: RawJson::empty_object(),
            task: None,
            progress_token: None,
            trace: None,
        },
        terms: Terms::Stateless { tasks: true, retry },
        stop: stop.clone(),
        outlet: Arc::new(NoOutlet),
        task_outlet: Arc::new(NoOutlet),
    }
}

async fn calls(dispatch: &Arc<Dispatch>, retry: Retry) -> Result<CallReply, Fault> {
    dispatch.call(&client(), call("t", retry, &Arc::default())).await
}

/// The same without the tasks extension.
async fn calls_without_tasks(dispatch: &Arc<Dispatch>, caller: &Caller, retry: Retry) -> CallReply {
    let mut call = call("t", Retry::default(), &Arc::default());
    call.terms = Terms::Stateless { tasks: false, retry };
    dispatch.call(caller, call).await.expect("a reply")
}

fn retry(state: Option<&str>, answers: &[(&str, &'static str)]) -> Retry {
    Retry {
        responses: answers.iter().map(|(key, text)| ((*key).to_owned(), RawJson::trusted(*text))).collect(),
        state: state.map(str::to_owned),
    }
}

fn says(text: &str) -> RunEnd {
    RunEnd::Result { is_error: false, result: text_result(text, false), message: None }
}

fn question(key: &str) -> AskedQuestion {
    AskedQuestion {
        key: key.to_owned(),
        method: "elicitation/create".to_owned(),
        params: RawJson::trusted(FORM),
        check: None,
    }
}

fn created(reply: Result<CallReply, Fault>) -> Created {
    match reply {
        Ok(CallReply::Created(created)) => created,
        other => panic!("{other:?}"),
    }
}

fn input_required(reply: CallReply) -> InputRequired {
    match reply {
        CallReply::InputRequired(wanted) => wanted,
        other => panic!("{other:?}"),
    }
}

fn text(reply: &CallReply) -> &str {
    match reply {
        CallReply::Result(result) => result.as_str(),
        other => panic!("{other:?}"),
    }
}

/// A tool that waits until it is let go, and how often it was started and dropped.
#[derive(Default, Clone)]
struct Slow {
    started: Arc<AtomicU32>,
    ended: Arc<AtomicU32>,
    go: Arc<Notify>,
}

struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Slow {
    /// Waited for so long.
    fn tool(&self, inline_for: Duration) -> Arc<dyn Tool> {
        let slow = self.clone();
        tool_waited_for(Some(inline_for), "t", move |_| {
            let slow = slow.clone();
            async move {
                slow.started.fetch_add(1, Ordering::SeqCst);
                let _counted = Counted(slow.ended.clone());
                slow.go.notified().await;
                says("done")
            }
            .boxed()
        })
    }
}

async fn outcome(dispatch: &Arc<Dispatch>, id: &str) -> Outcome {
    let id = TaskId::parse(id).expect("an id");
    let mut states = std::pin::pin!(dispatch.follow_task(client(), id));
    let mut last = None;
    while let Some(task) = states.next().await {
        last = task.outcome;
    }
    last.expect("it came to something")
}

/// 26T-3: what takes longer than it may in line becomes a task in mid-run, and is not
/// started again.
#[tokio::test]
async fn a_call_that_takes_long_goes_on_as_a_task() {
    let (store, slow) = (memory(), Slow::default());
    let dispatch = dispatch(&store, store.clone(), vec![slow.tool(SOON)]);
    let Created { view, handover, .. } = created(calls(&dispatch, Retry::default()).await);
    handover.expect("a duty").delivered();
    assert_eq!(view.status, TaskStatus::Working);
    assert_eq!(slow.started.load(Ordering::SeqCst), 1);
    assert!(dispatch.task(&client(), &view.id).await.expect("26T-10: durable").is_live());
    slow.go.notify_one();
    assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { is_error: false, .. }));
    assert_eq!(slow.started.load(Ordering::SeqCst), 1, "it was never started again");
}

/// A call that ends at about the time at which it would become a task is answered in
/// one way or the other, never in both and never in none.
#[tokio::test]
async fn the_end_and_the_clock_never_both_answer() {
    let store = memory();
    let pause = Arc::new(AtomicU32::new(0));
    let body = pause.clone();
    let sleeper = tool_waited_for(Some(SOON), "t", move |_| {
        let time = Duration::from_micros(u64::from(body.load(Ordering::SeqCst)));
        async move {
            tokio::time::sleep(time).await;
            says("done")
        }
        .boxed()
    });
    let dispatch = dispatch(&store, store.clone(), vec![sleeper]);
    let mut tasks = 0;
    for time in (15_000..25_000).step_by(500) {
        pause.store(time, Ordering::SeqCst);
        match calls(&dispatch, Retry::default()).await.expect("a reply") {
            CallReply::Result(result) => assert!(result.as_str().contains("done")),
            CallReply::Created(Created { view, handover, .. }) => {
                handover.expect("a duty").delivered();
                assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { .. }));
                tasks += 1;
            }
            other => panic!("{other:?}"),
        }
        let stored = dispatch.summaries(&client(), None, 1000).await.expect("lists");
        assert_eq!(stored.len(), tasks, "a task for each reply that named one");
        assert!(stored.iter().all(|task| task.status.is_terminal()));
    }
}

/// A guest that asks at about the time at which its call would become a task asks in a
/// round or as a task, and no task is left behind that nobody works on.
#[tokio::test]
async fn asking_and_the_clock_never_both_decide() {
    let store = memory();
    let pause = Arc::new(AtomicU32::new(0));
    let body = pause.clone();
    let asks = tool_waited_for(Some(SOON), "t", move |context: Arc<dyn RunContext>| {
        let time = Duration::from_micros(u64::from(body.load(Ordering::SeqCst)));
        async move {
            tokio::time::sleep(time).await;
            match context.ask(vec![question("a")]).await {
                Ok(_) => says("done"),
                Err(error) => says(&format!("{error:?}")),
            }
        }
        .boxed()
    });
    let dispatch = dispatch(&store, store.clone(), vec![asks]);
    let mut tasks = 0;
    for time in (15_000..25_000).step_by(250) {
        pause.store(time, Ordering::SeqCst);
        match calls(&dispatch, Retry::default()).await.expect("a reply") {
            CallReply::InputRequired(_) => {}
            CallReply::Created(created) => {
                let id = created.view.id.clone();
                created.handover.expect("a duty").delivered();
                eventually_asks(&dispatch, &id, "a").await;
                let answers = HashMap::from([("a".to_owned(), RawJson::trusted(YES))]);
                dispatch.update_task(&client(), &id, answers).await.expect("acknowledged");
                assert!(matches!(outcome(&dispatch, &id).await, Outcome::Result { .. }));
                tasks += 1;
            }
            other => panic!("{other:?}"),
        }
        let stored = dispatch.summaries(&client(), None, 1000).await.expect("lists");
        assert_eq!(stored.len(), tasks, "a task for each reply that named one");
        assert!(stored.iter().all(|task| task.status == TaskStatus::Completed));
    }
}

/// If nobody can be told of a task, it ends, and its guest with it.
#[tokio::test]
async fn a_handle_that_is_not_delivered_takes_its_task_along() {
    let (store, slow) = (memory(), Slow::default());
    let dispatch = dispatch(&store, store.clone(), vec![slow.tool(SOON)]);
    let Created { view, handover, .. } = created(calls(&dispatch, Retry::default()).await);
    drop(handover);
    assert_eq!(outcome(&dispatch, &view.id).await, Outcome::Cancelled);
    eventually_dropped(&slow).await;

    // Nobody waits for the call any more when its guest begins a task.
    let (go, ended) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let (wait, drops) = (go.clone(), ended.clone());
    let beginner = tool("t", move |context: Arc<dyn RunContext>| {
        let (wait, drops) = (wait.clone(), drops.clone());
        async move {
            let _counted = Counted(drops);
            wait.notified().await;
            drop(context.begin_task().await);
            std::future::pending().await
        }
        .boxed()
    });
    let dispatch = self::dispatch(&store, store.clone(), vec![beginner]);
    assert!(calls(&dispatch, Retry::default()).now_or_never().is_none(), "it is under way");
    go.notify_one();
    eventually("the end of the guest", || ended.load(Ordering::SeqCst) == 1).await;
    let stored = dispatch.summaries(&client(), None, 1000).await.expect("lists");
    assert_eq!(stored.len(), 2);
    assert!(stored.iter().all(|task| task.status == TaskStatus::Cancelled));
}

async fn eventually_dropped(slow: &Slow) {
    eventually("the end of the guest", || slow.ended.load(Ordering::SeqCst) == 1).await;
}

/// 26H-13: to cancel the request stops a call, and does nothing to a task.
#[tokio::test]
async fn cancelling_a_request_stops_a_call_and_no_task() {
    let (store, slow) = (memory(), Slow::default());
    let dispatch = dispatch(&store, store.clone(), vec![slow.tool(NEVER)]);
    let stop = Arc::new(Stop::default());
    let caller = client();
    let calling = dispatch.call(&caller, call("t", Retry::default(), &stop));
    let (reply, ()) = tokio::join!(calling, async {
        eventually("the start", || slow.started.load(Ordering::SeqCst) == 1).await;
        stop.set();
    });
    assert!(matches!(reply, Err(Fault::Cancelled)), "{reply:?}");
    eventually_dropped(&slow).await;

    let slow = Slow::default();
    let dispatch = self::dispatch(&store, store.clone(), vec![slow.tool(SOON)]);
    let stop = Arc::new(Stop::default());
    let Created { view, handover, .. } =
        created(dispatch.call(&caller, call("t", Retry::default(), &stop)).await);
    handover.expect("a duty").delivered();
    stop.set();
    // Whoever would stop it has had its chance.
    tokio::time::sleep(SOON).await;
    assert_eq!(slow.ended.load(Ordering::SeqCst), 0, "it runs on");
    slow.go.notify_one();
    assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { .. }));
}

/// A store that cannot take the task now costs nobody the call.
#[tokio::test]
async fn where_no_task_can_be_made_the_call_is_waited_for() {
    let (store, faulty) = faulty(u32::MAX);
    let slow = Slow::default();
    let dispatch = dispatch(&store, faulty.clone(), vec![slow.tool(SOON)]);
    let calling = calls(&dispatch, Retry::default());
    let (reply, ()) = tokio::join!(calling, async {
        eventually("the attempt", || faulty.used.load(Ordering::SeqCst)).await;
        slow.go.notify_one();
    });
    assert!(text(&reply.expect("a reply")).contains("done"));
    assert_eq!(slow.started.load(Ordering::SeqCst), 1);
}

/// What the guest says at once counts at once, and what it did before is the task's.
#[tokio::test]
async fn a_guest_that_begins_a_task_is_one_from_there_on() {
    let store = memory();
    let go = Arc::new(Notify::new());
    let wait = go.clone();
    let beginner = tool("t", move |context| {
        let wait = wait.clone();
        async move {
            assert!(context.info().task.is_none());
            context.effects().await.expect("nothing stands against it");
            context.begin_task().await.expect("a task");
            context.begin_task().await.expect("which is one already");
            assert!(context.info().task.is_some());
            wait.notified().await;
            says("done")
        }
        .boxed()
    });
    let dispatch = dispatch(&store, store.clone(), vec![beginner]);
    let Created { view, handover, .. } = created(calls(&dispatch, Retry::default()).await);
    handover.expect("a duty").delivered();
    let task = dispatch.task(&client(), &view.id).await.expect("there");
    assert!(task.effects, "said before it was a task");
    assert!(task.started_at.is_some());
    go.notify_one();
    assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { .. }));
}

/// Asks `a`, then `b`, and says what it got.
fn asks_twice(runs: &Arc<AtomicU32>) -> Arc<dyn Tool> {
    let runs = runs.clone();
    tool("t", move |context: Arc<dyn RunContext>| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move {
            let mut got = Vec::new();
            for key in ["a", "b"] {
                match context.ask(vec![question(key)]).await {
                    Ok(answers) => got.extend(answers),
                    Err(error) => return says(&format!("{error:?}")),
                }
            }
            says(&format!("{} answers", got.len()))
        }
        .boxed()
    })
}

/// 26M-2 to 26M-6: each round runs the guest from the start, and a state is good for
/// what it was given for and nothing else.
#[tokio::test]
async fn rounds_go_on_by_the_state_alone_and_by_no_other() {
    let (store, runs) = (memory(), Arc::new(AtomicU32::new(0)));
    let first = dispatch(&store, store.clone(), vec![asks_twice(&runs)]);
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
    assert_eq!(runs.load(Ordering::SeqCst), 3);

    // 26M-5: a key that nobody asked for, and an answer that is none.
    let strange = retry(Some(&one.state), &[("c", YES), ("a", "5")]);
    let again = input_required(calls_without_tasks(&first, &alice, strange).await);
    assert_eq!(again.questions[0].0, "a");

    let refused = async |caller: &Caller, state: &str| {
        let mut call = call("t", Retry::default(), &Arc::default());
        call.terms = Terms::Stateless { tasks: false, retry: retry(Some(state), &[("b", YES)]) };
        match first.call(caller, call).await {
            Err(fault) => fault.rpc().code == -32602,
            Ok(_) => false,
        }
    };
    assert!(!refused(&alice, &two.state).await, "hers");
    assert!(refused(&signed_in("bob"), &two.state).await, "somebody else's");
    for place in (0..two.state.len()).step_by(7) {
        let mut letters: Vec<char> = two.state.chars().collect();
        letters[place] = if letters[place] == 'A' { 'B' } else { 'A' };
        assert!(refused(&alice, &letters.into_iter().collect::<String>()).await, "changed at {place}");
    }
    assert!(refused(&alice, "").await && refused(&alice, "%").await);
    let mut other = call("t", Retry::default(), &Arc::default());
    other.params.arguments = RawJson::trusted(r#"{"n":1}"#);
    other.terms = Terms::Stateless { tasks: false, retry: retry(Some(&two.state), &[("b", YES)]) };
    assert!(first.call(&alice, other).await.is_err(), "other arguments");
}

/// What the host asks a person counts only if it was asked; what a guest asks its client
/// may be said without.
#[tokio::test]
async fn an_answer_without_a_state_permits_nothing() {
    let store = memory();
    let runs = Arc::new(AtomicU32::new(0));
    let guests = dispatch(&store, store.clone(), vec![asks_twice(&runs)]);
    let said = retry(None, &[("a", YES), ("b", YES)]);
    assert!(text(&calls_without_tasks(&guests, &client(), said).await).contains("2 answers"));

    let sends = tool("t", |context: Arc<dyn RunContext>| {
        async move {
            let permitted = context.permission(vec![Wanted::host("https", "example.com", 443)]).await;
            says(if permitted.is_ok() { "sent" } else { "not sent" })
        }
        .boxed()
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

/// 26M-6: of all that use one state, one has effects.
#[tokio::test]
async fn a_state_leads_to_effects_once() {
    let (store, done) = (memory(), Arc::new(AtomicU32::new(0)));
    let body = done.clone();
    let affects = tool("t", move |context: Arc<dyn RunContext>| {
        let done = body.clone();
        async move {
            if let Err(error) = context.ask(vec![question("a")]).await {
                return says(&format!("{error:?}"));
            }
            context.effects().await.expect("nothing stands against it");
            done.fetch_add(1, Ordering::SeqCst);
            match context.ask(vec![question("b")]).await {
                Err(AskError::TooLate) => says("too late"),
                other => says(&format!("{other:?}")),
            }
        }
        .boxed()
    });
    let dispatch = dispatch(&store, store.clone(), vec![affects]);
    let asked = input_required(calls_without_tasks(&dispatch, &client(), Retry::default()).await);
    let attempts = (0..8).map(|_| {
        let mut call = call("t", Retry::default(), &Arc::default());
        let retry = retry(Some(&asked.state), &[("a", YES)]);
        call.terms = Terms::Stateless { tasks: false, retry };
        let dispatch = dispatch.clone();
        async move { dispatch.call(&client(), call).await }
    });
    let replies = futures_util::future::join_all(attempts).await;
    assert_eq!(done.load(Ordering::SeqCst), 1);
    let well = replies.iter().filter(|reply| reply.is_ok()).count();
    let used = |reply: &&Result<CallReply, Fault>| {
        reply.as_ref().err().is_some_and(|fault| fault.rpc().code == -32602)
    };
    assert_eq!((well, replies.iter().filter(used).count()), (1, 7));
    assert!(text(replies.iter().flatten().next().expect("one")).contains("too late"));

    // With tasks, who has to ask after effects is a task and waits.
    let asked = match calls(&dispatch, Retry::default()).await {
        Ok(reply) => input_required(reply),
        Err(fault) => panic!("{fault}"),
    };
    let Created { view, handover, .. } =
        created(calls(&dispatch, retry(Some(&asked.state), &[("a", YES)])).await);
    handover.expect("a duty").delivered();
    let task = dispatch.task(&client(), &view.id).await.expect("there");
    assert!(task.effects);
    let keys = |open: bool| {
        let meant = task.questions.iter().filter(|question| question.answer.is_none() == open);
        meant.map(|question| question.key.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(keys(false), ["a"], "answered before it was a task");
    eventually_asks(&dispatch, &view.id, "b").await;
    let answers = HashMap::from([("b".to_owned(), RawJson::trusted(YES))]);
    dispatch.update_task(&client(), &view.id, answers).await.expect("acknowledged");
    let Outcome::Result { result, .. } = outcome(&dispatch, &view.id).await else { panic!("a result") };
    assert!(result.as_str().contains("Ok("), "{}", result.as_str());
}

async fn eventually_asks(dispatch: &Arc<Dispatch>, id: &str, key: &str) {
    loop {
        let task = dispatch.task(&client(), id).await.expect("there");
        if task.open_questions().any(|question| question.wire_key() == key) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Takes what says `yes`.
struct SaysYes;

impl AnswerCheck for SaysYes {
    fn check(&self, result: &RawJson) -> Result<(), String> {
        if result.as_str().contains("yes") { Ok(()) } else { Err("say yes".into()) }
    }
}

fn asks_for_yes() -> Arc<dyn Tool> {
    tool("t", |context: Arc<dyn RunContext>| {
        async move {
            let question = AskedQuestion { check: Some(Arc::new(SaysYes)), ..question("a") };
            match context.ask(vec![question]).await {
                Ok(answers) => says(&format!("{:?}", answers[0].outcome)),
                Err(error) => says(&format!("{error:?}")),
            }
        }
        .boxed()
    })
}

/// 26M-5, 26T-22: an answer that does not fit is asked for again, in a call and in a
/// task, and so often only.
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
        dispatch.update_task(&client(), &id, answers).await.expect("26T-17: acknowledged");
        keys.push(key);
    }
    assert_eq!(&keys[..2], ["a", "a (2)"]);
    let Outcome::Result { result, .. } = outcome(&dispatch, &id).await else { panic!("a result") };
    assert!(result.as_str().contains("yes"), "{}", result.as_str());
}

/// A task of a tool that begins one and then asks for a yes.
async fn begun(store: &Arc<MemoryStore>) -> (Arc<Dispatch>, String) {
    let asks = tool("t", |context: Arc<dyn RunContext>| {
        async move {
            context.begin_task().await.expect("a task");
            let question = AskedQuestion { check: Some(Arc::new(SaysYes)), ..question("a") };
            match context.ask(vec![question]).await {
                Ok(answers) => says(&format!("{:?}", answers[0].outcome)),
                Err(error) => says(&format!("{error:?}")),
            }
        }
        .boxed()
    });
    let tasks: Arc<dyn TaskStore> = store.clone();
    let dispatch = dispatch(store, tasks, vec![asks]);
    let Created { view, handover, .. } = created(calls(&dispatch, Retry::default()).await);
    handover.expect("a duty").delivered();
    (dispatch, view.id)
}

/// The key of the open question, once it is none of those before.
async fn next_key(dispatch: &Arc<Dispatch>, id: &str, before: &[String]) -> String {
    loop {
        let task = dispatch.task(&client(), id).await.expect("there");
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

/// 26T-25: a task of nobody is whoever's knows its id, and on no list.
#[tokio::test]
async fn an_anonymous_task_is_found_by_its_id_alone() {
    let (store, slow) = (memory(), Slow::default());
    let dispatch = dispatch(&store, store.clone(), vec![slow.tool(SOON)]);
    let anonymous = || {
        let capabilities = RawJson::empty_object();
        Caller::stateless(Arc::new(Principal::Anonymous), None, capabilities)
    };
    let (caller, begin) = (anonymous(), call("t", Retry::default(), &Arc::default()));
    let Created { view, handover, .. } = created(dispatch.call(&caller, begin).await);
    handover.expect("a duty").delivered();
    assert!(dispatch.task(&anonymous(), &view.id).await.is_ok());
    let session = Caller::new(
        Arc::new(Principal::Anonymous),
        Some(toolyard_dispatch::SessionId("s".into())),
        RawJson::empty_object(),
    );
    assert!(dispatch.task(&session, &view.id).await.is_ok(), "in a session as well");
    assert!(dispatch.summaries(&session, None, 10).await.expect("lists").is_empty());
    for stranger in [client(), signed_in("alice")] {
        assert!(matches!(dispatch.task(&stranger, &view.id).await, Err(Fault::UnknownTask)));
    }
    slow.go.notify_one();
    eventually("the end", || slow.ended.load(Ordering::SeqCst) == 1).await;
}
