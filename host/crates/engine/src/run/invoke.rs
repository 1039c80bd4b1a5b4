//! A run of a guest: a fresh store, the typed call, and its outcome.
//!
//! A quick call ends in the first poll and needs no timer, channel or thread of its own. The
//! wall-clock limit is enforced outside the guest's future, because a busy guest would block it
//! inside.

use crate::component::exports::{Exports, ListedPrompts, ListedTools};
use crate::convert::typed::Function;
use crate::error::Refusal;
use crate::guest::about::About;
use crate::guest::state::GuestState;
use crate::journal::GuestJournal;
use crate::limits::cpu_meter::{self, CpuMeter};
use crate::limits::failure::Failure;
use crate::limits::first_poll::FirstPolls;
use crate::limits::memory_limiter::{DeniedGrowth, MemoryLimiter};
use crate::run::backtrace;
use crate::run::engine::Engine;
use crate::run::listing::Listing;
use crate::run::loaded::{JournalledCode, PluginBase};
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Sleep;
use toolyard_manifest::Limits;
use toolyard_task::permission::WhyNot;
use toolyard_task::tool::Report;
use toolyard_task::{NotPermitted, Reservation, RunContext};
use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower, Val,
};
use wasmtime::{Store, Trap};

/// The function that a run executes.
pub(crate) enum Subject {
    /// A tool, by the guest's name for it.
    Tool(Arc<str>),
    /// A function of the contract.
    Function(&'static str),
}

/// The time that a run has left when its guest has returned. The host uses it to process the
/// result.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TimeLeft {
    pub cpu: Duration,
    pub wall: Duration,
}

/// The refusals of a run, whose reasons the guest may not know, and the time it has left.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub left: TimeLeft,
    /// The growth limit that it reached.
    pub growth: Option<DeniedGrowth>,
    /// Why accesses to the network were refused or failed, one sentence each.
    pub network: Vec<String>,
}

/// The outcome of a run.
pub(crate) enum RunOutcome<R> {
    /// The guest's function returned. Includes the refusals.
    Returned(R, Refusals),
    Failed(Failure),
    Stopped,
}

impl<R> RunOutcome<R> {
    /// Converts the function's return value.
    pub fn map<T>(self, make: impl FnOnce(R) -> T) -> RunOutcome<T> {
        match self {
            Self::Returned(value, refused) => RunOutcome::Returned(make(value), refused),
            Self::Failed(failure) => RunOutcome::Failed(failure),
            Self::Stopped => RunOutcome::Stopped,
        }
    }
}

/// Reports the resource usage of a run however it ends, even if its future is dropped.
struct SpentReport<'a> {
    meter: &'a CpuMeter,
    context: &'a Arc<dyn RunContext>,
}

impl Drop for SpentReport<'_> {
    fn drop(&mut self) {
        self.context.report(Report::Usage(self.meter.spent()));
    }
}

/// A run that failed before it returned a value.
struct FailedRun {
    error: wasmtime::Error,
    refused: Refusals,
    /// Whether the guest's function was entered.
    entered: bool,
}

/// Why `drive` ended.
enum DriveEnd<T> {
    Done(T),
    Stopped,
    OutOfTime,
}

/// A call of an exported function.
pub(crate) trait Call: Send {
    /// The function's return value.
    type Returned: Send + 'static;

    /// Calls the function in an instance of its component.
    fn call(
        self,
        store: &mut Store<GuestState>,
        instance: Instance,
    ) -> impl Future<Output = wasmtime::Result<Self::Returned>> + Send;
}

/// A call of a function of the contract, whose types are known at compile time.
pub(crate) struct ContractCall<'a, P, R> {
    export: &'a ComponentExportIndex,
    params: P,
    returned: PhantomData<fn() -> R>,
}

impl<'a, P, R> ContractCall<'a, P, R> {
    pub fn new(export: &'a ComponentExportIndex, params: P) -> Self {
        Self { export, params, returned: PhantomData }
    }
}

impl<P, R> Call for ContractCall<'_, P, R>
where
    P: ComponentNamedList + Lower + Send + Sync,
    R: ComponentNamedList + Lift + Send + Sync + 'static,
{
    type Returned = R;

    async fn call(self, store: &mut Store<GuestState>, instance: Instance) -> wasmtime::Result<R> {
        let function = instance.get_typed_func::<P, R>(&mut *store, self.export)?;
        function.call_async(store, self.params).await
    }
}

/// A call of a function of arbitrary types.
pub(crate) struct PlainCall<'a> {
    pub function: &'a Function,
    pub arguments: Vec<Val>,
}

impl Call for PlainCall<'_> {
    /// `None` if the function has no result.
    type Returned = Option<Val>;

    async fn call(self, store: &mut Store<GuestState>, instance: Instance) -> wasmtime::Result<Option<Val>> {
        let Self { function, arguments } = self;
        let func = instance
            .get_func(&mut *store, function.index)
            .ok_or_else(|| wasmtime::Error::msg("the component lacks a function that it had"))?;
        // The call overwrites this value.
        let mut results = function.result.as_ref().map(|_| Val::Bool(false));
        func.call_async(store, &arguments, results.as_mut_slice()).await?;
        Ok(results)
    }
}

/// The order for a run.
pub(crate) struct Invocation<'a> {
    pub base: &'a PluginBase,
    pub limits: &'a Arc<Limits>,
    /// The limit of memory for which the reservation was made, in bytes.
    pub reserved: u64,
    /// The history of the first polls of such runs.
    pub first_polls: &'a FirstPolls,
    pub subject: Subject,
    /// Held until the run ends.
    pub reservation: Reservation,
    /// The journal of a run that can be repeated, and the code of such runs.
    pub journal: Option<(Arc<GuestJournal>, &'a JournalledCode)>,
}

/// Runs one exported function of a plugin, with all that its manifest grants.
pub(crate) async fn invoke<C: Call>(
    order: Invocation<'_>,
    call: C,
    context: &Arc<dyn RunContext>,
) -> RunOutcome<C::Returned> {
    if context.stopped() {
        return RunOutcome::Stopped;
    }
    let Invocation { base, limits, reserved, first_polls, subject, reservation: _reservation, journal } =
        order;
    // This precedes the start of the run's time, because a user may take any time to decide.
    match base.grants.permitted(context).await {
        Ok(()) => {}
        Err(NotPermitted { why: WhyNot::Stopped, .. }) => return RunOutcome::Stopped,
        Err(refused) => return RunOutcome::Failed(Failure::NotPermitted(refused)),
    }
    let engine = &*base.engine;
    let (meter, pre) = match &journal {
        None => (Arc::new(CpuMeter::new(limits.cpu)), &base.component.pre),
        Some((journal, code)) => (journal.meter(limits.cpu), &code.pre),
    };
    let _account = SpentReport { meter: &meter, context };
    let (function, is_tool): (Arc<str>, bool) = match subject {
        Subject::Tool(name) => (name, true),
        Subject::Function(name) => (name.into(), false),
    };
    let about = About {
        plugin: base.file.clone(),
        function: function.clone(),
        is_tool,
        grants: base.grants.clone(),
        limits: limits.clone(),
        schemas: engine.settings.schema_bounds(),
        network: engine.network.clone(),
        began: meter.born(),
    };
    let limiter =
        MemoryLimiter::new(limits, engine.budget.clone(), base.component.needs.within(reserved).prepaid());
    let state = match GuestState::new(limiter, context.clone(), about) {
        Ok(state) => match journal {
            None => state,
            Some((journal, _)) => state.recorded(journal),
        },
        Err(failure) => return RunOutcome::Failed(failure),
    };
    let call = pin!(guest(engine, pre, limits, &meter, state, call));
    match drive(engine, (&meter, first_polls), limits.wall, context, call).await {
        DriveEnd::Stopped => RunOutcome::Stopped,
        DriveEnd::OutOfTime => RunOutcome::Failed(Failure::Wall),
        DriveEnd::Done(Ok((value, mut refused))) => {
            let spent = meter.spent();
            refused.left = TimeLeft {
                cpu: limits.cpu.saturating_sub(spent.cpu),
                wall: limits.wall.saturating_sub(spent.wall),
            };
            RunOutcome::Returned(value, refused)
        }
        DriveEnd::Done(Err(broken)) => {
            let interrupted = matches!(broken.error.downcast_ref(), Some(Trap::Interrupt));
            if interrupted && context.stopped() {
                return RunOutcome::Stopped;
            }
            let failure = if interrupted && meter.is_over() {
                Failure::Cpu
            } else {
                Failure::of(&broken.error, broken.refused.growth, broken.entered)
                    .after(&broken.refused.network)
            };
            let error = base.grants.clean(format!("{:#}", broken.error));
            if failure == Failure::Host {
                tracing::warn!(
                    event = "run.failed", plugin = %base.file, tool = %function, error,
                    "cannot run tool"
                );
            } else {
                tracing::debug!(plugin = %base.file, tool = %function, error, "a run ended without a result");
            }
            for line in backtrace::of(&broken.error) {
                let line = base.grants.clean(line);
                tracing::info!(
                    target: "guest", event = "guest.log", plugin = %base.file, tool = %function,
                    stream = "trap",
                    "{line}"
                );
            }
            RunOutcome::Failed(failure)
        }
    }
}

/// The tools and prompts that a component lists.
#[derive(Default)]
pub(crate) struct ListedOffer {
    pub tools: ListedTools,
    pub prompts: ListedPrompts,
}

/// Lists the offer of a new component and checks that its functions have the types of the contract.
/// Nothing is granted, and each step has its own store.
pub(crate) async fn list(
    engine: &Engine,
    pre: &InstancePre<GuestState>,
    exports: &Exports,
    plugin: &Arc<str>,
) -> Result<ListedOffer, Refusal> {
    let mut listed = ListedOffer::default();
    let run = (engine, pre, plugin);
    if let Some(tools) = &exports.tools {
        listed.tools = run_ungranted(run, "list-tools", ContractCall::new(&tools.list, ())).await?;
    }
    if let Some(prompts) = &exports.prompts {
        listed.prompts = run_ungranted(run, "list-prompts", ContractCall::new(&prompts.list, ())).await?;
    }
    run_ungranted(run, START, TypeCheck(exports)).await?;
    Ok(listed)
}

/// Checks that the functions of a component have the types of the contract, and calls none.
struct TypeCheck<'a>(&'a Exports);

impl Call for TypeCheck<'_> {
    type Returned = ();

    async fn call(self, store: &mut Store<GuestState>, instance: Instance) -> wasmtime::Result<()> {
        self.0.check(store, instance)
    }
}

/// The name of the instantiation in errors.
const START: &str = "(instantiation)";

/// A run without a caller: it has no grants, and only its errors are heard.
async fn run_ungranted<C: Call>(
    (engine, pre, plugin): (&Engine, &InstancePre<GuestState>, &Arc<str>),
    function: &'static str,
    call: C,
) -> Result<C::Returned, Refusal> {
    let time = engine.settings.list_time;
    let limits = Arc::new(Limits { cpu: time, wall: time, ..engine.settings.limits.clone() });
    let meter = Arc::new(CpuMeter::new(limits.cpu));
    let about = About {
        plugin: plugin.clone(),
        function: function.into(),
        is_tool: false,
        grants: Arc::default(),
        limits: limits.clone(),
        schemas: engine.settings.schema_bounds(),
        network: engine.network.clone(),
        began: meter.born(),
    };
    let listing = Arc::new(Listing::default());
    let context: Arc<dyn RunContext> = listing.clone();
    let limiter = MemoryLimiter::new(&limits, engine.budget.clone(), 0);
    let state = GuestState::new(limiter, context.clone(), about)
        .map_err(|failure| Refusal::Internal(failure.sentence("component", &limits)))?;
    let call = pin!(guest(engine, pre, &limits, &meter, state, call));
    match drive(engine, (&meter, &FirstPolls::default()), limits.wall, &context, call).await {
        DriveEnd::Done(Ok((value, _))) => Ok(value),
        // Only a check follows the instantiation.
        DriveEnd::Done(Err(broken)) if broken.entered && function == START => {
            Err(Refusal::Contract(format!("{:#}", broken.error)))
        }
        DriveEnd::Done(Err(broken)) if !meter.is_over() => {
            Err(unlisted(function, &broken, &limits, listing.complaint()))
        }
        DriveEnd::Done(Err(_)) | DriveEnd::OutOfTime | DriveEnd::Stopped => {
            Err(Refusal::ListTime { function, limit: limits.wall })
        }
    }
}

fn unlisted(
    function: &'static str,
    broken: &FailedRun,
    limits: &Limits,
    complaint: Option<String>,
) -> Refusal {
    let mut why = match Failure::of(&broken.error, broken.refused.growth, broken.entered) {
        // The operator of the folder may see the full error.
        Failure::Host => format!("{:#}", broken.error),
        failure if function == START => failure.sentence("start of the component", limits),
        failure => failure.sentence(&format!("function `{function}`"), limits),
    };
    if let Some(complaint) = complaint {
        why.push_str(&format!("; before: {complaint}"));
    }
    Refusal::List { function, why }
}

fn store(engine: &Engine, limits: &Limits, meter: &Arc<CpuMeter>, state: GuestState) -> Store<GuestState> {
    let context = state.context.clone();
    let is_recorded = state.find_journal().is_some();
    let mut store = Store::new(&engine.wasm, state);
    match is_recorded {
        true => store.limiter_async(|run| &mut run.limiter),
        false => store.limiter(|run| &mut run.limiter),
    }
    store.set_hostcall_fuel(usize::try_from(limits.hostcall).unwrap_or(usize::MAX));
    // The handles of the host's table, and those that a component passes to itself.
    store.set_max_component_handles(limits.handles as usize);
    cpu_meter::arm(&mut store, &engine.scheduler, meter, &context);
    store
}

/// Calls an exported function in its own store. Also returns the refusals.
async fn guest<C: Call>(
    engine: &Engine,
    pre: &InstancePre<GuestState>,
    limits: &Limits,
    meter: &Arc<CpuMeter>,
    state: GuestState,
    call: C,
) -> Result<(C::Returned, Refusals), FailedRun> {
    let context = state.context.clone();
    let mut store = store(engine, limits, meter, state);
    let mut entered = false;
    let called = async {
        // A stop before the deadline was armed has advanced an epoch that this store did not check.
        if context.stopped() {
            return Err(Trap::Interrupt.into());
        }
        let instance = pre.instantiate_async(&mut store).await?;
        entered = true;
        call.call(&mut store, instance).await
    };
    let called = called.await;
    let limiter = &store.data().limiter;
    meter.had(limiter.memory());
    let refused = Refusals {
        growth: limiter.denied,
        network: store.data().network_reasons(),
        left: TimeLeft::default(),
    };
    match called {
        Ok(value) => Ok((value, refused)),
        Err(error) => Err(FailedRun { error, refused, entered }),
    }
}

/// Polls a guest's future to completion and counts the time. The epoch ticks only during the polls.
async fn drive<T>(
    engine: &Engine,
    (meter, first_polls): (&CpuMeter, &FirstPolls),
    wall: Duration,
    context: &Arc<dyn RunContext>,
    mut guest: Pin<&mut impl Future<Output = T>>,
) -> DriveEnd<T> {
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        // From the second poll on, the end of the run is checked before the guest is polled.
        // Otherwise a guest that wakes late could outlive its time.
        if let Some(timer) = &mut timer {
            if context.stopped() {
                return Poll::Ready(DriveEnd::Stopped);
            }
            if timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(DriveEnd::OutOfTime);
            }
        }
        let polled = {
            let _ticking = engine.ticker.ticking();
            meter.enter();
            let polled = guest.as_mut().poll(cx);
            let took = meter.leave();
            if timer.is_none() {
                first_polls.note(took);
            }
            polled
        };
        if let Poll::Ready(output) = polled {
            return Poll::Ready(DriveEnd::Done(output));
        }
        meter.rest();
        if timer.is_some() {
            return Poll::Pending;
        }
        let left = wall.saturating_sub(meter.born().elapsed());
        let timer = timer.insert(Box::pin(tokio::time::sleep(left)));
        timer.as_mut().poll(cx).map(|()| DriveEnd::OutOfTime)
    })
    .await
}
