//! The store fails under a task, once, at each of its calls in turn, in each way in which a call
//! can fail. A client gets an error or the truth. An acknowledged request holds. When the fault is
//! gone, the task ends and its slot is free.

// The stage provides the host, its clock and its client.
mod stage;

use crate::kit::prelude::*;
use crate::kit::swept::KINDS;
use futures_util::future::join_all;
use stage::{Stage, sweep};
use std::collections::BTreeSet;

type Scenario = fn(Arc<Stage>) -> BoxFuture<'static, ()>;

/// Every call to the store in the life of a task, and its least number.
const SCENARIOS: [(&str, Scenario); 9] = [
    ("created, run, read", |stage| finishes(stage).boxed()),
    ("queued, then run", |stage| waits_in_line(stage).boxed()),
    ("asked and answered", |stage| asks(stage).boxed()),
    ("asked and answered by key", |stage| asks_statelessly(stage).boxed()),
    ("cancelled", |stage| cancelled(stage).boxed()),
    ("promoted", |stage| promoted(stage).boxed()),
    ("taken over", |stage| taken_over(stage).boxed()),
    ("expired and removed", |stage| expires(stage).boxed()),
    ("shut down", |stage| shut_down(stage).boxed()),
];

/// The operations that the scenarios together must reach.
const OPERATIONS: [&str; 12] = [
    "commit", "create", "dead", "due", "forget", "held_by", "keys", "read", "register", "remove", "search",
    "use_up",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_whichever_call_the_store_fails_nothing_acknowledged_is_lost_and_the_task_ends() {
    let sweeps = SCENARIOS
        .into_iter()
        .flat_map(|(name, scenario)| KINDS.map(|kind| tokio::spawn(sweep(name, kind, tools, scenario))));
    let mut met = BTreeSet::new();
    let mut calls = 0;
    for swept in join_all(sweeps).await {
        let swept = swept.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        calls += swept.len();
        met.extend(swept);
    }
    println!("{calls} faults were met, at {met:?}");
    let missing: Vec<_> = OPERATIONS.iter().filter(|operation| !met.contains(*operation)).collect();
    assert_eq!(missing, [&""; 0], "operations that met no fault");
}

fn tools() -> Vec<Arc<dyn Tool>> {
    let again = |name: &str| native(name).durability(Durability::Rerun);
    vec![
        again("quick").runs(|context| {
            context.report(Report::Status("soon".to_owned()));
            async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                done("done")
            }
        }),
        again("asks").runs(asking),
        again("asks at once").inline_for(Duration::ZERO).runs(asking),
        tool("waits", |_| std::future::pending()),
        tool("late", |context| {
            async move {
                drop(context.ask(vec![question("first")]).await);
                // As a plain call or as a task, whatever the outcome.
                drop(context.effects().await);
                drop(context.begin_task().await);
                tokio::time::sleep(Duration::from_millis(5)).await;
                done("late")
            }
        }),
    ]
}

/// A guest that repeats a question that could not be stored.
async fn asking(context: Arc<dyn RunContext>) -> RunEnd {
    loop {
        if let Ok(answers) = context.ask(vec![question("q")]).await {
            return done(&format!("{:?}", answers[0].outcome));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn finishes(stage: Arc<Stage>) {
    let Some(id) = stage.create("quick").await else { return };
    stage.has_result(&id, "done").await;
    stage.listed(&id).await;
}

async fn waits_in_line(stage: Arc<Stage>) {
    // The bound of the stage is two at once.
    for _ in 0..2 {
        stage.create("waits").await;
    }
    let Some(id) = stage.create("quick").await else { return stage.cancel_all().await };
    stage.cancel_all_but(&id).await;
    stage.has_result(&id, "done").await;
}

async fn asks(stage: Arc<Stage>) {
    let Some(id) = stage.create("asks").await else { return stage.cancel_all().await };
    stage.answer_when_asked().await;
    stage.has_result(&id, "accept").await;
}

async fn asks_statelessly(stage: Arc<Stage>) {
    let Some(id) = stage.create_statelessly("asks at once").await else { return stage.cancel_all().await };
    stage.answer_by_key(&id).await;
    stage.has_outcome(&id, "accept").await;
}

async fn cancelled(stage: Arc<Stage>) {
    let Some(id) = stage.create("waits").await else { return stage.cancel_all().await };
    stage.cancel(&id).await;
    assert_eq!(stage.task(&id).await.status(), TaskStatus::Cancelled, "{}", stage.name);
}

async fn promoted(stage: Arc<Stage>) {
    match stage.call_statelessly("late").await {
        Some(Ok(CallReply::InputRequired(asked))) => match stage.call_again("late", asked).await {
            Some(Ok(CallReply::Created(created))) => {
                let id = created.view.id.clone();
                created.handover.expect("a stateless client's").mark_delivered();
                stage.has_outcome(&id, "late").await;
            }
            // As a plain call to its end, or with an error.
            Some(Ok(CallReply::Result(_)) | Err(Fault::Store(_) | Fault::Answered(_))) | None => {}
            other => panic!("{}: {other:?}", stage.name),
        },
        Some(Err(Fault::Store(_))) | None => {}
        other => panic!("{}: {other:?}", stage.name),
    }
}

async fn taken_over(stage: Arc<Stage>) {
    // Of another host, which dies: one that may be run again, and one that may not.
    let left = stage.left_by_a_dead_host(&["asks", "waits"]).await;
    let [again, never] = &left[..] else { panic!("{left:?}") };
    assert_eq!(stage.status_in_the_end(never).await, TaskStatus::Failed, "{}", stage.name);
    stage.answer_when_asked().await;
    stage.has_result(again, "accept").await;
}

async fn expires(stage: Arc<Stage>) {
    let Some(id) = stage.create_for("waits", 20).await else { return stage.until_all_is_over().await };
    assert_eq!(stage.status_in_the_end(&id).await, TaskStatus::Failed, "{}", stage.name);
    stage.until_removed(&id).await;
}

async fn shut_down(stage: Arc<Stage>) {
    let ids: Vec<_> =
        [stage.create("asks").await, stage.create("waits").await].into_iter().flatten().collect();
    stage.drain(DrainMode::HandOver).await;
    stage.next_host_sees_to(&ids).await;
}
