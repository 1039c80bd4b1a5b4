//! The application over the memory store, with tools written in Rust: what must
//! hold whatever the engine, the store and the client do.

#[path = "kit/settings.rs"]
mod settings;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use toolyard_dispatch::{
    CallParams, CallReply, Caller, Clock, Dispatch, Fault, Ids, Line, NoOutlet, Notice, Outlet, Place,
    RawJson, Stop, Stores, TaskSupport, Timestamp, ToolCall,
};
use toolyard_protocol::tools::{RequestedTtl, ToolDescription, text_result};
use toolyard_store::MemoryStore;
use toolyard_task::search::{Page, Search};
use toolyard_task::store::{Committed, CreateError, Hints, ListQuery, Quota, Read, StoreError};
use toolyard_task::task::Summary;
use toolyard_task::tool::{Report, ToolSpec};
use toolyard_task::wire::{Progress, TaskStatus};
use toolyard_task::{Catalog, Digest, Incarnation, RunContext, RunEnd, Task, TaskId, TaskStore, Tool};

struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        // Every look is a millisecond later, so that nothing happens at once.
        Timestamp(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Ids in order, distinct over all dispatchers of the process.
struct TestIds;

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

impl Ids for TestIds {
    fn uuid(&self) -> uuid::Uuid {
        let number = u128::from(NEXT_ID.fetch_add(1, Ordering::SeqCst));
        uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
    }
}

type Body = Arc<dyn Fn(Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> + Send + Sync>;

struct NativeTool {
    spec: ToolSpec,
    body: Body,
}

impl Tool for NativeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, _arguments: &RawJson) -> Result<(), String> {
        Ok(())
    }

    fn run(self: Arc<Self>, _arguments: RawJson, context: Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> {
        (self.body)(context)
    }

    fn interrupt(&self) {}
}

fn tool(
    name: &str,
    body: impl Fn(Arc<dyn RunContext>) -> BoxFuture<'static, RunEnd> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let description = ToolDescription {
        name: name.to_owned(),
        title: None,
        description: None,
        icons: None,
        input_schema: RawJson::trusted(r#"{"type":"object"}"#),
        output_schema: None,
        annotations: None,
        execution: None,
        meta: None,
    };
    Arc::new(NativeTool {
        spec: ToolSpec {
            description,
            task_support: TaskSupport::Optional,
            digest: Digest("00".into()),
            plugin: "native".into(),
            poll_interval_ms: None,
            immediate_response: None,
            concurrency: None,
        },
        body: Arc::new(body),
    })
}

fn done(text: &str) -> RunEnd {
    RunEnd::Result { is_error: false, result: text_result(text, false), message: None }
}

fn dispatch(store: &Arc<MemoryStore>, tasks: Arc<dyn TaskStore>, tools: Vec<Arc<dyn Tool>>) -> Arc<Dispatch> {
    let store = store.clone();
    let stores = Stores { tasks, nodes: store.clone(), sessions: store.clone(), keys: store };
    let (clock, ids) = (Arc::new(TestClock(AtomicI64::new(1))), Arc::new(TestIds));
    let dispatch = Dispatch::new(settings::SETTINGS, stores, clock, ids, Handle::current());
    dispatch.publish(Arc::new(Catalog::new(tools).expect("distinct names")));
    dispatch
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(TestClock(AtomicI64::new(1_000_000)))))
}

fn simple(tools: Vec<Arc<dyn Tool>>) -> Arc<Dispatch> {
    let store = memory();
    dispatch(&store, store.clone(), tools)
}

fn caller() -> Caller {
    Caller::local(RawJson::empty_object())
}

fn call(name: &str, task: bool, outlet: Arc<dyn Outlet>) -> ToolCall {
    ToolCall {
        params: CallParams {
            name: name.to_owned(),
            arguments: RawJson::empty_object(),
            task: task.then_some(Ok(RequestedTtl::Absent)),
            progress_token: Some(RawJson::trusted("1")),
        },
        client_has_tasks: true,
        stop: Arc::new(Stop::default()),
        outlet: outlet.clone(),
        task_outlet: outlet,
    }
}

async fn create(dispatch: &Arc<Dispatch>, name: &str, outlet: Arc<dyn Outlet>) -> String {
    let reply = dispatch.call(&caller(), call(name, true, outlet)).await.expect("created");
    let CallReply::Created(result) = reply else { panic!("{reply:?}") };
    let value: serde_json::Value = result.decode().expect("JSON");
    value["task"]["taskId"].as_str().expect("an id").to_owned()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A store that can be made to fail.
struct Faulty {
    inner: Arc<MemoryStore>,
    /// So many operations fail from now on.
    failures: AtomicU32,
    used: AtomicBool,
}

impl Faulty {
    fn operate(&self) -> Result<(), StoreError> {
        self.used.store(true, Ordering::SeqCst);
        let left = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() { Err(StoreError::Unavailable("a fault".into())) } else { Ok(()) }
    }
}

#[async_trait]
impl TaskStore for Faulty {
    async fn create(&self, task: Task, quota: Quota) -> Result<Task, CreateError> {
        self.operate()?;
        self.inner.create(task, quota).await
    }

    async fn read(&self, id: TaskId) -> Result<Option<Read>, StoreError> {
        self.operate()?;
        self.inner.read(id).await
    }

    async fn commit(&self, task: &Task) -> Result<Committed, StoreError> {
        self.operate()?;
        self.inner.commit(task).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Vec<Summary>, StoreError> {
        self.operate()?;
        self.inner.list(query).await
    }

    async fn search(&self, search: &Search) -> Result<Page, StoreError> {
        self.operate()?;
        self.inner.search(search).await
    }

    async fn due(&self, limit: u32) -> Result<Vec<TaskId>, StoreError> {
        self.inner.due(limit).await
    }

    async fn held_by(&self, incarnation: Incarnation) -> Result<Vec<TaskId>, StoreError> {
        self.inner.held_by(incarnation).await
    }

    async fn remove(&self, ids: &[TaskId]) -> Result<u32, StoreError> {
        self.inner.remove(ids).await
    }

    fn hints(&self) -> Box<dyn Hints> {
        self.inner.hints()
    }
}

fn faulty(failures: u32) -> (Arc<MemoryStore>, Arc<Faulty>) {
    let store = memory();
    let faulty =
        Faulty { inner: store.clone(), failures: AtomicU32::new(failures), used: AtomicBool::new(false) };
    (store, Arc::new(faulty))
}

#[tokio::test]
async fn an_inline_call_touches_no_store_and_ends_where_it_stands() {
    let (store, faulty) = faulty(u32::MAX);
    let dispatch = dispatch(&store, faulty.clone(), vec![tool("quick", |_| async { done("x") }.boxed())]);
    let reply = dispatch.call(&caller(), call("quick", false, Arc::new(NoOutlet))).now_or_never();
    assert!(matches!(reply, Some(Ok(CallReply::Result(_)))), "in its first poll");
    assert!(!faulty.used.load(Ordering::SeqCst));
    assert_eq!(dispatch.running(), 0);
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
    let refused = dispatch.call(&caller(), call("effects", true, Arc::new(NoOutlet))).await;
    assert!(matches!(refused, Err(Fault::Store(_))));
    assert_eq!(dispatch.running(), 0, "the slot was given back");
    assert!(!ran.load(Ordering::SeqCst));
}

#[tokio::test]
async fn an_end_that_meets_a_failing_store_is_tried_until_it_is_kept() {
    let (store, faulty) = faulty(0);
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let body = move |_| {
        let opened = opened.clone();
        async move {
            opened.notified().await;
            done("kept")
        }
        .boxed()
    };
    let dispatch = dispatch(&store, faulty.clone(), vec![tool("gated", body)]);
    let id = create(&dispatch, "gated", Arc::new(NoOutlet)).await;
    faulty.failures.store(3, Ordering::SeqCst);
    gate.notify_one();
    eventually("the faults to be met", || faulty.failures.load(Ordering::SeqCst) == 0).await;
    let result = dispatch
        .task_result(&caller(), &id, Arc::new(NoOutlet))
        .await
        .expect("the store is back")
        .expect("a result");
    assert!(result.as_str().contains("kept"));
}

#[tokio::test]
async fn a_panic_of_the_engine_is_an_error_and_not_a_lost_task() {
    let dispatch = simple(vec![tool("panics", |_| async { panic!("a fault of the engine") }.boxed())]);
    let reply = dispatch.call(&caller(), call("panics", false, Arc::new(NoOutlet))).await;
    assert!(matches!(reply, Ok(CallReply::Error(error)) if error.code == -32603));
    let id = create(&dispatch, "panics", Arc::new(NoOutlet)).await;
    let outcome = dispatch.task_result(&caller(), &id, Arc::new(NoOutlet)).await.expect("a task");
    assert_eq!(outcome.expect_err("an error").code, -32603);
    assert_eq!(dispatch.running(), 0);
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
        .boxed()
    };
    let dispatch = simple(vec![tool("waits", body)]);
    let id = create(&dispatch, "waits", Arc::new(NoOutlet)).await;
    assert_eq!(
        dispatch.cancel_task(&caller(), &id).await.expect("cancelled").status(),
        TaskStatus::Cancelled
    );
    eventually("the run to be dropped", || dropped.load(Ordering::SeqCst)).await;
    eventually("the slot to be free", || dispatch.running() == 0).await;
    assert!(matches!(dispatch.cancel_task(&caller(), &id).await, Err(Fault::AlreadyOver(_))));
}

#[tokio::test]
async fn p_1_progress_rises_is_paced_and_ends_with_the_last_word() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<f64>>);
    impl Outlet for Heard {
        fn notify(&self, _: Option<TaskId>, notice: Notice) {
            if let Notice::Progress { progress, .. } = notice {
                self.0.lock().expect("heard").push(progress.progress);
            }
        }

        fn line(&self, _: Option<TaskId>, _: Place) -> Option<Arc<dyn Line>> {
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
        .boxed()
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
async fn tasks_of_a_dead_host_are_ended_and_a_living_neighbours_are_not_touched() {
    let store = memory();
    let waits = || tool("waits", |_| std::future::pending().boxed());
    let host = |node: &Arc<MemoryStore>| dispatch(node, node.clone(), vec![waits()]);
    let (dying, living) = (Arc::new(store.node()), Arc::new(store.node()));
    let theirs = create(&host(&dying), "waits", Arc::new(NoOutlet)).await;
    let neighbour = host(&living);
    let ours = create(&neighbour, "waits", Arc::new(NoOutlet)).await;
    dying.kill();
    let third = host(&Arc::new(store.node()));
    let ended = third.task(&caller(), &theirs).await.expect("found");
    assert_eq!(ended.status(), TaskStatus::Failed);
    assert!(ended.status_message.expect("a message").contains("host"));
    assert_eq!(third.task(&caller(), &ours).await.expect("found").status(), TaskStatus::Working);
}

#[tokio::test]
async fn a_drained_host_takes_no_calls_and_leaves_no_task_that_claims_to_run() {
    let dispatch = simple(vec![
        tool("waits", |_| std::future::pending().boxed()),
        tool("quick", |_| async { done("x") }.boxed()),
    ]);
    let id = create(&dispatch, "waits", Arc::new(NoOutlet)).await;
    dispatch.drain(Duration::ZERO).await;
    assert_eq!(dispatch.task(&caller(), &id).await.expect("found").status(), TaskStatus::Failed);
    let refused = dispatch.call(&caller(), call("quick", false, Arc::new(NoOutlet))).await;
    assert!(matches!(refused, Err(Fault::Closing)));
    assert_eq!(dispatch.running(), 0);
}
