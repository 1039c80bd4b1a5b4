//! The application over the memory store, with tools written in Rust: properties that must hold
//! whatever the engine, the store and the client do.

use crate::bridge::stage::Work;
use crate::kit::prelude::*;
use std::sync::atomic::AtomicBool;
use toolyard_dispatch::{WeightSpec, Weights};
use toolyard_task::Catalog;
use toolyard_task::wire::Progress;

#[tokio::test]
async fn t_16_an_inline_call_touches_no_store_and_what_cannot_be_stored_is_refused_and_does_not_run() {
    let (store, faulty) = faulty(u32::MAX);
    let ran = Arc::new(AtomicBool::new(false));
    let effects = native("effects").runs_sharing(&ran, |ran, _| async move {
        ran.store(true, Ordering::SeqCst);
        done("x")
    });
    let tools = vec![tool("quick", |_| async { done("x") }), effects];
    let dispatch = dispatch(&store, faulty.clone(), tools);
    let reply = dispatch.call(&mute(), plain_call("quick")).now_or_never();
    assert!(matches!(reply, Some(Ok(CallReply::Result(_)))), "in its first poll");
    assert!(!faulty.intercept.used.load(Ordering::SeqCst));
    assert_eq!(dispatch.load().runs, 0);
    let refused = dispatch.call(&mute(), call("effects", true, Arc::new(NoClientChannel))).await;
    assert!(matches!(refused, Err(Fault::Store(_))));
    assert_eq!(dispatch.load().runs, 0, "the slot was given back");
    assert!(!ran.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_call_of_a_tool_that_is_being_compiled_waits_for_it() {
    let dispatch = in_memory(vec![tool("quick", |_| async { done("x") })]);
    let begin = |name: &'static str, task: bool| {
        let dispatch = dispatch.clone();
        tokio::spawn(async move { dispatch.call(&mute(), call(name, task, Arc::new(NoClientChannel))).await })
    };
    dispatch.catalog().set_loading(vec!["late.wasm".to_owned()]);
    let known = begin("quick", false).await.expect("ends");
    assert!(matches!(known, Ok(CallReply::Result(_))), "what is there waits for nothing");
    let late = [begin("late", false), begin("late", true)];
    let other = begin("other", false);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(late.iter().all(|call| !call.is_finished()));
    let tools = [tool("quick", |_| async { done("x") }), tool("late", |_| async { done("y") })];
    dispatch.catalog().publish(Arc::new(Catalog::new(tools).expect("two names")));
    dispatch.catalog().set_loading(vec!["other.wasm".to_owned()]);
    let [plain, task] = late.map(|call| async { call.await.expect("ends") });
    assert!(matches!(plain.await, Ok(CallReply::Result(_))));
    assert!(matches!(task.await, Ok(CallReply::Created(_))));
    assert!(!other.is_finished());
    dispatch.catalog().set_loading(Vec::new());
    assert!(matches!(other.await.expect("ends"), Err(Fault::UnknownTool(name)) if name == "other"));
}

#[tokio::test]
async fn a_panic_of_the_engine_is_an_error_and_not_a_lost_task() {
    let dispatch = in_memory(vec![tool("panics", |_| async { panic!("a fault of the engine") })]);
    let reply = dispatch.call(&mute(), plain_call("panics")).await;
    assert!(matches!(reply, Ok(CallReply::Error(error)) if error.code == -32603));
    let id = create_alone(&dispatch, &mute(), "panics").await;
    let caller = mute();
    let outcome = tasks_of(&dispatch).await.task_result(&caller, &id, Arc::new(NoClientChannel)).await;
    assert_eq!(outcome.expect("a task").expect_err("an error").code, -32603);
    assert_eq!(dispatch.load().runs, 0);
}

#[tokio::test]
async fn t_36_a_cancelled_run_is_dropped_with_all_it_holds() {
    let work = Work::default();
    let dispatch = in_memory(vec![work.tool("waits")]);
    let id = create_alone(&dispatch, &mute(), "waits").await;
    let tasks = tasks_of(&dispatch).await;
    work.begun().await;
    let cancelled = tasks.cancel_task(&mute(), &id).await.expect("is live");
    assert_eq!(cancelled.status(), TaskStatus::Cancelled);
    eventually("the run to be dropped", || work.dropped() == 1).await;
    eventually("the slot to be free", || dispatch.load().runs == 0).await;
    assert!(matches!(tasks.cancel_task(&mute(), &id).await, Err(Fault::AlreadyOver(_))));
}

#[tokio::test]
async fn p_1_progress_rises_is_paced_and_ends_with_the_last_word() {
    let chatters = tool("chatters", |context| async move {
        for step in 0..2000_u32 {
            // Every third is not greater than the one before.
            let progress = f64::from(step - step % 3 / 2);
            context.report(Report::Progress(Progress { progress, total: None, message: None }));
            tokio::task::yield_now().await;
        }
        done("x")
    });
    let dispatch = in_memory(vec![chatters]);
    let client = Client::default();
    dispatch.call(&mute(), call("chatters", false, Arc::new(client.clone()))).await.expect("a result");
    let heard = client.heard();
    assert!(heard.windows(2).all(|pair| pair[0] < pair[1]), "{heard:?}");
    assert_eq!(heard.last(), Some(&1999.0));
    assert!(heard.len() < 1000, "{} of 2000 left", heard.len());
}

#[tokio::test]
async fn a_drained_host_takes_no_calls_and_leaves_no_task_that_claims_to_run() {
    let tools = vec![tool("waits", |_| std::future::pending()), tool("quick", |_| async { done("x") })];
    let dispatch = in_memory(tools);
    let id = create_alone(&dispatch, &mute(), "waits").await;
    dispatch.drain(Duration::ZERO, DrainMode::End(Departure::ShutDown)).await;
    assert_eq!(task_of(&dispatch, &mute(), &id).await.status(), TaskStatus::Failed);
    let refused = dispatch.call(&mute(), plain_call("quick")).await;
    assert!(matches!(refused, Err(Fault::Closing)));
    assert_eq!(dispatch.load().runs, 0);
}

#[tokio::test]
async fn a_run_computes_on_its_callers_account_with_its_callers_weight() {
    let shares = Arc::new(Mutex::new(Vec::new()));
    let look = native("look").runs_sharing(&shares, |shares, context| async move {
        shares.lock().expect("no panic").push(context.share());
        done("x")
    });
    let dispatch = in_memory(vec![look]);
    let four = [WeightSpec { principals: vec!["local".to_owned()], weight: 4 }];
    let weights = Weights::new(&four).expect("valid");
    dispatch.enforce(Policy::new(AccessRules::default(), &Rates::default()).weighing(weights));
    for caller in [&mute(), &anonymous(Some("another"))] {
        dispatch.call(caller, plain_call("look")).await.expect("a result");
    }
    create_alone(&dispatch, &mute(), "look").await;
    eventually("the task to run", || shares.lock().expect("no panic").len() == 3).await;
    let shares = shares.lock().expect("no panic");
    let [local, other, task] = &shares[..] else { panic!("{shares:?}") };
    assert_eq!((local.weight, other.weight), (4, 1));
    assert_ne!(local.account, other.account);
    assert_eq!(local, task, "its tasks too");
}
