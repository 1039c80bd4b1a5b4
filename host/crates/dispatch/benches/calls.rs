//! The cost that the dispatcher adds to a call. The tool does nothing and the store is in memory,
//! so the rest is resolving, checking, admitting, running and committing.

use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::future::{self, BoxFuture, FutureExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolyard_dispatch::{
    Bounds, CallParams, CallReply, Caller, Catalog, Clock, Dispatch, Ids, NoClientChannel, RawJson, Settings,
    Stop, Stores, Terms, Timestamp, ToolCall,
};
use toolyard_store::MemoryStore;
use toolyard_task::tool::{ArgumentCheck, Report, ReportBounds, RunUsage, ToolSpec};
use toolyard_task::wire::{TaskSupport, ToolDescription};
use toolyard_task::{Digest, Reservation, RunContext, RunEnd, Tool};
use uuid::Uuid;

const RESULT: &str = r#"{"content":[{"type":"text","text":"42"}],"isError":false}"#;

/// Ends in its first poll.
struct Idle(ToolSpec);

impl Tool for Idle {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn check(&self, _: &RawJson) -> ArgumentCheck {
        ArgumentCheck::Fits
    }

    fn run(
        self: Arc<Self>,
        _: RawJson,
        _: Reservation,
        context: Arc<dyn RunContext>,
    ) -> BoxFuture<'static, RunEnd> {
        // As the engine does.
        context.report(Report::Usage(RunUsage { memory: Some(1 << 20), ..RunUsage::default() }));
        let end = RunEnd::Result { is_error: false, result: RawJson::trusted(RESULT), message: None };
        future::ready(end).boxed()
    }

    fn interrupt(&self) {}
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64))
    }
}

/// These ids need not be unpredictable.
#[derive(Default)]
struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn uuid(&self) -> Uuid {
        Uuid::from_u128(self.0.fetch_add(1, Ordering::Relaxed).into())
    }
}

fn catalog() -> Arc<Catalog> {
    let description = ToolDescription {
        name: "idle".to_owned(),
        title: None,
        description: None,
        icons: None,
        input_schema: RawJson::trusted(r#"{"type":"object"}"#),
        output_schema: None,
        annotations: None,
        execution: None,
        meta: None,
    };
    let tool: Arc<dyn Tool> = Arc::new(Idle(ToolSpec {
        description,
        task_support: TaskSupport::Optional,
        digest: Digest("0".repeat(64)),
        plugin: "idle.wasm".to_owned(),
        poll_interval_ms: None,
        immediate_response: None,
        durability: toolyard_task::Durability::None,
        inline_for: None,
        concurrency: None,
        queue: None,
        rate: None,
        reports: ReportBounds::default(),
    }));
    Arc::new(Catalog::new([tool]).expect("one tool collides with none"))
}

fn dispatch(guests: tokio::runtime::Handle) -> Arc<Dispatch> {
    let settings = Settings {
        tasks: true,
        // Short, so that what one iteration leaves behind is gone before it
        // slows a later one.
        ttl_default_ms: 1_000,
        ttl_cap_ms: 60_000,
        poll_interval_ms: 1_000,
        admission: Bounds { running: 1_000, running_per_principal: 64, waiting_per_principal: 1_000 },
        live_tasks: 20_000,
        kept_bytes_per_owner: 1 << 30,
        kept_bytes: 8 << 30,
        question_ms: 60_000,
        question_settle_ms: 0,
        state_ms: 3_600_000,
        inline_for_ms: 2_000,
        attempts: 3,
        rerun_after_ms: 10,
        adopts: true,
        shares: false,
        related_task: true,
        page: 200,
        list_ms: 2_000,
        sessions: 100,
        session_idle_ms: 60_000,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let stores = Stores {
        tasks: store.clone(),
        nodes: store.clone(),
        sessions: store.clone(),
        keys: store.clone(),
        grants: store.clone(),
        broadcast: store.clone(),
        audit: store,
    };
    let dispatch = Dispatch::new(settings, stores, clock, Arc::<CountedIds>::default(), guests);
    dispatch.publish(catalog());
    dispatch
}

async fn call(dispatch: &Arc<Dispatch>, caller: &Caller, params: &str) -> CallReply {
    let call = ToolCall {
        params: CallParams::decode(Some(&RawJson::trusted(params.to_owned()))).expect("params"),
        terms: Terms::Sessions { has_tasks: true },
        stop: Arc::new(Stop::default()),
        channel: Arc::new(NoClientChannel),
        task_channel: Arc::new(NoClientChannel),
    };
    dispatch.call(caller, call).await.expect("a reply")
}

async fn create_and_wait(dispatch: &Arc<Dispatch>, caller: &Caller) {
    let CallReply::Created(created) = call(dispatch, caller, r#"{"name":"idle","task":{}}"#).await else {
        panic!("a task");
    };
    dispatch
        .task_result(caller, &created.view.id, Arc::new(NoClientChannel))
        .await
        .expect("it is there")
        .expect("its result");
}

fn calls(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("starts");
    let dispatch = dispatch(runtime.handle().clone());
    let caller = Caller::local(RawJson::empty_object());
    let stop = tokio_util::sync::CancellationToken::new();
    runtime.spawn(dispatch.clone().keep_time(stop));
    criterion.bench_function("dispatch/call inline", |bencher| {
        bencher.to_async(&runtime).iter(|| call(&dispatch, &caller, r#"{"name":"idle"}"#));
    });
    criterion.bench_function("dispatch/create to result", |bencher| {
        bencher.to_async(&runtime).iter(|| create_and_wait(&dispatch, &caller));
    });
}

criterion_group!(benches, calls);
criterion_main!(benches);
