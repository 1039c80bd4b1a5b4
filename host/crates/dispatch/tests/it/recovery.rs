//! Tasks whose host is gone: they run again, or end with the reason, as the operator has set; and a
//! host that the others take for dead.

use crate::kit::prelude::*;
use futures_util::future::pending;
use tokio::sync::watch;
use toolyard_dispatch::{CallEvent, CallOutcome, Catalog, DrainReport, ObservedCall, Observer};
use toolyard_store_contract::ManualClock;

/// A tool that may be run again.
fn rerun<F: Future<Output = RunEnd> + Send + 'static>(body: fn(Arc<dyn RunContext>) -> F) -> Arc<dyn Tool> {
    native("tool").durability(Durability::Rerun).runs(body)
}

/// A host on this store.
fn host(store: &Arc<MemoryStore>, tools: Vec<Arc<dyn Tool>>) -> Arc<Dispatch> {
    dispatch_by(SETTINGS, store, tools)
}

/// A task of the tool `tool`, whose client is gone.
async fn created(dispatch: &Arc<Dispatch>) -> String {
    create_alone(dispatch, &local_caller(), "tool").await
}

async fn task(dispatch: &Dispatch, id: &str) -> Task {
    task_of(dispatch, &local_caller(), id).await
}

async fn until(dispatch: &Dispatch, id: &str, what: &str, holds: impl Fn(&Task) -> bool) -> Task {
    crate::kit::application::until(dispatch, &local_caller(), id, what, holds).await
}

/// Never ends in the first attempt; returns the attempt in which it ended.
async fn second_time(context: Arc<dyn RunContext>) -> RunEnd {
    match context.info().attempt {
        1 => pending().await,
        attempt => done(&format!("attempt {attempt}")),
    }
}

async fn never(_: Arc<dyn RunContext>) -> RunEnd {
    pending().await
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
async fn a5_what_may_be_run_again_is_run_again_told_its_attempt_and_observed_like_any_run() {
    let store = memory();
    let first = Arc::new(store.node());
    let id = created(&host(&first, vec![rerun(second_time)])).await;
    first.kill();
    let second = host(&Arc::new(store.node()), vec![rerun(second_time)]);
    let seen = Arc::new(Seen::default());
    second.observers().set_observer(seen.clone());
    let ended = until(&second, &id, "the second attempt", |task| !task.is_live()).await;
    assert_eq!((ended.status(), ended.fence.attempt), (TaskStatus::Completed, 2));
    let result = result_of(&second, &local_caller(), &id).await;
    assert!(result.contains("attempt 2"), "{result}");
    eventually("the slot to be given back", || second.load().runs == 0).await;
    assert_eq!(*seen.0.lock().expect("no panic"), ["tool by local", "task", "result"]);
}

/// The operator's setting from the creation of the task counts, and can only be revoked.
#[tokio::test]
async fn what_the_operator_allows_later_makes_nothing_run_again() {
    for (before, after) in
        [(tool("tool", second_time), rerun(second_time)), (rerun(second_time), tool("tool", second_time))]
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
    let _time = keep_time(&second);
    let waits = task(&second, &id).await;
    assert_eq!(waits.status(), TaskStatus::Working);
    assert!(waits.status_message.expect("says why").contains("Waiting for the tool `tool`"));
    // A command that only reads does not take the task over.
    second.catalog().publish(Arc::new(Catalog::new(vec![rerun(second_time)]).expect("one")));
    until(&second, &id, "the tool to be back", |task| task.status() == TaskStatus::Completed).await;
}

/// Asks `a`. In the first attempt it then never ends, later it returns the answer.
async fn asks(context: Arc<dyn RunContext>) -> RunEnd {
    let answers = context.ask(vec![question("a")]).await;
    if context.info().attempt == 1 {
        return pending().await;
    }
    done(&format!("{answers:?}"))
}

/// IR-7: an answer is stored once, and the same question is not asked twice. A question that was open when the host
/// died stays open, under the request that carried it and under a new one.
#[tokio::test]
async fn a_second_attempt_gets_the_answer_that_came_before_it_or_comes_to_either_request() {
    const BEFORE: &str = "an answer before the death of the host";
    const OLD: &str = "an answer to the request of the dead host";
    const NEW: &str = "an answer to a new request";
    for case in [BEFORE, OLD, NEW] {
        let store = memory();
        let first = Arc::new(store.node());
        let before = host(&first, vec![rerun(asks)]);
        let (me, client, later) = (local_caller(), Client::default(), Client::default());
        let id = create(&before, &me, "tool", Arc::new(client.clone())).await;
        eventually("the question", || !client.asked().is_empty()).await;
        let answer = async |host: &Dispatch, client: &Client| {
            host.take_response(&me, &client.asked()[0], Ok(RawJson::trusted(YES))).await.expect("kept");
        };
        if case == BEFORE {
            answer(&before, &client).await;
        }
        first.kill();
        let second = host(&Arc::new(store.node()), vec![rerun(asks)]);
        let channel: Arc<dyn ClientChannel> = match case {
            OLD => Arc::new(NoClientChannel),
            _ => Arc::new(later.clone()),
        };
        if case != BEFORE {
            assert_eq!(task(&second, &id).await.status(), TaskStatus::InputRequired);
        }
        let answers_late = async {
            if case == NEW {
                eventually("the question to go out again", || !later.asked().is_empty()).await;
                answer(&second, &later).await;
            } else if case == OLD {
                answer(&second, &client).await;
            }
        };
        let waits = tasks_of(&second).await.task_result(&me, &id, channel);
        let (result, ()) = tokio::join!(waits, answers_late);
        assert!(result.expect("a task").expect("a result").as_str().contains("accept"), "{case}");
        let ended = task(&second, &id).await;
        assert_eq!((ended.questions.len(), ended.questions[0].asked_again), (1, 0), "{case}");
        assert_eq!((client.asked().len(), later.asked().len()), (1, usize::from(case == NEW)), "{case}");
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
    let again = create_alone(&first, &local_caller(), "again").await;
    let once = create_alone(&first, &local_caller(), "once").await;
    let calling = first.clone();
    let plain = tokio::spawn(async move { calling.call(&local_caller(), plain_call("plain")).await });
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
        vec![native("moment").runs_sharing(&gate.subscribe(), |mut gate, _| async move {
            gate.wait_for(|open| *open).await.expect("it is there");
            tokio::time::sleep(Duration::from_millis(2)).await;
            done("once")
        })]
    };
    let mut handed_over = 0;
    for _ in 0..20 {
        let gate = watch::Sender::new(false);
        let store = memory();
        let first = host(&Arc::new(store.node()), moment(&gate));
        let mut ids = Vec::new();
        for _ in 0..190 {
            ids.push(create_alone(&first, &local_caller(), "moment").await);
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

/// A4: a host whose lease has run out stops its runs, takes another incarnation, and recovers its
/// own former tasks like any host.
#[tokio::test]
async fn a_host_that_lost_its_lease_stops_its_runs_and_begins_anew() {
    let clock = ManualClock::at(1_000_000);
    let lease = Duration::from_millis(300);
    let store = Arc::new(MemoryStore::new(clock.clone()).leased(lease));
    let dropped = Arc::new(AtomicU32::new(0));
    let guarded = native("tool").durability(Durability::Rerun);
    let guarded = guarded.runs_sharing(&dropped, |count, context| async move {
        let _counted = Counted(count);
        second_time(context).await
    });
    let host = host(&store, vec![guarded]);
    let _services = serve(&host);
    let id = created(&host).await;
    let first = task(&host, &id).await.fence;
    // By the store's clock it is dead, whatever its own clock says.
    clock.advance(301);
    eventually("its run to be stopped", || dropped.load(Ordering::SeqCst) == 1).await;
    let ended = until(&host, &id, "the second attempt", |task| !task.is_live()).await;
    assert_eq!((ended.status(), ended.fence.attempt), (TaskStatus::Completed, 2));
    assert_ne!(ended.fence.incarnation, first.incarnation);
}

/// A4: a host whose lease was not renewed in time, and which stops late, neither ends nor hands
/// over tasks that another one has claimed meanwhile. (Seed 1154 of the simulation.)
#[tokio::test]
async fn a_host_that_goes_leaves_alone_what_another_has_claimed() {
    for parting in [DrainMode::HandOver, DrainMode::End(Departure::PipeClosed)] {
        let clock = ManualClock::at(1_000_000);
        let store = Arc::new(MemoryStore::new(clock.clone()).leased(Duration::from_secs(600)));
        // It keeps no lease, so it does not notice that its time has passed.
        let first = host(&Arc::new(store.node()), vec![rerun(never)]);
        let id = created(&first).await;
        clock.advance(600_001);
        let second = host(&Arc::new(store.node()), vec![rerun(never)]);
        second.recover_now().await;
        let claimed = until(&second, &id, "the claim", |task| task.fence.attempt == 2).await;
        assert_eq!(first.drain(Duration::ZERO, parting).await, DrainReport::default());
        let left = task(&second, &id).await;
        assert_eq!((left.status(), left.fence), (TaskStatus::Working, claimed.fence));
    }
}
