//! A task's question between the store and its client, where the store fails.

#[path = "kit/settings.rs"]
mod settings;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use toolyard_dispatch::{
    CallParams, CallReply, Caller, Catalog, Dispatch, Ids, Line, Notice, Outlet, Place, Presence, RawJson,
    Stop, Stores, TaskId, TaskSupport, Timestamp, ToolCall,
};
use toolyard_store::MemoryStore;
use toolyard_task::search::{Page, Search};
use toolyard_task::store::{Committed, CreateError, Hints, ListQuery, Quota, Read, StoreError, TaskStore};
use toolyard_task::task::Summary;
use toolyard_task::tool::{AskedQuestion, RunContext, RunEnd, Tool, ToolSpec};
use toolyard_task::wire::{RequestedTtl, ToolDescription, text_result};
use toolyard_task::{Clock, Digest, Incarnation, Task};

/// A store whose next operations on existing tasks fail.
struct Failing {
    inner: Arc<MemoryStore>,
    failures: AtomicU32,
}

impl Failing {
    fn operate(&self) -> Result<(), StoreError> {
        let left = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() { Err(StoreError::Unavailable("a fault".into())) } else { Ok(()) }
    }
}

#[async_trait]
impl TaskStore for Failing {
    async fn create(&self, task: Task, quota: Quota) -> Result<Task, CreateError> {
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
        self.inner.list(query).await
    }

    async fn search(&self, search: &Search) -> Result<Page, StoreError> {
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

struct Now;

impl Clock for Now {
    fn now(&self) -> Timestamp {
        Timestamp(1)
    }
}

/// Numbers in the place of random ids.
struct Numbers(AtomicU32);

impl Ids for Numbers {
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::SeqCst)))
    }
}

/// A tool that asks one question and says what came of it.
struct Asks(ToolSpec);

impl Tool for Asks {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn check(&self, _: &RawJson) -> Result<(), String> {
        Ok(())
    }

    fn run(
        self: Arc<Self>,
        _: RawJson,
        context: Arc<dyn RunContext>,
    ) -> futures_util::future::BoxFuture<'static, RunEnd> {
        let params = r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#;
        let question = AskedQuestion {
            key: "a".to_owned(),
            method: "elicitation/create".to_owned(),
            params: RawJson::trusted(params),
        };
        async move {
            let answers = context.ask(vec![question]).await;
            RunEnd::Result {
                is_error: false,
                result: text_result(&format!("{answers:?}"), false),
                message: None,
            }
        }
        .boxed()
    }

    fn interrupt(&self) {}
}

/// A client that can be asked, and remembers what.
#[derive(Default, Clone)]
struct Client(Arc<Mutex<Vec<String>>>);

impl Client {
    fn asked(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Outlet for Client {
    fn notify(&self, _: Option<TaskId>, _: Notice) {}

    fn line(&self, _: Option<TaskId>, _: Place) -> Option<Arc<dyn Line>> {
        Some(Arc::new(self.clone()))
    }

    fn release(&self, _: Duration) {}
}

impl Line for Client {
    fn request(&self, id: &str, _: &str, _: &RawJson) -> bool {
        self.0.lock().expect("no panic").push(id.to_owned());
        true
    }

    fn withdraw(&self, _: &str, _: &str, _: Option<TaskId>) {}

    fn presence(&self) -> Presence {
        Presence::There
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        description: ToolDescription {
            name: "asks".to_owned(),
            title: None,
            description: None,
            icons: None,
            input_schema: RawJson::trusted(r#"{"type":"object"}"#),
            output_schema: None,
            annotations: None,
            execution: None,
            meta: None,
        },
        task_support: TaskSupport::Optional,
        digest: Digest("0".repeat(64)),
        plugin: "asks.wasm".to_owned(),
        poll_interval_ms: None,
        immediate_response: None,
        concurrency: None,
    }
}

/// The store fails while the task waits: the question stays asked, is asked once,
/// and its answer reaches the guest (H-20, IR-1).
#[tokio::test]
async fn a_wait_for_answers_outlasts_a_store_that_fails_for_a_while() {
    let store = Arc::new(MemoryStore::new(Arc::new(Now)));
    let failing = Arc::new(Failing { inner: store.clone(), failures: AtomicU32::new(0) });
    let stores =
        Stores { tasks: failing.clone(), nodes: store.clone(), sessions: store.clone(), keys: store };
    let ids = Arc::new(Numbers(AtomicU32::new(1)));
    let dispatch = Dispatch::new(settings::SETTINGS, stores, Arc::new(Now), ids, Handle::current());
    let tool: Arc<dyn Tool> = Arc::new(Asks(spec()));
    dispatch.publish(Arc::new(Catalog::new([tool]).expect("one tool")));
    let caller = Caller::local(RawJson::trusted(r#"{"elicitation":{}}"#));
    let client = Client::default();
    let call = ToolCall {
        params: CallParams {
            name: "asks".to_owned(),
            arguments: RawJson::empty_object(),
            task: Some(Ok(RequestedTtl::Absent)),
            progress_token: None,
        },
        client_has_tasks: true,
        stop: Arc::new(Stop::default()),
        outlet: Arc::new(client.clone()),
        task_outlet: Arc::new(client.clone()),
    };
    let CallReply::Created(created) = dispatch.call(&caller, call).await.expect("created") else {
        panic!("a task");
    };
    let created: serde_json::Value = created.decode().expect("JSON");
    let id = created["task"]["taskId"].as_str().expect("an id").to_owned();
    while client.asked().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Whatever the wait does next fails, and again.
    failing.failures.store(2, Ordering::SeqCst);
    while failing.failures.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(client.asked().len(), 1, "asked once");
    let answer = RawJson::trusted(r#"{"action":"accept","content":{}}"#);
    dispatch.answered(&caller, &client.asked()[0], Ok(answer)).await.expect("kept");
    let result = dispatch.task_result(&caller, &id, Arc::new(client.clone())).await.expect("a task");
    let text = result.expect("a result");
    assert!(text.as_str().contains("accept"), "{}", text.as_str());
    assert_eq!(client.asked().len(), 1);
}
