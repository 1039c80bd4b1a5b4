//! One run of a guest: a fresh store, the typed call, and what came of it.
//!
//! A quick call ends in the first poll and takes no timer, no channel and no
//! thread of its own. The limit on the time by the clock stands outside the
//! guest's future, because a busy guest would stop it there.

use crate::bindings::toolyard::plugin::types::{
    CallError, RpcError as GuestError, Tool as GuestDeclaration, ToolResult,
};
use crate::encode;
use crate::engine::Engine;
use crate::error::Refusal;
use crate::failure::Failure;
use crate::host::{About, Run};
use crate::inputs::cut;
use crate::limits::{Denied, Limiter};
use crate::meter::{self, Meter};
use crate::settings::Limits;
use crate::tool::GuestTool;
use async_trait::async_trait;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Sleep;
use toolyard_task::tool::{AskError, AskedQuestion, CallInfo, GivenAnswer, Report};
use toolyard_task::wire::{RawJson, RpcError};
use toolyard_task::{RunContext, RunEnd};
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, InstancePre, Lift, Lower};
use wasmtime::{Store, Trap};

/// The longest message of a JSON-RPC error (`types.rpc-error`).
const RPC_MESSAGE_BYTES: usize = 8 << 10;
/// When a client should come back after the pool was empty, in milliseconds.
const BUSY_RETRY_MS: u64 = 250;

/// How a run failed before it gave anything.
struct Broken {
    error: wasmtime::Error,
    denied: Option<Denied>,
    /// Whether the guest's function had been reached.
    entered: bool,
}

/// Why a future that was driven is over.
enum Driven<T> {
    Done(T),
    Stopped,
    OutOfTime,
}

/// Runs one call of a tool.
pub(crate) async fn run(tool: Arc<GuestTool>, arguments: RawJson, context: Arc<dyn RunContext>) -> RunEnd {
    if context.stopped() {
        return RunEnd::Stopped;
    }
    let base = &tool.base;
    let engine = &*base.engine;
    let Some(_slot) = engine.admit(base.code.memories) else {
        return busy(engine);
    };
    let limits = &base.manifest.limits;
    let meter = Arc::new(Meter::new(limits.cpu));
    let about = About {
        plugin: base.file.clone(),
        tool: tool.guest_name.clone(),
        env: base.manifest.env.clone(),
        stdio_bytes: engine.settings.stdio_bytes,
        began: meter.born(),
        wall: limits.wall,
    };
    let call = guest::<(&str, &str), (Result<ToolResult, CallError>,)>(
        engine,
        (&base.code.pre, &base.code.call),
        limits,
        &meter,
        Run::new(Limiter::new(limits), context.clone(), about),
        (&tool.guest_name, arguments.as_str()),
    );
    let name = tool.spec.name();
    let fail = |failure: Failure| encode::error(&failure.sentence(name, limits));
    match drive(engine, &meter, limits.wall, &context, call).await {
        Driven::Stopped => RunEnd::Stopped,
        Driven::OutOfTime => fail(Failure::Wall),
        Driven::Done(Ok(((Ok(mut result),), denied))) => {
            if let (true, Some(denied)) = (result.is_error, denied) {
                // A guest that was refused memory and fails in its own words does
                // not know what the limit was.
                result.content.push(encode::text(denied.sentence(limits)));
            }
            encode::result(result, tool.declared.output.as_deref(), limits.output).unwrap_or_else(fail)
        }
        Driven::Done(Ok(((Err(CallError::Rpc(error)),), _))) => RunEnd::Error(rpc_error(name, error)),
        Driven::Done(Ok(((Err(CallError::MissingCapability(what)),), _))) => {
            encode::error(&missing(name, what))
        }
        Driven::Done(Err(broken)) => {
            let interrupted = matches!(broken.error.downcast_ref(), Some(Trap::Interrupt));
            if interrupted && context.stopped() {
                return RunEnd::Stopped;
            }
            let failure = if interrupted && meter.is_over() {
                Failure::Cpu
            } else {
                Failure::of(&broken.error, broken.denied, broken.entered)
            };
            let error = format!("{:#}", broken.error);
            if failure == Failure::Host {
                tracing::warn!(plugin = %base.file, tool = name, error, "a tool could not be run");
            } else {
                tracing::debug!(plugin = %base.file, tool = name, error, "a run ended without a result");
            }
            fail(failure)
        }
    }
}

/// Asks a component for its tools.
pub(crate) async fn list(
    engine: &Engine,
    export: (&InstancePre<Run>, &ComponentExportIndex),
    plugin: &Arc<str>,
) -> Result<Vec<GuestDeclaration>, Refusal> {
    let time = engine.settings.list_time;
    let limits = Limits { cpu: time, wall: time, ..engine.settings.limits.clone() };
    let meter = Arc::new(Meter::new(limits.cpu));
    let about = About {
        plugin: plugin.clone(),
        tool: "list-tools".into(),
        env: Arc::new([]),
        stdio_bytes: engine.settings.stdio_bytes,
        began: meter.born(),
        wall: limits.wall,
    };
    let context: Arc<dyn RunContext> = Arc::new(Nobody);
    let state = Run::new(Limiter::new(&limits), context.clone(), about);
    let call = guest::<(), (Vec<GuestDeclaration>,)>(engine, export, &limits, &meter, state, ());
    match drive(engine, &meter, limits.wall, &context, call).await {
        Driven::Done(Ok(((tools,), _))) => Ok(tools),
        Driven::Done(Err(broken)) if !meter.is_over() => {
            Err(Refusal::List(match Failure::of(&broken.error, broken.denied, broken.entered) {
                // Whoever looks after the folder may see it all.
                Failure::Host => format!("{:#}", broken.error),
                failure => failure.sentence("list-tools", &limits),
            }))
        }
        Driven::Done(Err(_)) | Driven::OutOfTime | Driven::Stopped => Err(Refusal::ListTime(time)),
    }
}

/// One call of an exported function in a store of its own, and which limit it was
/// refused more of.
async fn guest<P, R>(
    engine: &Engine,
    (pre, export): (&InstancePre<Run>, &ComponentExportIndex),
    limits: &Limits,
    meter: &Arc<Meter>,
    state: Run,
    params: P,
) -> Result<(R, Option<Denied>), Broken>
where
    P: ComponentNamedList + Lower + Send + Sync,
    R: ComponentNamedList + Lift + Send + Sync + 'static,
{
    let context = state.context.clone();
    let mut store = Store::new(&engine.wasm, state);
    store.limiter(|run| &mut run.limiter);
    store.set_hostcall_fuel(usize::try_from(limits.hostcall).unwrap_or(usize::MAX));
    meter::arm(&mut store, meter, &context);
    let mut entered = false;
    let called = async {
        // A stop that came before the deadline was armed has moved an epoch
        // that this store did not look at.
        if context.stopped() {
            return Err(Trap::Interrupt.into());
        }
        let instance = pre.instantiate_async(&mut store).await?;
        let function = instance.get_typed_func::<P, R>(&mut store, export)?;
        entered = true;
        function.call_async(&mut store, params).await
    };
    let called = called.await;
    let denied = store.data().limiter.denied;
    match called {
        Ok(value) => Ok((value, denied)),
        Err(error) => Err(Broken { error, denied, entered }),
    }
}

/// Polls a guest's future to its end, counting the time, with the epoch ticking
/// only during the polls.
async fn drive<T>(
    engine: &Engine,
    meter: &Meter,
    wall: Duration,
    context: &Arc<dyn RunContext>,
    guest: impl Future<Output = T>,
) -> Driven<T> {
    let mut guest = pin!(guest);
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        // From the second poll on: what ends the run comes before the guest, or
        // a guest that wakes late could outlive its time.
        if let Some(timer) = &mut timer {
            if context.stopped() {
                return Poll::Ready(Driven::Stopped);
            }
            if timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Driven::OutOfTime);
            }
        }
        let polled = {
            let _ticking = engine.ticker.ticking();
            meter.enter();
            let polled = guest.as_mut().poll(cx);
            meter.leave();
            polled
        };
        if let Poll::Ready(output) = polled {
            return Poll::Ready(Driven::Done(output));
        }
        if timer.is_some() {
            return Poll::Pending;
        }
        let left = wall.saturating_sub(meter.born().elapsed());
        let timer = timer.insert(Box::pin(tokio::time::sleep(left)));
        timer.as_mut().poll(cx).map(|()| Driven::OutOfTime)
    })
    .await
}

fn busy(engine: &Engine) -> RunEnd {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        limit: u32,
        retry_after_ms: u64,
    }
    let data = Data { limit: engine.capacity(), retry_after_ms: BUSY_RETRY_MS };
    RunEnd::Error(RpcError::internal("The host is busy: all its instances are in use.").with_data(&data))
}

fn rpc_error(tool: &str, error: GuestError) -> RpcError {
    let data = error.data.and_then(|data| match RawJson::parse(data) {
        // Stored and read again, `null` would be no data: so it is none from the
        // start.
        Ok(data) => (data.as_str() != "null").then_some(data),
        Err(error) => {
            tracing::debug!(tool, "the data of a guest's JSON-RPC error is left out: {error}");
            None
        }
    });
    RpcError { code: error.code, message: cut(error.message, RPC_MESSAGE_BYTES), data }
}

fn missing(tool: &str, what: String) -> String {
    const SHOWN: usize = 1 << 10;
    match RawJson::parse(cut(what, SHOWN)) {
        Ok(json) if json.is_object() => {
            format!("The tool `{tool}` needs a client with these capabilities: {}", json.as_str())
        }
        _ => format!("The tool `{tool}` needs a capability that the client does not have"),
    }
}

/// For whom `list-tools` runs: nobody hears it and nobody answers.
struct Nobody;

#[async_trait]
impl RunContext for Nobody {
    fn stopped(&self) -> bool {
        false
    }

    fn report(&self, _: Report) {}

    fn info(&self) -> CallInfo {
        CallInfo { task: None, attempt: 1, deadline: None, client_capabilities: RawJson::empty_object() }
    }

    async fn ask(&self, _: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        Err(AskError::Unsupported("`list-tools` cannot ask".to_owned()))
    }

    async fn begin_task(&self) -> Result<(), String> {
        Ok(())
    }

    async fn effects(&self) -> Result<(), AskError> {
        Ok(())
    }
}
