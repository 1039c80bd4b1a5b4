//! A running call of a stateless client becomes a task, with a clock that runs out at
//! once, or never.

use crate::bridge::stage::Work;
use crate::kit::prelude::*;
use crate::kit::stateless::{
    answer_when_asked, call, calls, client, created, delivered, outcome, signed_in, text,
};
use toolyard_dispatch::CreatedTask;

/// Short, but not at once: the run is under way when it passes.
const SOON: Duration = Duration::from_millis(20);

const NEVER: Duration = Duration::from_secs(3600);

/// A tool that is waited for so long, and goes on until the test releases it.
fn slow(work: &Work, inline_for: Duration) -> Arc<dyn Tool> {
    work.run(native("t").inline_for(inline_for))
}

async fn until_dropped(work: &Work) {
    eventually("the end of the guest", || work.dropped() == 1).await;
}

/// A call that ends or asks while it becomes a task gets exactly one answer: its result, its question or its task. No
/// task is left behind without a run.
#[tokio::test]
async fn the_clock_never_answers_beside_the_end_or_a_question() {
    for is_asking in [false, true] {
        let pause = Arc::new(AtomicU32::new(0));
        let sleeper = native("t").inline_for(SOON).runs_sharing(&pause, move |pause, context| async move {
            let time = u64::from(pause.load(Ordering::SeqCst));
            tokio::time::sleep(Duration::from_micros(time)).await;
            if is_asking { asks(context).await } else { done("done") }
        });
        let dispatch = in_memory(vec![sleeper]);
        let mut tasks = 0;
        for time in (15_000..25_000).step_by(250) {
            pause.store(time, Ordering::SeqCst);
            match calls(&dispatch, Retry::default()).await.expect("a reply") {
                CallReply::Result(result) if !is_asking => assert!(result.as_str().contains("done")),
                CallReply::InputRequired(_) if is_asking => {}
                created @ CallReply::Created(_) => {
                    let view = delivered(Ok(created));
                    if is_asking {
                        answer_when_asked(&dispatch, &view.id, "a").await;
                    }
                    assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { .. }));
                    tasks += 1;
                }
                other => panic!("{other:?}"),
            }
            let stored = listed(&dispatch, &client()).await;
            assert_eq!(stored.len(), tasks, "a task for each reply that named one");
            assert!(stored.iter().all(|task| task.status == TaskStatus::Completed));
        }
    }
}

/// A task that no client can learn of ends, and its guest with it.
#[tokio::test]
async fn a_handle_that_is_not_delivered_takes_its_task_along() {
    let (store, work) = (memory(), Work::default());
    let dispatch = dispatch(&store, store.clone(), vec![slow(&work, SOON)]);
    let CreatedTask { view, handover, .. } = created(calls(&dispatch, Retry::default()).await);
    drop(handover);
    assert_eq!(outcome(&dispatch, &view.id).await, Outcome::Cancelled);
    until_dropped(&work).await;

    // No caller waits for the call any more when its guest begins a task.
    let (go, dropped) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let shared = (go.clone(), dropped.clone());
    let beginner = native("t").runs_sharing(&shared, |(wait, count), context| async move {
        let _counted = Counted(count);
        wait.notified().await;
        drop(context.begin_task().await);
        std::future::pending().await
    });
    let dispatch = self::dispatch(&store, store.clone(), vec![beginner]);
    assert!(calls(&dispatch, Retry::default()).now_or_never().is_none(), "it is under way");
    go.notify_one();
    eventually("the end of the guest", || dropped.load(Ordering::SeqCst) == 1).await;
    let stored = listed(&dispatch, &client()).await;
    assert_eq!(stored.len(), 2);
    assert!(stored.iter().all(|task| task.status == TaskStatus::Cancelled));
}

/// 26T-3, 26H-13: a call that takes longer than a plain call may becomes a task in mid-run, and is not started again.
/// Cancelling the request stops a call, and does nothing to a task.
#[tokio::test]
async fn cancelling_a_request_stops_a_call_and_no_task() {
    let work = Work::default();
    let dispatch = in_memory(vec![slow(&work, NEVER)]);
    let stop = Arc::new(Stop::default());
    let caller = client();
    let calling = dispatch.call(&caller, call("t", Retry::default(), &stop));
    let (reply, ()) = tokio::join!(calling, async {
        work.begun().await;
        stop.set();
    });
    assert!(matches!(reply, Err(Fault::Cancelled)), "{reply:?}");
    until_dropped(&work).await;

    let work = Work::default();
    let dispatch = in_memory(vec![slow(&work, SOON)]);
    let stop = Arc::new(Stop::default());
    let view = delivered(dispatch.call(&caller, call("t", Retry::default(), &stop)).await);
    stop.set();
    // A stop signal would have come by now.
    tokio::time::sleep(SOON).await;
    assert_eq!(work.dropped(), 0, "it runs on");
    work.finish();
    assert!(matches!(outcome(&dispatch, &view.id).await, Outcome::Result { is_error: false, .. }));
    assert_eq!(work.started(), 1, "it was never started again");
}

/// A store that cannot take the task now does not end the call.
#[tokio::test]
async fn where_no_task_can_be_made_the_call_is_waited_for() {
    let (store, faulty) = faulty(u32::MAX);
    let work = Work::default();
    let dispatch = dispatch(&store, faulty.clone(), vec![slow(&work, SOON)]);
    let calling = calls(&dispatch, Retry::default());
    let (reply, ()) = tokio::join!(calling, async {
        eventually("the attempt", || faulty.intercept.used.load(Ordering::SeqCst)).await;
        work.finish();
    });
    assert!(text(&reply.expect("a reply")).contains("rendered"));
    assert_eq!(work.started(), 1);
}

/// A message of the guest after the promotion counts at once, and an earlier one is the task's.
#[tokio::test]
async fn a_guest_that_begins_a_task_is_one_from_there_on() {
    let go = Arc::new(Notify::new());
    let beginner = native("t").runs_sharing(&go, |wait, context| async move {
        assert!(context.info().task.is_none());
        context.effects().await.expect("nothing stands against it");
        context.begin_task().await.expect("a task");
        context.begin_task().await.expect("which is one already");
        assert!(context.info().task.is_some());
        wait.notified().await;
        done("done")
    });
    let dispatch = in_memory(vec![beginner]);
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
    let work = Work::default();
    let dispatch = in_memory(vec![slow(&work, SOON)]);
    let begin = call("t", Retry::default(), &Arc::default());
    let view = delivered(dispatch.call(&stranger(), begin).await);
    let tasks = tasks_of(&dispatch).await;
    let session = anonymous(Some("s"));
    for caller in [&stranger(), &session] {
        assert!(tasks.task(caller, &view.id).await.is_ok());
    }
    assert!(listed(&dispatch, &session).await.is_empty());
    for other in [client(), signed_in("alice")] {
        assert!(matches!(tasks.task(&other, &view.id).await, Err(Fault::UnknownTask)));
    }
    work.finish();
    until_dropped(&work).await;
}
