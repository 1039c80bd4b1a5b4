//! The application over the memory store, with tools written in Rust: properties that must hold
//! whatever the engine, the store and the client do.

use crate::kit::application::{dispatch, eventually, tasks_of};
use crate::kit::calls::{call, create};
use crate::kit::faulty::faulty;
use futures_util::FutureExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolyard_dispatch::rules::AccessRules;
use toolyard_dispatch::{
    CallReply, Caller, ClientChannel, ClientRoute, Dispatch, Fault, NoClientChannel, Notice, Policy,
    Principal, Rates, RawJson, RouteScope, SessionId, WeightSpec, Weights,
};
use toolyard_dispatch::{Departure, DrainMode};
use toolyard_kit::{done, memory, tool};
use toolyard_task::tool::Report;
use toolyard_task::wire::{Progress, TaskStatus};
use toolyard_task::{Catalog, RunContext, TaskId, Tool};

fn simple(tools: Vec<Arc<dyn Tool>>) -> Arc<Dispatch> {
    let store = memory();
    dispatch(&store, store.clone(), tools)
}

fn caller() -> Caller {
    Caller::local(RawJson::empty_object())
}

#[tokio::test]
async fn an_inline_call_touches_no_store_and_ends_where_it_stands() {
    let (store, faulty) = faulty(u32::MAX);
    let dispatch = dispatch(&store, faulty.clone(), vec![tool("quick", |_| async { done("x") })]);
    let reply = dispatch.call(&caller(), call("quick", false, Arc::new(NoClientChannel))).now_or_never();
    assert!(matches!(reply, Some(Ok(CallReply::Result(_)))), "in its first poll");
    assert!(!faulty.intercept.used.load(Ordering::SeqCst));
    assert_eq!(dispatch.load().runs, 0);
}

#[tokio::test]
async fn a_call_of_a_tool_that_is_being_compiled_waits_for_it() {
    let dispatch = simple(vec![tool("quick", |_| async { done("x") })]);
    let begin = |name: &'static str, task: bool| {
        let dispatch = dispatch.clone();
        tokio::spawn(
            async move { dispatch.call(&caller(), call(name, task, Arc::new(NoClientChannel))).await },
        )
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
async fn t_16_what_cannot_be_stored_is_refused_and_does_not_run() {
    let (store, faulty) = faulty(u32::MAX);
    let ran = Arc::new(AtomicBool::new(false));
    let sign = ran.clone();
    let body = move |_| {
        sign.store(true, Ordering::SeqCst);
        async { done("x") }.boxed()
    };
    let dispatch = dispatch(&store, faulty, vec![tool("effects", body)]);
    let refused = dispatch.call(&caller(), call("effects", true, Arc::new(NoClientChannel))).await;
    assert!(matches!(refused, Err(Fault::Store(_))));
    assert_eq!(dispatch.load().runs, 0, "the slot was given back");
    assert!(!ran.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_panic_of_the_engine_is_an_error_and_not_a_lost_task() {
    let dispatch = simple(vec![tool("panics", |_| async { panic!("a fault of the engine") })]);
    let reply = dispatch.call(&caller(), call("panics", false, Arc::new(NoClientChannel))).await;
    assert!(matches!(reply, Ok(CallReply::Error(error)) if error.code == -32603));
    let id = create(&dispatch, &caller(), "panics", Arc::new(NoClientChannel)).await;
    let outcome = tasks_of(&dispatch)
        .await
        .task_result(&caller(), &id, Arc::new(NoClientChannel))
        .await
        .expect("a task");
    assert_eq!(outcome.expect_err("an error").code, -32603);
    assert_eq!(dispatch.load().runs, 0);
}

#[tokio::test]
async fn t_36_a_cancelled_run_is_dropped_with_all_it_holds() {
    struct Held(Arc<AtomicBool>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let sign = dropped.clone();
    let body = move |_| {
        let held = Held(sign.clone());
        async move {
            std::future::pending::<()>().await;
            drop(held);
            done("never")
        }
    };
    let dispatch = simple(vec![tool("waits", body)]);
    let id = create(&dispatch, &caller(), "waits", Arc::new(NoClientChannel)).await;
    assert_eq!(
        tasks_of(&dispatch).await.cancel_task(&caller(), &id).await.expect("cancelled").status(),
        TaskStatus::Cancelled
    );
    eventually("the run to be dropped", || dropped.load(Ordering::SeqCst)).await;
    eventually("the slot to be free", || dispatch.load().runs == 0).await;
    assert!(matches!(
        tasks_of(&dispatch).await.cancel_task(&caller(), &id).await,
        Err(Fault::AlreadyOver(_))
    ));
}

#[tokio::test]
async fn p_1_progress_rises_is_paced_and_ends_with_the_last_word() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<f64>>);
    impl ClientChannel for Heard {
        fn notify(&self, _: Option<TaskId>, notice: Notice) {
            if let Notice::Progress { progress, .. } = notice {
                self.0.lock().expect("heard").push(progress.progress);
            }
        }

        fn route(&self, _: Option<TaskId>, _: RouteScope) -> Option<Arc<dyn ClientRoute>> {
            None
        }

        fn release(&self, _: Duration) {}
    }
    let body = |context: Arc<dyn RunContext>| {
        async move {
            for step in 0..2000_u32 {
                // Every third is not greater than the one before.
                let progress = f64::from(step - step % 3 / 2);
                context.report(Report::Progress(Progress { progress, total: None, message: None }));
                tokio::task::yield_now().await;
            }
            done("x")
        }
    };
    let dispatch = simple(vec![tool("chatters", body)]);
    let heard = Arc::new(Heard::default());
    dispatch.call(&caller(), call("chatters", false, heard.clone())).await.expect("a result");
    let heard = heard.0.lock().expect("heard");
    assert!(heard.windows(2).all(|pair| pair[0] < pair[1]), "{heard:?}");
    assert_eq!(heard.last(), Some(&1999.0));
    assert!(heard.len() < 1000, "{} of 2000 left", heard.len());
}

#[tokio::test]
async fn a_drained_host_takes_no_calls_and_leaves_no_task_that_claims_to_run() {
    let dispatch =
        simple(vec![tool("waits", |_| std::future::pending()), tool("quick", |_| async { done("x") })]);
    let id = create(&dispatch, &caller(), "waits", Arc::new(NoClientChannel)).await;
    dispatch.drain(Duration::ZERO, DrainMode::End(Departure::ShutDown)).await;
    assert_eq!(
        tasks_of(&dispatch).await.task(&caller(), &id).await.expect("found").status(),
        TaskStatus::Failed
    );
    let refused = dispatch.call(&caller(), call("quick", false, Arc::new(NoClientChannel))).await;
    assert!(matches!(refused, Err(Fault::Closing)));
    assert_eq!(dispatch.load().runs, 0);
}

#[tokio::test]
async fn a_run_computes_on_its_callers_account_with_its_callers_weight() {
    let shares = Arc::new(Mutex::new(Vec::new()));
    let kept = shares.clone();
    let dispatch = simple(vec![tool("look", move |context| {
        kept.lock().expect("no panic").push(context.share());
        async { done("x") }.boxed()
    })]);
    let four = [WeightSpec { principals: vec!["local".to_owned()], weight: 4 }];
    let weights = Weights::new(&four).expect("valid");
    dispatch.enforce(Policy::new(AccessRules::default(), &Rates::default()).weighing(weights));
    let session = Some(SessionId("another".into()));
    let anonymous = Caller::new(Arc::new(Principal::Anonymous), session, RawJson::empty_object());
    for caller in [&caller(), &anonymous] {
        dispatch.call(caller, call("look", false, Arc::new(NoClientChannel))).await.expect("a result");
    }
    create(&dispatch, &caller(), "look", Arc::new(NoClientChannel)).await;
    eventually("the task to run", || shares.lock().expect("no panic").len() == 3).await;
    let shares = shares.lock().expect("no panic");
    let [local, other, task] = &shares[..] else { panic!("{shares:?}") };
    assert_eq!((local.weight, other.weight), (4, 1));
    assert_ne!(local.account, other.account);
    assert_eq!(local, task, "its tasks too");
}
