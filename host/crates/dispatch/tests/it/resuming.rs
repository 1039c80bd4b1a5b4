//! Tasks that resume: what their journals hold when they are parked, and which run continues them.

use crate::kit::application::{dispatch_by, eventually, tasks_of};
use crate::kit::calls::create;
use crate::kit::stateless;
use futures_util::FutureExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::{Bounds, Departure, Dispatch, DrainMode, NoClientChannel, Settings, Stores, TaskId};
use toolyard_kit::{
    Intercept, SETTINGS, StoreProxy, TickingClock, application, done, local_caller, memory, native, question,
    stores,
};
use toolyard_protocol::stateless::input::Retry;
use toolyard_store::MemoryStore;
use toolyard_task::journal::{Chunk, JournalStore as _};
use toolyard_task::tool::Report;
use toolyard_task::wire::TaskStatus;
use toolyard_task::{Durability, RunContext, RunEnd, RunJournal, StoreError, Task, TaskStore as _, Tool};

fn chunk(text: &str) -> Chunk {
    Chunk { entries: 1, body: text.to_owned().into() }
}

fn journal(context: &Arc<dyn RunContext>) -> Arc<dyn RunJournal> {
    context.journal().expect("its task resumes")
}

async fn created(host: &Arc<Dispatch>, tool: &str) -> TaskId {
    let id = create(host, &local_caller(), tool, Arc::new(NoClientChannel)).await;
    TaskId::parse(&id).expect("our own spelling")
}

async fn stored(store: &MemoryStore, id: TaskId) -> Task {
    store.read(id, None).await.expect("works").expect("is stored").task
}

async fn until_ended(store: &MemoryStore, id: TaskId) {
    eventually("the end", || stored(store, id).now_or_never().is_some_and(|task| !task.is_live())).await;
}

async fn lines(store: &MemoryStore, id: TaskId) -> Vec<String> {
    let chunks = store.chunks(id, 0, u64::MAX).await.expect("works");
    chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.body).into_owned()).collect()
}

/// Waits before each commit, until it is let go, and may fail them.
#[derive(Default)]
struct Gate {
    is_closed: AtomicBool,
    fails: AtomicBool,
    reached: Notify,
    opened: Notify,
}

/// A link whose commits wait at this gate.
struct Gated(Arc<Gate>);

impl Intercept for Gated {
    async fn call<T: Send, E: From<StoreError> + Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        if operation == "commit" && self.0.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("it fails".into()).into());
        }
        if operation == "commit" && self.0.is_closed.load(Ordering::SeqCst) {
            self.0.reached.notify_one();
            self.0.opened.notified().await;
        }
        call.await
    }
}

fn gated(store: &Arc<MemoryStore>, tool: Arc<dyn Tool>) -> (Arc<Dispatch>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let link = StoreProxy::new(store.clone(), Gated(gate.clone()));
    let stores = Stores { tasks: link.clone(), journals: link, ..stores(store) };
    (application(SETTINGS, stores, TickingClock::at(1), vec![tool]), gate)
}

/// A task that is parked because its host leaves is parked at one point of its journal. Else the next run would
/// find an intent without a response, and take a request for one that may have been sent.
#[tokio::test]
async fn what_a_run_records_while_it_is_parked_is_left_to_the_next_one() {
    let store = memory();
    let goes_on = Arc::new(Notify::new());
    let signal = goes_on.clone();
    let tool = native("saga").durability(Durability::Resume).runs(move |context| {
        let signal = signal.clone();
        async move {
            let journal = journal(&context);
            journal.push(chunk("begin"));
            signal.notified().await;
            journal.set_requests(1);
            journal.push(chunk("request"));
            journal.flush().await.expect("not reached: the run is parked");
            std::future::pending().await
        }
    });
    let (host, gate) = gated(&store, tool);
    let id = created(&host, "saga").await;
    gate.is_closed.store(true, Ordering::SeqCst);
    let leaving = tokio::spawn({
        let host = host.clone();
        async move { host.drain(Duration::from_secs(5), DrainMode::HandOver).await }
    });
    gate.reached.notified().await;
    goes_on.notify_one();
    tokio::time::sleep(Duration::from_millis(50)).await;
    gate.is_closed.store(false, Ordering::SeqCst);
    gate.opened.notify_one();
    leaving.await.expect("no panic");
    let task = stored(&store, id).await;
    assert!(task.parked().is_some(), "{task:?}");
    assert_eq!(lines(&store, id).await, ["begin"]);
    assert_eq!(task.resume.expect("it resumes").reached, 1);
}

/// Else another run would repeat what this one did without a journal.
#[tokio::test]
async fn a_run_that_gives_its_journal_up_has_no_effect_before_its_task_says_so() {
    let store = memory();
    let (is_flushed, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let (flushed, signal) = (is_flushed.clone(), goes_on.clone());
    let tool = native("saga").durability(Durability::Resume).runs(move |context| {
        let (flushed, signal) = (flushed.clone(), signal.clone());
        async move {
            let journal = journal(&context);
            journal.push(chunk("begin"));
            signal.notified().await;
            journal.give_up("it is full".to_owned());
            journal.flush().await.expect("the store comes back");
            flushed.store(true, Ordering::SeqCst);
            std::future::pending().await
        }
    });
    let (host, gate) = gated(&store, tool);
    let id = created(&host, "saga").await;
    let has_journal = || matches!(store.journal(id).now_or_never(), Some(Ok(Some(_))));
    eventually("its journal", has_journal).await;
    gate.fails.store(true, Ordering::SeqCst);
    goes_on.notify_one();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!is_flushed.load(Ordering::SeqCst) && stored(&store, id).await.resume.is_some());
    gate.fails.store(false, Ordering::SeqCst);
    eventually("the flush", || is_flushed.load(Ordering::SeqCst)).await;
    assert_eq!(stored(&store, id).await.resume, None);
    assert!(!has_journal());
}

/// Hosts on one database have clocks that differ, and the one of the database decides when a task is woken. Else a
/// host that is behind would park and wake the task without end until its own clock has reached the time.
#[tokio::test]
async fn a_host_whose_clock_is_behind_wakes_a_sleeping_task_once() {
    let clock = TickingClock::at(1_000_000);
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let tool = native("saga").durability(Durability::Resume).runs(move |context| async move {
        journal(&context).sleep_until(1_060_000).await;
        done("slept")
    });
    let host = application(SETTINGS, stores(&store), TickingClock::at(1), vec![tool]);
    let stop = CancellationToken::new();
    let time = tokio::spawn(host.clone().keep_time(stop.clone()));
    let id = created(&host, "saga").await;
    let is_parked = || stored(&store, id).now_or_never().is_some_and(|task| task.parked().is_some());
    eventually("the sleep", is_parked).await;
    clock.advance(60_000);
    until_ended(&store, id).await;
    assert_eq!(stored(&store, id).await.fence.attempt, 2);
    stop.cancel();
    time.await.expect("no panic");
}

/// A store whose registrations take longer than the call, and whose appends are late.
struct SlowStore;

impl Intercept for SlowStore {
    async fn call<T: Send, E: From<StoreError> + Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        if ["register", "write_chunks"].contains(&operation) {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        call.await
    }
}

/// The run ends between the decision that its call becomes a task and the task.
#[tokio::test]
async fn a_call_that_ends_while_it_becomes_a_task_leaves_its_whole_journal() {
    let store = memory();
    let link = StoreProxy::new(store.clone(), SlowStore);
    let tool = native("t").durability(Durability::Resume).inline_for(Duration::from_millis(20)).runs(
        |context| async move {
            let journal = journal(&context);
            journal.push(chunk("begin"));
            tokio::time::sleep(Duration::from_millis(100)).await;
            journal.push(chunk("middle"));
            journal.end(chunk("end"));
            done("ended")
        },
    );
    let stores = Stores { tasks: link.clone(), journals: link.clone(), nodes: link, ..stores(&store) };
    let host = application(SETTINGS, stores, TickingClock::at(1), vec![tool]);
    let task = stateless::created(stateless::calls(&host, Retry::default()).await);
    task.handover.expect("a duty").mark_delivered();
    let id = TaskId::parse(&task.view.id).expect("our own spelling");
    until_ended(&store, id).await;
    assert_eq!(lines(&store, id).await, ["begin", "middle", "end"]);
}

/// Else the guest would get the failure as its answer, and each repetition too.
#[tokio::test]
async fn a_question_of_a_task_that_resumes_waits_for_the_store() {
    let store = memory();
    let goes_on = Arc::new(Notify::new());
    let signal = goes_on.clone();
    let tool = native("saga").durability(Durability::Resume).runs(move |context| {
        let signal = signal.clone();
        async move {
            signal.notified().await;
            let answers = context.ask(vec![question("q")]).await;
            done(&format!("{answers:?}"))
        }
    });
    let (host, gate) = gated(&store, tool);
    let id = created(&host, "saga").await;
    gate.fails.store(true, Ordering::SeqCst);
    goes_on.notify_one();
    tokio::time::sleep(Duration::from_millis(200)).await;
    gate.fails.store(false, Ordering::SeqCst);
    eventually("the question", || {
        stored(&store, id).now_or_never().is_some_and(|task| task.status() == TaskStatus::InputRequired)
    })
    .await;
}

/// Else the guest would get the failure as its answer, and each repetition too.
#[tokio::test]
async fn the_effects_of_a_task_that_resumes_wait_for_the_store() {
    let store = memory();
    let goes_on = Arc::new(Notify::new());
    let signal = goes_on.clone();
    let tool = native("saga").durability(Durability::Resume).runs(move |context| {
        let signal = signal.clone();
        async move {
            signal.notified().await;
            done(if context.effects().await.is_ok() { "recorded" } else { "failed" })
        }
    });
    let (host, gate) = gated(&store, tool);
    let id = created(&host, "saga").await;
    gate.fails.store(true, Ordering::SeqCst);
    goes_on.notify_one();
    tokio::time::sleep(Duration::from_millis(200)).await;
    gate.fails.store(false, Ordering::SeqCst);
    until_ended(&store, id).await;
    let task = stored(&store, id).await;
    assert!(task.effects && format!("{:?}", task.outcome).contains("recorded"), "{task:?}");
}

/// A run keeps its slot for two seconds while its question is open, unless another call waits for the slot.
#[tokio::test]
async fn a_question_gives_up_its_run_sooner_while_others_wait_for_its_slot() {
    let one =
        Bounds { running: 1, running_per_principal: 1, waiting_per_principal: 9, parked_per_principal: 9 };
    let host = |store| {
        let asks = native("asks").durability(Durability::Resume).runs(async move |context| {
            let answers = context.ask(vec![question("q")]).await;
            done(&format!("{answers:?}"))
        });
        let other = native("other").runs(|_| std::future::ready(done("done")));
        dispatch_by(Settings { admission: one, ..SETTINGS }, store, vec![asks, other])
    };
    let (alone, shared) = (memory(), memory());
    let (alone_host, shared_host) = (host(&alone), host(&shared));
    let first = created(&alone_host, "asks").await;
    let second = created(&shared_host, "asks").await;
    let other = created(&shared_host, "other").await;
    until_ended(&shared, other).await;
    assert!(stored(&shared, second).await.parked().is_some());
    assert!(stored(&alone, first).await.parked().is_none());
}

/// The tool of this component, which notes the components of its runs.
fn versioned(component: &str, ran: Arc<Mutex<Vec<String>>>) -> Arc<dyn Tool> {
    let tool = native("saga").durability(Durability::Resume).digest(component);
    let (mine, all) = (component.to_owned(), ran.clone());
    let tool = tool.components(move |other| versioned(&other.0, all.clone()));
    tool.runs(move |_| {
        ran.lock().expect("no panic").push(mine.clone());
        std::future::ready(done("done"))
    })
}

/// A task of component `01` that waits for its turn on this host, which then dies.
async fn left_in_the_queue(on: &Arc<MemoryStore>, ran: &Arc<Mutex<Vec<String>>>) -> TaskId {
    let one =
        Bounds { running: 1, running_per_principal: 1, waiting_per_principal: 9, parked_per_principal: 9 };
    let blocks = native("blocks").runs(|_| std::future::pending::<RunEnd>());
    let tools = vec![blocks, versioned("01", ran.clone())];
    let host = dispatch_by(Settings { admission: one, ..SETTINGS }, on, tools);
    created(&host, "blocks").await;
    let id = created(&host, "saga").await;
    on.kill();
    id
}

/// The journal names the component of all runs from the creation of the task on.
#[tokio::test]
async fn a_task_that_waited_for_its_turn_when_its_host_died_is_run_by_the_component_of_its_journal() {
    let store = memory();
    let first = Arc::new(store.node());
    let ran = Arc::new(Mutex::new(Vec::new()));
    let id = left_in_the_queue(&first, &ran).await;
    let second = Arc::new(store.node());
    let host = dispatch_by(SETTINGS, &second, vec![versioned("02", ran.clone())]);
    host.recover_now().await;
    eventually("its end", || {
        stored(&second, id).now_or_never().is_some_and(|task| task.status() == TaskStatus::Completed)
    })
    .await;
    assert_eq!(*ran.lock().expect("no panic"), ["01"]);
}

/// No other component continues a task. It continues as soon as a host has its component.
#[tokio::test]
async fn a_task_whose_component_is_missing_waits_until_a_host_has_it() {
    let store = memory();
    let first = Arc::new(store.node());
    let ran = Arc::new(Mutex::new(Vec::new()));
    let id = left_in_the_queue(&first, &ran).await;
    let second = Arc::new(store.node());
    let another = native("saga").durability(Durability::Resume).digest("02").runs(async |_| done("other"));
    let host = dispatch_by(SETTINGS, &second, vec![another]);
    host.recover_now().await;
    let waiting = stored(&second, id).await;
    assert_eq!(waiting.status(), TaskStatus::Working);
    assert!(waiting.status_message.is_some_and(|message| message.contains("Waiting for the tool `saga`")));
    second.kill();
    let third = Arc::new(store.node());
    let host = dispatch_by(SETTINGS, &third, vec![versioned("01", ran.clone())]);
    host.recover_now().await;
    eventually("its end", || {
        stored(&third, id).now_or_never().is_some_and(|task| task.status() == TaskStatus::Completed)
    })
    .await;
    assert_eq!(*ran.lock().expect("no panic"), ["01"]);
}

/// A parked task that is due says what it waits for.
#[tokio::test]
async fn a_parked_task_whose_tool_is_gone_says_so() {
    let store = memory();
    let parks = native("saga").durability(Durability::Resume).runs(|context| async move {
        journal(&context).push(chunk("begin"));
        journal(&context).continue_with(chunk("begin again")).await;
        RunEnd::Stopped
    });
    let first = Arc::new(store.node());
    let id = created(&dispatch_by(SETTINGS, &first, vec![parks]), "saga").await;
    eventually("it to be parked", || {
        stored(&store, id).now_or_never().is_some_and(|task| task.parked().is_some())
    })
    .await;
    let host = dispatch_by(SETTINGS, &Arc::new(store.node()), Vec::new());
    let stop = CancellationToken::new();
    tokio::spawn(host.clone().keep_time(stop.clone()));
    eventually("the message", || {
        let task = stored(&store, id).now_or_never().expect("no wait");
        task.status_message.is_some_and(|message| message.contains("Waiting for the tool `saga`"))
    })
    .await;
    stop.cancel();
}

/// The client that closes its pipe, or the person who does, wants the host to end, and not the task.
#[tokio::test]
async fn the_end_of_a_pipe_leaves_a_task_that_resumes_to_the_next_host() {
    let store = memory();
    let saga = |ends: bool| {
        native("saga").durability(Durability::Resume).runs(move |context| async move {
            journal(&context).push(chunk("begin"));
            if ends { done("done") } else { std::future::pending().await }
        })
    };
    let first = dispatch_by(SETTINGS, &Arc::new(store.node()), vec![saga(false)]);
    let id = created(&first, "saga").await;
    let drained = first.drain(Duration::ZERO, DrainMode::End(Departure::PipeClosed)).await;
    assert_eq!((drained.cut, drained.handed_over), (0, 1));
    let second = dispatch_by(SETTINGS, &Arc::new(store.node()), vec![saga(true)]);
    second.recover_now().await;
    eventually("its end", || {
        stored(&store, id).now_or_never().is_some_and(|task| task.status() == TaskStatus::Completed)
    })
    .await;
}

/// A task that asks, waits and asks again would else have no limit.
#[tokio::test]
async fn the_limit_of_questions_is_that_of_all_runs_of_a_task() {
    let store = memory();
    let saga = native("saga").durability(Durability::Resume).questions(2).runs(|context| async move {
        let (attempt, journal) = (context.info().attempt, journal(&context));
        journal.past().await.expect("reads");
        if attempt == 1 {
            journal.push(chunk("begin"));
        }
        // The run is parked, and the next one goes on after the answer.
        let asked = context.ask(vec![question(&format!("q{attempt}"))]).await;
        done(&format!("{attempt}: {asked:?}"))
    });
    let host = dispatch_by(SETTINGS, &store, vec![saga]);
    let stop = CancellationToken::new();
    tokio::spawn(host.clone().keep_time(stop.clone()));
    let id = created(&host, "saga").await;
    for attempt in 1..3 {
        let key = format!("q{attempt}");
        let is_asked =
            |task: Task| task.parked().is_some() && task.open_questions().any(|question| question.key == key);
        eventually("a question", || stored(&store, id).now_or_never().is_some_and(is_asked)).await;
        let answers = [(key.clone(), toolyard_dispatch::RawJson::trusted(toolyard_kit::YES))];
        tasks_of(&host)
            .await
            .update_task(&local_caller(), &id.to_string(), answers.into())
            .await
            .expect("answers");
    }
    until_ended(&store, id).await;
    let outcome = format!("{:?}", stored(&store, id).await.outcome);
    assert!(outcome.contains("3: ") && outcome.contains("at most 2 questions"), "{outcome}");
    stop.cancel();
}

/// H12: a guest that does so in a loop would keep the disk busy, and so would many of one owner.
#[tokio::test]
async fn the_tasks_of_one_owner_that_begin_again_with_large_states_take_turns() {
    let store = memory();
    let saga = native("saga").durability(Durability::Resume).runs(move |context| async move {
        let (attempt, journal) = (context.info().attempt, journal(&context));
        journal.past().await.expect("reads");
        if attempt == 3 {
            return done("done");
        }
        // Recorded bytes count like those of the state.
        journal.push(chunk(&"large".repeat(26_000)));
        journal.continue_with(chunk(&"large".repeat(26_000))).await;
        RunEnd::Stopped
    });
    let host = dispatch_by(SETTINGS, &store, vec![saga]);
    let stop = CancellationToken::new();
    tokio::spawn(host.clone().keep_time(stop.clone()));
    let begun = std::time::Instant::now();
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(created(&host, "saga").await);
    }
    for id in ids {
        until_ended(&store, id).await;
    }
    // Twelve beginnings of 320 KiB at 2 MiB a second.
    let all = begun.elapsed();
    assert!(all > Duration::from_millis(1_500), "{all:?}");
    stop.cancel();
}

/// H10: the share of an owner holds while its tasks run, too.
#[tokio::test]
async fn a_task_whose_owner_s_journals_have_their_share_goes_on_and_resumes_no_more() {
    let store = memory();
    let saga = native("saga").durability(Durability::Resume).runs(move |context| async move {
        let journal = journal(&context);
        journal.past().await.expect("reads");
        journal.push(chunk(&"large".repeat(120_000)));
        journal.flush().await.expect("goes on");
        let full = if journal.is_full() { "full" } else { "kept" };
        context.report(Report::Status(full.to_owned()));
        std::future::pending().await
    });
    let settings = Settings { journal_bytes: 4 << 20, ..SETTINGS };
    let host = dispatch_by(settings, &store, vec![saga]);
    let mut ids = vec![created(&host, "saga").await, created(&host, "saga").await];
    let of_other = create(&host, &caller("other"), "saga", Arc::new(NoClientChannel)).await;
    ids.push(TaskId::parse(&of_other).expect("our own spelling"));
    let mut kept = Vec::new();
    for id in ids {
        eventually("its word", || {
            stored(&store, id).now_or_never().is_some_and(|task| task.status_message.is_some())
        })
        .await;
        let task = stored(&store, id).await;
        let is_kept = task.status_message.as_deref() == Some("kept");
        assert_eq!(is_kept, task.unresumable.is_none(), "{task:?}");
        assert_eq!(is_kept, !lines(&store, id).await.is_empty());
        kept.push(is_kept);
    }
    // A share is 1 MiB, and each has 600 kB.
    assert!(kept[0] != kept[1] && kept[2], "{kept:?}");
}

fn caller(name: &str) -> toolyard_dispatch::Caller {
    let capabilities = toolyard_dispatch::RawJson::trusted("{}");
    toolyard_dispatch::Caller::new(toolyard_kit::principal(name), None, capabilities)
}

/// A host with a free slot takes a task of one owner while tasks of another one wait for that owner's slots.
#[tokio::test]
async fn the_queue_of_one_owner_does_not_keep_the_parked_tasks_of_others_waiting() {
    let store = memory();
    let saga = native("saga").durability(Durability::Resume).runs(|context| async move {
        if context.info().attempt > 1 {
            return done("woken");
        }
        let journal = journal(&context);
        journal.push(chunk("begin"));
        // The run is parked, and due at once.
        journal.continue_with(chunk("begin again")).await;
        RunEnd::Stopped
    });
    let blocks = native("blocks").runs(|_| std::future::pending::<RunEnd>());
    let two =
        Bounds { running: 3, running_per_principal: 1, waiting_per_principal: 9, parked_per_principal: 9 };
    let host = dispatch_by(Settings { admission: two, ..SETTINGS }, &store, vec![blocks, saga]);
    let other = caller("other");
    for _ in 0..2 {
        create(&host, &other, "blocks", Arc::new(NoClientChannel)).await;
    }
    let stop = CancellationToken::new();
    tokio::spawn(host.clone().keep_time(stop.clone()));
    let id = created(&host, "saga").await;
    eventually("its end", || {
        stored(&store, id).now_or_never().is_some_and(|task| task.status() == TaskStatus::Completed)
    })
    .await;
    stop.cancel();
}
