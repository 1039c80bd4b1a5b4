//! Tasks that resume: what their journals hold when they are parked, and which run continues them.

use crate::kit::prelude::*;
use crate::kit::stateless;
use std::sync::atomic::AtomicBool;
use toolyard_dispatch::Stores;
use toolyard_kit::{Intercept, Native, StoreProxy};
use toolyard_task::journal::{Chunk, JournalStore as _};
use toolyard_task::{RunJournal, StoreError, TaskStore as _};

fn chunk(text: &str) -> Chunk {
    Chunk { entries: 1, body: text.to_owned().into() }
}

/// A tool whose tasks resume.
fn saga() -> Native {
    native("saga").durability(Durability::Resume)
}

fn journal(context: &Arc<dyn RunContext>) -> Arc<dyn RunJournal> {
    context.journal().expect("its task resumes")
}

async fn created(host: &Arc<Dispatch>, tool: &str) -> TaskId {
    created_by(host, &local_caller(), tool).await
}

async fn created_by(host: &Arc<Dispatch>, caller: &Caller, tool: &str) -> TaskId {
    TaskId::parse(&create_alone(host, caller, tool).await).expect("our own spelling")
}

async fn stored(store: &MemoryStore, id: TaskId) -> Task {
    store.read(id, None).await.expect("works").expect("is stored").task
}

async fn until(store: &MemoryStore, id: TaskId, what: &str, holds: impl Fn(Task) -> bool) {
    eventually(what, || stored(store, id).now_or_never().is_some_and(&holds)).await;
}

async fn until_ended(store: &MemoryStore, id: TaskId) {
    until(store, id, "the end", |task| !task.is_live()).await;
}

async fn until_completed(store: &MemoryStore, id: TaskId) {
    until(store, id, "the end", |task| task.status() == TaskStatus::Completed).await;
}

async fn lines(store: &MemoryStore, id: TaskId) -> Vec<String> {
    let chunks = store.chunks(id, 0, u64::MAX).await.expect("works");
    chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.body).into_owned()).collect()
}

/// Waits before each commit, until it is let go, and may fail them. It may take its time to register a host and to
/// append to a journal.
#[derive(Default)]
struct Gate {
    is_closed: AtomicBool,
    fails: AtomicBool,
    is_slow: AtomicBool,
    reached: Notify,
    opened: Notify,
}

impl Intercept for Gate {
    async fn call<T: Send, E: From<StoreError> + Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        if operation == "commit" && self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("it fails".into()).into());
        }
        if operation == "commit" && self.is_closed.load(Ordering::SeqCst) {
            self.reached.notify_one();
            self.opened.notified().await;
        }
        if self.is_slow.load(Ordering::SeqCst) && ["register", "write_chunks"].contains(&operation) {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        call.await
    }
}

/// A host whose store is behind a gate.
fn gated(store: &Arc<MemoryStore>, tool: Arc<dyn Tool>) -> (Arc<Dispatch>, Arc<StoreProxy<Gate>>) {
    let link = StoreProxy::new(store.clone(), Gate::default());
    let stores = Stores { tasks: link.clone(), journals: link.clone(), nodes: link.clone(), ..stores(store) };
    (application(SETTINGS, stores, TickingClock::at(1), vec![tool]), link)
}

/// A task that is parked because its host leaves is parked at one point of its journal. Else the next run would
/// find an intent without a response, and take a request for one that may have been sent.
#[tokio::test]
async fn what_a_run_records_while_it_is_parked_is_left_to_the_next_one() {
    let store = memory();
    let goes_on = Arc::new(Notify::new());
    let tool = saga().runs_sharing(&goes_on, |signal, context| async move {
        let journal = journal(&context);
        journal.push(chunk("begin"));
        signal.notified().await;
        journal.set_requests(1);
        journal.push(chunk("request"));
        journal.flush().await.expect("not reached: the run is parked");
        std::future::pending().await
    });
    let (host, link) = gated(&store, tool);
    let id = created(&host, "saga").await;
    link.intercept.is_closed.store(true, Ordering::SeqCst);
    let leaving = tokio::spawn(async move { host.drain(Duration::from_secs(5), DrainMode::HandOver).await });
    link.intercept.reached.notified().await;
    goes_on.notify_one();
    tokio::time::sleep(Duration::from_millis(50)).await;
    link.intercept.is_closed.store(false, Ordering::SeqCst);
    link.intercept.opened.notify_one();
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
    let shared = (is_flushed.clone(), goes_on.clone());
    let tool = saga().runs_sharing(&shared, |(flushed, signal), context| async move {
        let journal = journal(&context);
        journal.push(chunk("begin"));
        signal.notified().await;
        journal.give_up("it is full".to_owned());
        journal.flush().await.expect("the store comes back");
        flushed.store(true, Ordering::SeqCst);
        std::future::pending().await
    });
    let (host, link) = gated(&store, tool);
    let id = created(&host, "saga").await;
    let has_journal = || matches!(store.journal(id).now_or_never(), Some(Ok(Some(_))));
    eventually("its journal", has_journal).await;
    link.intercept.fails.store(true, Ordering::SeqCst);
    goes_on.notify_one();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!is_flushed.load(Ordering::SeqCst) && stored(&store, id).await.resume.is_some());
    link.intercept.fails.store(false, Ordering::SeqCst);
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
    let tool = saga().runs(|context| async move {
        journal(&context).sleep_until(1_060_000).await;
        done("slept")
    });
    let host = application(SETTINGS, stores(&store), TickingClock::at(1), vec![tool]);
    let _time = keep_time(&host);
    let id = created(&host, "saga").await;
    until(&store, id, "the sleep", |task| task.parked().is_some()).await;
    clock.advance(60_000);
    until_ended(&store, id).await;
    assert_eq!(stored(&store, id).await.fence.attempt, 2);
}

/// The run ends between the decision that its call becomes a task and the task.
#[tokio::test]
async fn a_call_that_ends_while_it_becomes_a_task_leaves_its_whole_journal() {
    let store = memory();
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
    let (host, link) = gated(&store, tool);
    // The registration takes longer than the call, and what is appended comes late.
    link.intercept.is_slow.store(true, Ordering::SeqCst);
    let view = stateless::delivered(stateless::calls(&host, Retry::default()).await);
    let id = TaskId::parse(&view.id).expect("our own spelling");
    until_ended(&store, id).await;
    assert_eq!(lines(&store, id).await, ["begin", "middle", "end"]);
}

/// Else the guest would get the failure as its answer, and each repetition too.
#[tokio::test]
async fn the_questions_and_effects_of_a_task_that_resumes_wait_for_the_store() {
    for is_asking in [true, false] {
        let store = memory();
        let goes_on = Arc::new(Notify::new());
        let tool = saga().runs_sharing(&goes_on, move |signal, context| async move {
            signal.notified().await;
            if is_asking {
                return asks(context).await;
            }
            done(if context.effects().await.is_ok() { "recorded" } else { "failed" })
        });
        let (host, link) = gated(&store, tool);
        let id = created(&host, "saga").await;
        link.intercept.fails.store(true, Ordering::SeqCst);
        goes_on.notify_one();
        tokio::time::sleep(Duration::from_millis(200)).await;
        link.intercept.fails.store(false, Ordering::SeqCst);
        if is_asking {
            until(&store, id, "the question", |task| task.status() == TaskStatus::InputRequired).await;
        } else {
            until_ended(&store, id).await;
            let task = stored(&store, id).await;
            assert!(task.effects && format!("{:?}", task.outcome).contains("recorded"), "{task:?}");
        }
    }
}

/// A run keeps its slot for two seconds while its question is open, unless another call waits for the slot.
#[tokio::test]
async fn a_question_gives_up_its_run_sooner_while_others_wait_for_its_slot() {
    let host = |store| {
        let other = native("other").runs(|_| std::future::ready(done("done")));
        dispatch_by(running(1), store, vec![saga().runs(asks), other])
    };
    let (alone, shared) = (memory(), memory());
    let (alone_host, shared_host) = (host(&alone), host(&shared));
    let first = created(&alone_host, "saga").await;
    let second = created(&shared_host, "saga").await;
    let other = created(&shared_host, "other").await;
    until_ended(&shared, other).await;
    assert!(stored(&shared, second).await.parked().is_some());
    assert!(stored(&alone, first).await.parked().is_none());
}

fn waits_for_its_tool(task: Task) -> bool {
    task.status_message.is_some_and(|message| message.contains("Waiting for the tool `saga`"))
}

/// The tool of this component, which notes the components of its runs.
fn versioned(component: &str, ran: Arc<Mutex<Vec<String>>>) -> Arc<dyn Tool> {
    let tool = saga().digest(component);
    let (mine, all) = (component.to_owned(), ran.clone());
    let tool = tool.components(move |other| versioned(&other.0, all.clone()));
    tool.runs(move |_| {
        ran.lock().expect("no panic").push(mine.clone());
        std::future::ready(done("done"))
    })
}

/// The journal names the component of all runs from the creation of the task on, and no other one continues it. The
/// task continues as soon as a host has its component.
#[tokio::test]
async fn a_task_that_waited_for_its_turn_when_its_host_died_is_run_by_the_component_of_its_journal() {
    let (store, ran) = (memory(), Arc::new(Mutex::new(Vec::new())));
    let first = Arc::new(store.node());
    let blocks = native("blocks").runs(|_| std::future::pending::<RunEnd>());
    let host = dispatch_by(running(1), &first, vec![blocks, versioned("01", ran.clone())]);
    created(&host, "blocks").await;
    let id = created(&host, "saga").await;
    first.kill();
    let second = Arc::new(store.node());
    let another = saga().digest("02").runs(async |_| done("other"));
    let host = dispatch_by(SETTINGS, &second, vec![another]);
    host.recover_now().await;
    let waiting = stored(&second, id).await;
    assert_eq!(waiting.status(), TaskStatus::Working);
    assert!(waits_for_its_tool(waiting));
    second.kill();
    let third = Arc::new(store.node());
    let host = dispatch_by(SETTINGS, &third, vec![versioned("02", ran.clone())]);
    host.recover_now().await;
    until_completed(&third, id).await;
    assert_eq!(*ran.lock().expect("no panic"), ["01"]);
}

/// A parked task that is due says what it waits for.
#[tokio::test]
async fn a_parked_task_whose_tool_is_gone_says_so() {
    let store = memory();
    let parks = saga().runs(|context| async move {
        journal(&context).push(chunk("begin"));
        journal(&context).continue_with(chunk("begin again")).await;
        RunEnd::Stopped
    });
    let first = Arc::new(store.node());
    let id = created(&dispatch_by(SETTINGS, &first, vec![parks]), "saga").await;
    until(&store, id, "it to be parked", |task| task.parked().is_some()).await;
    let host = dispatch_by(SETTINGS, &Arc::new(store.node()), Vec::new());
    let _time = keep_time(&host);
    until(&store, id, "the message", waits_for_its_tool).await;
}

/// The client that closes its pipe, or the person who does, wants the host to end, and not the task.
#[tokio::test]
async fn the_end_of_a_pipe_leaves_a_task_that_resumes_to_the_next_host() {
    let store = memory();
    let saga = |ends: bool| {
        saga().runs(move |context| async move {
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
    until_completed(&store, id).await;
}

/// A task that asks, waits and asks again would else have no limit.
#[tokio::test]
async fn the_limit_of_questions_is_that_of_all_runs_of_a_task() {
    let store = memory();
    let saga = saga().questions(2).runs(|context| async move {
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
    let _time = keep_time(&host);
    let id = created(&host, "saga").await;
    for attempt in 1..3 {
        let key = format!("q{attempt}");
        let is_asked =
            |task: Task| task.parked().is_some() && task.open_questions().any(|question| question.key == key);
        until(&store, id, "a question", is_asked).await;
        let answers = [(key.clone(), RawJson::trusted(YES))].into();
        let answered = tasks_of(&host).await.update_task(&local_caller(), &id.to_string(), answers).await;
        answered.expect("answers");
    }
    until_ended(&store, id).await;
    let outcome = format!("{:?}", stored(&store, id).await.outcome);
    assert!(outcome.contains("3: ") && outcome.contains("at most 2 questions"), "{outcome}");
}

/// H12: a guest that does so in a loop would keep the disk busy, and so would many of one owner.
#[tokio::test]
async fn the_tasks_of_one_owner_that_begin_again_with_large_states_take_turns() {
    let store = memory();
    let saga = saga().runs(|context| async move {
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
    let _time = keep_time(&host);
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
}

/// H10: the share of an owner holds while its tasks run, too.
#[tokio::test]
async fn a_task_whose_owner_s_journals_have_their_share_goes_on_and_resumes_no_more() {
    let store = memory();
    let saga = saga().runs(|context| async move {
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
    ids.push(created_by(&host, &caller("other"), "saga").await);
    let mut kept = Vec::new();
    for id in ids {
        until(&store, id, "its word", |task| task.status_message.is_some()).await;
        let task = stored(&store, id).await;
        let is_kept = task.status_message.as_deref() == Some("kept");
        assert_eq!(is_kept, task.unresumable.is_none(), "{task:?}");
        assert_eq!(is_kept, !lines(&store, id).await.is_empty());
        kept.push(is_kept);
    }
    // A share is 1 MiB, and each has 600 kB.
    assert!(kept[0] != kept[1] && kept[2], "{kept:?}");
}

fn caller(name: &str) -> Caller {
    Caller::new(principal(name), None, RawJson::empty_object())
}

/// A host with a free slot takes a task of one owner while tasks of another one wait for that owner's slots.
#[tokio::test]
async fn the_queue_of_one_owner_does_not_keep_the_parked_tasks_of_others_waiting() {
    let store = memory();
    let saga = saga().runs(|context| async move {
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
    let admission = Bounds { running: 3, running_per_principal: 1, ..SETTINGS.admission };
    let host = dispatch_by(Settings { admission, ..SETTINGS }, &store, vec![blocks, saga]);
    for _ in 0..2 {
        created_by(&host, &caller("other"), "blocks").await;
    }
    let _time = keep_time(&host);
    let id = created(&host, "saga").await;
    until_completed(&store, id).await;
}
