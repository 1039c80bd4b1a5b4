//! Tasks whose host is gone: they run again, or end with the reason, as the operator has set; and a
//! host that the others take for dead.

use crate::kit::application::{dispatch, eventually, tasks_of};
use crate::kit::calls::{call, create};
use crate::kit::client::Client;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, pending};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::{
    CallEvent, CallOutcome, Catalog, Clock, Departure, Dispatch, DrainMode, DrainReport, NoClientChannel,
    ObservedCall, Observer, RawJson, Task, Timestamp,
};
use toolyard_kit::{YES, done, local_caller, memory, native, question, tool};
use toolyard_store::MemoryStore;
use toolyard_task::tool::{RunContext, RunEnd};
use toolyard_task::wire::TaskStatus;
use toolyard_task::{Durability, Tool};

type Body = fn(Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd>;

fn rerun(body: Body) -> Arc<dyn Tool> {
    native("tool").durability(Durability::Rerun).runs(body)
}

fn once(body: Body) -> Arc<dyn Tool> {
    tool("tool", body)
}

/// A host on this store.
fn host(store: &Arc<MemoryStore>, tools: Vec<Arc<dyn Tool>>) -> Arc<Dispatch> {
    dispatch(store, store.clone(), tools)
}

/// A task of the tool `tool`, whose client is gone.
async fn created(dispatch: &Arc<Dispatch>) -> String {
    create(dispatch, &local_caller(), "tool", Arc::new(NoClientChannel)).await
}

async fn task(dispatch: &Arc<Dispatch>, id: &str) -> Task {
    tasks_of(dispatch).await.task(&local_caller(), id).await.expect("found")
}

async fn until(dispatch: &Arc<Dispatch>, id: &str, what: &str, holds: impl Fn(&Task) -> bool) -> Task {
    let seen = Mutex::new(None);
    eventually(what, || {
        let read = async { dispatch.tasks().await?.task(&local_caller(), id).await };
        let now = read.now_or_never().and_then(Result::ok);
        let fits = now.as_ref().is_some_and(&holds);
        *seen.lock().expect("no panic") = now;
        fits
    })
    .await;
    seen.into_inner().expect("no panic").expect("just seen")
}

/// Never ends in the first attempt; returns the attempt in which it ended.
fn second_time(context: Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> {
    async move {
        match context.info().attempt {
            1 => pending().await,
            attempt => done(&format!("attempt {attempt}")),
        }
    }
    .boxed()
}

fn never(_: Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> {
    pending().boxed()
}

/// A task that had begun on a host that then died, and the next host.
async fn after_a_death(one: Arc<dyn Tool>) -> (Arc<Dispatch>, Arc<MemoryStore>, String) {
    let store = memory();
    let first = Arc::new(store.node());
    let id = created(&host(&first, vec![one.clone()])).await;
    first.kill();
    let second = Arc::new(store.node());
    (host(&second, vec![one]), second, id)
}

#[tokio::test]
async fn a5_what_may_be_run_again_is_run_again_and_told_its_attempt() {
    let (second, _, id) = after_a_death(rerun(second_time)).await;
    let ended = until(&second, &id, "the second attempt", |task| !task.is_live()).await;
    assert_eq!((ended.status(), ended.fence.attempt), (TaskStatus::Completed, 2));
    let result = tasks_of(&second)
        .await
        .task_result(&local_caller(), &id, Arc::new(NoClientChannel))
        .await
        .expect("a task")
        .expect("a result");
    assert!(result.as_str().contains("attempt 2"), "{}", result.as_str());
    eventually("the slot to be given back", || second.load().runs == 0).await;
}

/// The observed events of calls, one word each.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn observed(&self, call: &ObservedCall<'_>, event: CallEvent<'_>) {
        let event = match event {
            CallEvent::Began { caller, .. } => format!("{} by {caller}", call.tool),
            CallEvent::IsTask => "task".to_owned(),
            CallEvent::Ended(CallOutcome::Result { .. }) => "result".to_owned(),
            _ => return,
        };
        self.0.lock().expect("no panic").push(event);
    }
}

#[tokio::test]
async fn a_run_that_was_taken_over_is_observed_like_any_other() {
    let (second, _, id) = after_a_death(rerun(second_time)).await;
    let seen = Arc::new(Seen::default());
    second.observers().set_observer(seen.clone());
    until(&second, &id, "the second attempt", |task| !task.is_live()).await;
    let seen = seen.0.lock().expect("no panic");
    assert_eq!(*seen, ["tool by local", "task", "result"]);
}

/// The operator's setting from the creation of the task counts, and can only be revoked.
#[tokio::test]
async fn what_the_operator_allows_later_makes_nothing_run_again() {
    for (before, after) in [(once(second_time), rerun(second_time)), (rerun(second_time), once(second_time))]
    {
        let store = memory();
        let first = Arc::new(store.node());
        let id = created(&host(&first, vec![before])).await;
        first.kill();
        let ended = task(&host(&Arc::new(store.node()), vec![after]), &id).await;
        assert_eq!(ended.status(), TaskStatus::Failed);
    }
}

#[tokio::test]
async fn a_task_waits_for_a_tool_that_is_not_loaded() {
    let store = memory();
    let first = Arc::new(store.node());
    let id = created(&host(&first, vec![rerun(second_time)])).await;
    first.kill();
    let second = host(&Arc::new(store.node()), Vec::new());
    let stop = CancellationToken::new();
    let service = tokio::spawn(second.clone().keep_time(stop));
    let waits = task(&second, &id).await;
    assert_eq!(waits.status(), TaskStatus::Working);
    assert!(waits.status_message.expect("says why").contains("Waiting for the tool `tool`"));
    // A command that only reads does not take the task over.
    second.catalog().publish(Arc::new(Catalog::new(vec![rerun(second_time)]).expect("one")));
    until(&second, &id, "the tool to be back", |task| task.status() == TaskStatus::Completed).await;
    service.abort();
}

/// Asks `a`. In the first attempt it then never ends, later it returns the answer.
fn asks(context: Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> {
    async move {
        let answers = context.ask(vec![question("a")]).await;
        if context.info().attempt == 1 {
            return pending().await;
        }
        done(&format!("{answers:?}"))
    }
    .boxed()
}

/// IR-7: an answer is stored once, and the same question is not asked twice.
#[tokio::test]
async fn a_second_attempt_gets_the_answers_that_the_first_one_got() {
    let store = memory();
    let first = Arc::new(store.node());
    let before = host(&first, vec![rerun(asks)]);
    let client = Client::default();
    let id = create(&before, &local_caller(), "tool", Arc::new(client.clone())).await;
    eventually("the question", || !client.asked().is_empty()).await;
    before.take_response(&local_caller(), &client.asked()[0], Ok(RawJson::trusted(YES))).await.expect("kept");
    first.kill();
    let second = host(&Arc::new(store.node()), vec![rerun(asks)]);
    let later = Client::default();
    let result = tasks_of(&second)
        .await
        .task_result(&local_caller(), &id, Arc::new(later.clone()))
        .await
        .expect("a task");
    assert!(result.expect("a result").as_str().contains("accept"));
    assert_eq!((client.asked().len(), later.asked().len()), (1, 0));
}

/// A question that was open when the host died stays open, under the request that carried it and under
/// a new one.
#[tokio::test]
async fn an_open_question_outlives_its_host() {
    for answer_late in [false, true] {
        let store = memory();
        let first = Arc::new(store.node());
        let client = Client::default();
        let before = host(&first, vec![rerun(asks)]);
        let id = create(&before, &local_caller(), "tool", Arc::new(client.clone())).await;
        eventually("the question", || !client.asked().is_empty()).await;
        first.kill();
        let second = host(&Arc::new(store.node()), vec![rerun(asks)]);
        assert_eq!(task(&second, &id).await.status(), TaskStatus::InputRequired);
        let later = Client::default();
        if answer_late {
            // The answer to the request of the dead host.
            second
                .take_response(&local_caller(), &client.asked()[0], Ok(RawJson::trusted(YES)))
                .await
                .expect("kept");
        } else {
            let (asking, waits) = (later.clone(), second.clone());
            let id = id.clone();
            let waits = tokio::spawn(async move {
                tasks_of(&waits).await.task_result(&local_caller(), &id, Arc::new(asking)).await
            });
            eventually("the question to go out again", || !later.asked().is_empty()).await;
            second
                .take_response(&local_caller(), &later.asked()[0], Ok(RawJson::trusted(YES)))
                .await
                .expect("kept");
            waits.await.expect("no panic").expect("a task").expect("a result");
        }
        let result = tasks_of(&second)
            .await
            .task_result(&local_caller(), &id, Arc::new(NoClientChannel))
            .await
            .expect("a task");
        assert!(result.expect("a result").as_str().contains("accept"));
        let ended = task(&second, &id).await;
        assert_eq!((ended.questions.len(), ended.questions[0].asked_again), (1, 0));
    }
}

#[tokio::test]
async fn a_host_that_goes_hands_over_what_may_be_run_again_and_ends_the_rest() {
    let tools = || {
        vec![
            native("again").durability(Durability::Rerun).runs(second_time),
            tool("once", second_time),
            tool("plain", never),
        ]
    };
    let store = memory();
    let first = host(&Arc::new(store.node()), tools());
    let again = create(&first, &local_caller(), "again", Arc::new(NoClientChannel)).await;
    let once = create(&first, &local_caller(), "once", Arc::new(NoClientChannel)).await;
    let (calling, plain) = (first.clone(), call("plain", false, Arc::new(NoClientChannel)));
    let plain = tokio::spawn(async move { calling.call(&local_caller(), plain).await });
    eventually("all three to run", || first.load().runs == 3).await;
    let drained = first.drain(Duration::ZERO, DrainMode::HandOver).await;
    assert_eq!(drained, DrainReport { cut: 2, handed_over: 1 });
    assert!(plain.await.expect("no panic").is_err());
    assert_eq!(first.load().runs, 0);
    let second = host(&Arc::new(store.node()), tools());
    let ended = task(&second, &once).await;
    assert_eq!(ended.status(), TaskStatus::Failed);
    assert!(ended.status_message.expect("says why").contains("was shut down"));
    let ended = until(&second, &again, "the hand-over", |task| !task.is_live()).await;
    assert_eq!((ended.status(), ended.fence.attempt), (TaskStatus::Completed, 2));
}

/// However the queue moves while a host closes: the next host begins the tasks that had not begun, and
/// those that had begun end here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_goes_begins_nothing_that_it_hands_over() {
    // All wait until the queue has formed; then they end one after the other.
    let moment = |gate: &watch::Sender<bool>| {
        let gate = gate.subscribe();
        vec![tool("moment", move |_| {
            let mut gate = gate.clone();
            async move {
                gate.wait_for(|open| *open).await.expect("it is there");
                tokio::time::sleep(Duration::from_millis(2)).await;
                done("once")
            }
        })]
    };
    let mut handed_over = 0;
    for _ in 0..20 {
        let gate = watch::Sender::new(false);
        let store = memory();
        let first = host(&Arc::new(store.node()), moment(&gate));
        let mut ids = Vec::new();
        for _ in 0..190 {
            ids.push(create(&first, &local_caller(), "moment", Arc::new(NoClientChannel)).await);
        }
        gate.send_replace(true);
        let drained = first.drain(Duration::from_secs(30), DrainMode::HandOver).await;
        assert_eq!(drained.cut, 0, "nothing that could end was cut");
        handed_over += drained.handed_over;
        let second = host(&Arc::new(store.node()), moment(&gate));
        for id in &ids {
            let ended = until(&second, id, "each to end", |task| !task.is_live()).await;
            assert_eq!(ended.status(), TaskStatus::Completed, "{ended:?}");
            assert_eq!(ended.fence.attempt, 1, "it began once");
        }
    }
    assert!(handed_over > 0, "there was a line");
}

/// A clock that is moved by hand.
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A4: a host whose lease has run out stops its runs, takes another incarnation, and recovers its
/// own former tasks like any host.
#[tokio::test]
async fn a_host_that_lost_its_lease_stops_its_runs_and_begins_anew() {
    struct Sign(Arc<AtomicI64>);
    impl Drop for Sign {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let clock = Arc::new(HandClock(AtomicI64::new(1_000_000)));
    let lease = Duration::from_millis(300);
    let store = Arc::new(MemoryStore::new(clock.clone()).leased(lease));
    let dropped = Arc::new(AtomicI64::new(0));
    let sign = dropped.clone();
    let guarded = native("tool").durability(Durability::Rerun).runs(move |context: Arc<dyn RunContext>| {
        let held = Sign(sign.clone());
        async move {
            let _held = held;
            match context.info().attempt {
                1 => pending().await,
                _ => done("again"),
            }
        }
    });
    let host = host(&store, vec![guarded]);
    let stop = CancellationToken::new();
    let services =
        [tokio::spawn(host.clone().keep_lease(stop.clone())), tokio::spawn(host.clone().keep_time(stop))];
    let id = created(&host).await;
    let first = task(&host, &id).await.fence;
    // By the store's clock it is dead, whatever its own clock says.
    clock.0.fetch_add(301, Ordering::SeqCst);
    eventually("its run to be stopped", || dropped.load(Ordering::SeqCst) == 1).await;
    let ended = until(&host, &id, "the second attempt", |task| !task.is_live()).await;
    assert_eq!((ended.status(), ended.fence.attempt), (TaskStatus::Completed, 2));
    assert_ne!(ended.fence.incarnation, first.incarnation);
    services.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A4: a host whose lease was not renewed in time, and which stops late, neither ends nor hands
/// over tasks that another one has claimed meanwhile. (Seed 1154 of the simulation.)
#[tokio::test]
async fn a_host_that_goes_leaves_alone_what_another_has_claimed() {
    for parting in [DrainMode::HandOver, DrainMode::End(Departure::PipeClosed)] {
        let clock = Arc::new(HandClock(AtomicI64::new(1_000_000)));
        let store = Arc::new(MemoryStore::new(clock.clone()).leased(Duration::from_secs(600)));
        // It keeps no lease, so it does not notice that its time has passed.
        let first = host(&Arc::new(store.node()), vec![rerun(never)]);
        let id = created(&first).await;
        clock.0.fetch_add(600_001, Ordering::SeqCst);
        let second = host(&Arc::new(store.node()), vec![rerun(never)]);
        second.recover_now().await;
        let claimed = until(&second, &id, "the claim", |task| task.fence.attempt == 2).await;
        assert_eq!(first.drain(Duration::ZERO, parting).await, DrainReport::default());
        let left = task(&second, &id).await;
        assert_eq!((left.status(), left.fence), (TaskStatus::Working, claimed.fence));
    }
}
