//! A running call of a stateless client becomes a task, with a clock that runs out at
//! once, or never.

use crate::kit::application::{dispatch, eventually, tasks_of};
use crate::kit::faulty::faulty;
use crate::kit::stateless::{
    call, calls, client, created, delivered, eventually_asks, outcome, signed_in, text,
};
use futures_util::FutureExt as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use toolyard_dispatch::{CallReply, Caller, CreatedTask, Fault, Outcome, Principal, RawJson, Stop};
use toolyard_kit::{YES, done, memory, native, question, tool};
use toolyard_protocol::stateless::input::Retry;
use toolyard_task::Tool;
use toolyard_task::tool::RunContext;
use toolyard_task::wire::TaskStatus;

/// Short, but not at once: the run is under way when it passes.
const SOON: Duration = Duration::from_millis(20);

const NEVER: Duration = Duration::from_secs(3600);

/// A tool that waits until the test releases it, and how often it was started and dropped.
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
        native("t").inline_for(inline_for).runs(move |_| {
            let slow = slow.clone();
            async move {
                slow.started.fetch_add(1, Ordering::SeqCst);
                let _counted = Counted(slow.ended.clone());
                slow.go.notified().await;
                done("done")
            }
        })
    }
}

/// 26T-3: a call that takes longer than a plain call may becomes a task in mid-run, and is not
/// started again.
#[tokio::test]
async fn a_call_that_takes_long_goes_on_as_a_task() {
    let (store, slow) = (memory(), Slow::default());
    let dispatch = dispatch(&store, store.clone(), vec![slow.tool(SOON)]);
    let view = delivered(calls(&dispatch, Retry::default()).await);
    assert_eq!(view.status, TaskStatus::Working);
    assert_eq!(slow.started.load(Ordering::SeqCst), 1);
    assert!(tasks_of(&dispatch).await.task(&client(), &view.id).await.expect("26T-10: durable").is_live());
    slow.go.notify_one();
    assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { is_error: false, .. }));
    assert_eq!(slow.started.load(Ordering::SeqCst), 1, "it was never started again");
}

/// A call that ends while it becomes a task gets exactly one answer: its result or its task.
#[tokio::test]
async fn the_end_and_the_clock_never_both_answer() {
    let store = memory();
    let pause = Arc::new(AtomicU32::new(0));
    let body = pause.clone();
    let sleeper = native("t").inline_for(SOON).runs(move |_| {
        let time = Duration::from_micros(u64::from(body.load(Ordering::SeqCst)));
        async move {
            tokio::time::sleep(time).await;
            done("done")
        }
    });
    let dispatch = dispatch(&store, store.clone(), vec![sleeper]);
    let mut tasks = 0;
    for time in (15_000..25_000).step_by(500) {
        pause.store(time, Ordering::SeqCst);
        match calls(&dispatch, Retry::default()).await.expect("a reply") {
            CallReply::Result(result) => assert!(result.as_str().contains("done")),
            created @ CallReply::Created(_) => {
                let view = delivered(Ok(created));
                assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { .. }));
                tasks += 1;
            }
            other => panic!("{other:?}"),
        }
        let stored = tasks_of(&dispatch).await.summaries(&client(), None, 1000).await.expect("lists");
        assert_eq!(stored.len(), tasks, "a task for each reply that named one");
        assert!(stored.iter().all(|task| task.status.is_terminal()));
    }
}

/// A guest that asks at about the time of its promotion asks in a round or as a task, and leaves no
/// task behind without a run.
#[tokio::test]
async fn asking_and_the_clock_never_both_decide() {
    let store = memory();
    let pause = Arc::new(AtomicU32::new(0));
    let body = pause.clone();
    let asks = native("t").inline_for(SOON).runs(move |context: Arc<dyn RunContext>| {
        let time = Duration::from_micros(u64::from(body.load(Ordering::SeqCst)));
        async move {
            tokio::time::sleep(time).await;
            match context.ask(vec![question("a")]).await {
                Ok(_) => done("done"),
                Err(error) => done(&format!("{error:?}")),
            }
        }
    });
    let dispatch = dispatch(&store, store.clone(), vec![asks]);
    let mut tasks = 0;
    for time in (15_000..25_000).step_by(250) {
        pause.store(time, Ordering::SeqCst);
        match calls(&dispatch, Retry::default()).await.expect("a reply") {
            CallReply::InputRequired(_) => {}
            CallReply::Created(created) => {
                let id = created.view.id.clone();
                created.handover.expect("a duty").mark_delivered();
                eventually_asks(&dispatch, &id, "a").await;
                let answers = HashMap::from([("a".to_owned(), RawJson::trusted(YES))]);
                tasks_of(&dispatch).await.update_task(&client(), &id, answers).await.expect("acknowledged");
                assert!(matches!(outcome(&dispatch, &id).await, Outcome::Result { .. }));
                tasks += 1;
            }
            other => panic!("{other:?}"),
        }
        let stored = tasks_of(&dispatch).await.summaries(&client(), None, 1000).await.expect("lists");
        assert_eq!(stored.len(), tasks, "a task for each reply that named one");
        assert!(stored.iter().all(|task| task.status == TaskStatus::Completed));
    }
}

/// A task that no client can learn of ends, and its guest with it.
#[tokio::test]
async fn a_handle_that_is_not_delivered_takes_its_task_along() {
    let (store, slow) = (memory(), Slow::default());
    let dispatch = dispatch(&store, store.clone(), vec![slow.tool(SOON)]);
    let CreatedTask { view, handover, .. } = created(calls(&dispatch, Retry::default()).await);
    drop(handover);
    assert_eq!(outcome(&dispatch, &view.id).await, Outcome::Cancelled);
    eventually_dropped(&slow).await;

    // No caller waits for the call any more when its guest begins a task.
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
    });
    let dispatch = self::dispatch(&store, store.clone(), vec![beginner]);
    assert!(calls(&dispatch, Retry::default()).now_or_never().is_none(), "it is under way");
    go.notify_one();
    eventually("the end of the guest", || ended.load(Ordering::SeqCst) == 1).await;
    let stored = tasks_of(&dispatch).await.summaries(&client(), None, 1000).await.expect("lists");
    assert_eq!(stored.len(), 2);
    assert!(stored.iter().all(|task| task.status == TaskStatus::Cancelled));
}

async fn eventually_dropped(slow: &Slow) {
    eventually("the end of the guest", || slow.ended.load(Ordering::SeqCst) == 1).await;
}

/// 26H-13: cancelling the request stops a call, and does nothing to a task.
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
    let view = delivered(dispatch.call(&caller, call("t", Retry::default(), &stop)).await);
    stop.set();
    // A stop signal would have come by now.
    tokio::time::sleep(SOON).await;
    assert_eq!(slow.ended.load(Ordering::SeqCst), 0, "it runs on");
    slow.go.notify_one();
    assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { .. }));
}

/// A store that cannot take the task now does not end the call.
#[tokio::test]
async fn where_no_task_can_be_made_the_call_is_waited_for() {
    let (store, faulty) = faulty(u32::MAX);
    let slow = Slow::default();
    let dispatch = dispatch(&store, faulty.clone(), vec![slow.tool(SOON)]);
    let calling = calls(&dispatch, Retry::default());
    let (reply, ()) = tokio::join!(calling, async {
        eventually("the attempt", || faulty.intercept.used.load(Ordering::SeqCst)).await;
        slow.go.notify_one();
    });
    assert!(text(&reply.expect("a reply")).contains("done"));
    assert_eq!(slow.started.load(Ordering::SeqCst), 1);
}

/// A message of the guest after the promotion counts at once, and an earlier one is the task's.
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
            done("done")
        }
    });
    let dispatch = dispatch(&store, store.clone(), vec![beginner]);
    let view = delivered(calls(&dispatch, Retry::default()).await);
    let task = tasks_of(&dispatch).await.task(&client(), &view.id).await.expect("there");
    assert!(task.effects, "said before it was a task");
    assert!(task.started_at.is_some());
    go.notify_one();
    assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { .. }));
}

/// 26T-25: a task without an owner is visible to everyone who knows its id, and is on no list.
#[tokio::test]
async fn an_anonymous_task_is_found_by_its_id_alone() {
    let (store, slow) = (memory(), Slow::default());
    let dispatch = dispatch(&store, store.clone(), vec![slow.tool(SOON)]);
    let anonymous = || {
        let capabilities = RawJson::empty_object();
        Caller::stateless(Arc::new(Principal::Anonymous), None, capabilities)
    };
    let (caller, begin) = (anonymous(), call("t", Retry::default(), &Arc::default()));
    let view = delivered(dispatch.call(&caller, begin).await);
    assert!(tasks_of(&dispatch).await.task(&anonymous(), &view.id).await.is_ok());
    let session = Caller::new(
        Arc::new(Principal::Anonymous),
        Some(toolyard_dispatch::SessionId("s".into())),
        RawJson::empty_object(),
    );
    assert!(tasks_of(&dispatch).await.task(&session, &view.id).await.is_ok(), "in a session as well");
    assert!(tasks_of(&dispatch).await.summaries(&session, None, 10).await.expect("lists").is_empty());
    for stranger in [client(), signed_in("alice")] {
        assert!(matches!(tasks_of(&dispatch).await.task(&stranger, &view.id).await, Err(Fault::UnknownTask)));
    }
    slow.go.notify_one();
    eventually("the end", || slow.ended.load(Ordering::SeqCst) == 1).await;
}
