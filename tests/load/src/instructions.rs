//! Repeats a fixed piece of work, to count its instructions. Two runs with different numbers of repetitions
//! under `valgrind --tool=callgrind` give the cost of one repetition, without the start and the end of the
//! process (`tests/budget.rs`).

use crate::inside;
use anyhow::Context as _;
use bytes::Bytes;
use clap::ValueEnum;
use std::future::ready;
use std::hint::black_box;
use std::sync::Arc;
use tokio::runtime::Builder;
use toolyard_dispatch::{
    BridgeTerms, CallReply, Caller, Capture, Dispatch, NoClientChannel, RateKey, Stop, Terms, ToolCall,
};
use toolyard_engine::{Engine, Plugins};
use toolyard_kit::native;
use toolyard_protocol::message::decode;
use toolyard_protocol::response::result;
use toolyard_protocol::stateless::claim::ClaimedParams;
use toolyard_protocol::tools::CallParams;
use toolyard_protocol::{Id, Incoming, Message, Method, RawJson};
use toolyard_readers::{CURSOR, DECODE, MANIFEST, RULES, Reader, SCHEMA, TOKEN};
use toolyard_store::{Backend as _, SqliteOptions, SqliteStore};
use toolyard_store_contract::{AMPLE, ManualClock, START, owner, result as outcome, task};
use toolyard_task::store::Records;
use toolyard_task::tool::{Report, RunUsage};
use toolyard_task::{
    Catalog, Durability, Event, RunContext, RunEnd, Task, TaskStore as _, Tool, Unattended, apply,
};
use toolyard_tests::guests;

const CALL: &str = r#"{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"idle","arguments":{"a":19,"b":23},"_meta":{"progressToken":17}}}"#;
const STATELESS: &str = r#"{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"idle","arguments":{"a":19,"b":23},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#;
/// The params of a plain call.
const IDLE: &str = r#"{"name":"idle","arguments":{"a":19,"b":23}}"#;
const RESULT: &str = r#"{"content":[{"type":"text","text":"42"}],"isError":false}"#;

/// The pieces of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Parses a `tools/call` of 2025-11-25.
    Decode,
    /// Parses one of 2026-07-28, with its envelope.
    DecodeStateless,
    /// Writes a result into its answer.
    Encode,
    /// Ends a task in memory.
    Apply,
    /// Dispatches a plain call of a tool that does nothing.
    Dispatch,
    /// The same while the console keeps the history of calls.
    DispatchObserved,
    /// The same as `dispatch` for a client without task support, so that the call could be handed off.
    DispatchBridged,
    /// Dispatches such a call as a task, from its creation to its result, in the memory store.
    DispatchTask,
    /// Creates and ends a task in the SQLite store.
    Commit,
    /// Calls the tool `add` in a fresh store of the engine.
    Invoke,
    /// The same while a tool that resumes is loaded beside it.
    InvokeBeside,
    /// Parses the costliest message that the fuzzer has found; the following ones do the same.
    ReadDecode,
    /// Compiles a schema, and checks a value against it.
    ReadSchema,
    /// Checks arguments against rules.
    ReadRules,
    /// Parses a token.
    ReadJwt,
    /// Parses a cursor.
    ReadCursor,
    /// Parses a manifest.
    ReadManifest,
}

/// Repeats the work `times` times.
pub fn run(work: Work, times: u32) -> anyhow::Result<()> {
    // One thread and one client, so that the same happens in the same order each time.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match work {
            Work::Decode => (0..times).try_for_each(|_| decoded(CALL).map(|call| drop(black_box(call)))),
            Work::DecodeStateless => (0..times).try_for_each(|_| {
                let params = params_of(STATELESS)?;
                let (_, call) =
                    black_box(ClaimedParams::by(&Method::ToolsCall, Some(&params)).open(Some(&params))?);
                call.context("the params of a call").map(drop)
            }),
            Work::Encode => {
                let small = RawJson::trusted(RESULT);
                (0..times).for_each(|_| drop(black_box(result(&Id::Number(17), black_box(&small)))));
                Ok(())
            }
            Work::Apply => {
                let task = task(&owner("somebody"));
                let event = finished(&task);
                for _ in 0..times {
                    drop(black_box(apply(black_box(&task), event.clone(), task.created_at))?);
                }
                Ok(())
            }
            Work::Dispatch => dispatch(times, IDLE).await,
            Work::DispatchObserved => {
                let observe = |dispatch: &Dispatch| {
                    dispatch.observers().keep_history(Capture::default());
                    None
                };
                dispatch_by(times, IDLE, observe).await
            }
            Work::DispatchBridged => {
                let terms = |dispatch: &Dispatch| {
                    dispatch.settings().bridge.as_ref().map(|bridge| bridge.terms(None))
                };
                dispatch_by(times, IDLE, terms).await
            }
            Work::DispatchTask => {
                dispatch(times, r#"{"name":"idle","arguments":{"a":19,"b":23},"task":{}}"#).await
            }
            Work::Commit => commit(times).await,
            Work::Invoke => invoke(times, false).await,
            Work::InvokeBeside => invoke(times, true).await,
            Work::ReadDecode => read(DECODE, times),
            Work::ReadSchema => read(SCHEMA, times),
            Work::ReadRules => read(RULES, times),
            Work::ReadJwt => read(TOKEN, times),
            Work::ReadCursor => read(CURSOR, times),
            Work::ReadManifest => read(MANIFEST, times),
        }
    })
}

/// Parses the input in `tests/fuzz/costly`, which `make fuzz` has left in `target/fuzz/costliest`.
fn read(reader: Reader, times: u32) -> anyhow::Result<()> {
    let file = guests::root().join("tests/fuzz/costly").join(reader.name);
    let input = std::fs::read(&file).with_context(|| format!("{}", file.display()))?;
    reader.prepare();
    (0..times).for_each(|_| reader.read(black_box(&input)));
    Ok(())
}

fn finished(task: &Task) -> Event {
    Event::Finished { fence: task.fence, outcome: outcome(), message: None }
}

/// A call of a session, as its method receives it.
fn decoded(request: &'static str) -> anyhow::Result<CallParams> {
    Ok(CallParams::decode(Some(&params_of(request)?))?)
}

/// The params of a request.
fn params_of(request: &'static str) -> anyhow::Result<RawJson> {
    let body = Bytes::from_static(request.as_bytes());
    let Ok(Incoming::One(Message::Request { params: Some(params), .. })) = decode(black_box(&body)) else {
        anyhow::bail!("a request with params");
    };
    Ok(params)
}

async fn dispatch(times: u32, params: &'static str) -> anyhow::Result<()> {
    dispatch_by(times, params, |_| None).await
}

async fn dispatch_by(
    times: u32,
    params: &'static str,
    prepare: fn(&Dispatch) -> Option<BridgeTerms>,
) -> anyhow::Result<()> {
    let dispatch = inside::dispatch(tokio::runtime::Handle::current());
    dispatch.catalog().publish(Arc::new(Catalog::new([idle()])?));
    let caller = Caller::local(RawJson::empty_object());
    let bridge = prepare(&dispatch);
    // As in a host that has started: it knows that no call joins a task of an earlier process.
    dispatch.recover_now().await;
    for _ in 0..times {
        let call = ToolCall {
            params: CallParams::decode(Some(&RawJson::trusted(params)))?,
            terms: Terms::Sessions { has_tasks: true, bridge },
            stop: Arc::new(Stop::default()),
            channel: Arc::new(NoClientChannel),
            task_channel: Arc::new(NoClientChannel),
            rate_key: RateKey::Local,
        };
        if let CallReply::Created(created) = dispatch.call(&caller, call).await? {
            let (tasks, channel) = (dispatch.tasks().await?, Arc::new(NoClientChannel));
            let waited = tasks.task_result(&caller, &created.view.id, channel).await?;
            waited.ok().context("the result of a task")?;
        }
    }
    Ok(())
}

async fn commit(times: u32) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path(), SqliteOptions::new(ManualClock::at(START)))?;
    let owner = owner("somebody");
    for _ in 0..times {
        let made = store.create(task(&owner), AMPLE, Records::default()).await?;
        let ended = apply(&made, finished(&made), made.created_at)?.task;
        store.commit(&ended, Records::default()).await?;
    }
    store.shut_down().await;
    Ok(())
}

async fn invoke(times: u32, beside: bool) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::copy(guests::fixture("add"), folder.path().join("add.wasm"))?;
    if beside {
        std::fs::copy(guests::fixture("add"), folder.path().join("resumes.wasm"))?;
        let manifest = "prefix = \"resuming\"\n[task]\ndurability = \"resume\"\n";
        std::fs::write(folder.path().join("resumes.toml"), manifest)?;
    }
    let settings = toolyard_engine::Settings { max_runs: 1, ..toolyard_engine::Settings::default() };
    let engine = Engine::start(&settings)?;
    let catalog = Plugins::open(engine, folder.path()).load().await.catalog;
    let resuming = catalog.get("resuming_add").map(|tool| tool.spec().durability);
    anyhow::ensure!(resuming == beside.then_some(Durability::Resume), "not the tools that were expected");
    let tool = catalog.get("add").context("the tool is loaded")?.clone();
    let arguments = RawJson::trusted(r#"{"a":19,"b":23}"#);
    let context: Arc<dyn RunContext> = Arc::new(Unattended);
    for _ in 0..times {
        let reservation = tool.reserve().ok().context("there is room for one")?;
        let end = tool.clone().run(arguments.clone(), reservation, context.clone()).await;
        anyhow::ensure!(matches!(end, RunEnd::Result { is_error: false, .. }), "not what was expected");
    }
    Ok(())
}

/// A tool that ends in its first poll.
fn idle() -> Arc<dyn Tool> {
    native("idle").runs(|context| {
        // The engine reports this too.
        context.report(Report::Usage(RunUsage { memory: Some(1 << 20), ..RunUsage::default() }));
        ready(RunEnd::Result { is_error: false, result: RawJson::trusted(RESULT), message: None })
    })
}
