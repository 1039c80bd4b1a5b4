//! `tools/call`: resolve, check, admit, run; as a plain call or as a task.

use crate::access::caller::Caller;
use crate::access::permit::CallPermit;
use crate::access::rules::Object;
use crate::call::reply::{CallReply, CreatedTask};
use crate::client::client_channel::ClientChannel;
use crate::observe::observer::{CallOutcome, Observation};
use crate::run::client::Client;
use crate::run::promotion::Promotion;
use crate::run::round_trip::RoundTrip;
use crate::run::run::Run;
use crate::run::setup::Setup;
use crate::run::task_run::SlotTurn;
use crate::slots::admission::{Slot, SlotRequest};
use crate::slots::stop::Stop;
use crate::{Dispatch, Fault};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::oneshot;
use toolyard_protocol::stateless::input::Retry;
use toolyard_protocol::tools::{CallParams, RequestedTtl, TaskSupport, text_result};
use toolyard_protocol::{RawJson, TraceContext};
use toolyard_task::audit::name_of;
use toolyard_task::task::Era;
use toolyard_task::tool::ArgumentCheck;
use toolyard_task::{Fence, RunEnd, Task};

/// A call, as a transport hands it over.
pub struct ToolCall {
    /// The params of the request.
    pub params: CallParams,
    /// The terms by which the call becomes a task and asks its client.
    pub terms: Terms,
    /// Stops a plain call (C-1).
    pub stop: Arc<Stop>,
    /// The channel for notices while it is a plain call.
    pub channel: Arc<dyn ClientChannel>,
    /// The channel for notices once it is a task.
    pub task_channel: Arc<dyn ClientChannel>,
}

/// The terms by which a call becomes a task, and how its client is asked meanwhile.
#[derive(Debug)]
pub enum Terms {
    /// The client asks for a task, and the host sends it requests (2025-11-25 and before).
    Sessions {
        /// Whether the client's revision has tasks (T-2).
        has_tasks: bool,
    },
    /// The host decides, and the client is asked by the answer to its request
    /// (2026-07-28).
    Stateless {
        /// Whether the request declares the tasks extension (26T-1).
        tasks: bool,
        /// The state and answers of an earlier round.
        retry: Retry,
    },
}

/// A call that its caller may make.
pub(crate) struct PermittedCall {
    pub permit: CallPermit,
    pub progress_token: Option<RawJson>,
    pub trace: Option<TraceContext>,
    pub stop: Arc<Stop>,
    pub channel: Arc<dyn ClientChannel>,
    pub task_channel: Arc<dyn ClientChannel>,
    pub observation: Option<Arc<Observation>>,
    /// Whether its arguments are known to fit; else its run checks them first.
    pub is_checked: bool,
}

impl PermittedCall {
    /// Checks its arguments, as far as may be done at once.
    pub fn check(&self) -> ArgumentCheck {
        let tool = self.permit.tool();
        let checked = tool.check(self.permit.arguments());
        if let ArgumentCheck::Misfit(_) = &checked {
            tool.count_invalid_arguments();
        }
        checked
    }
}

/// A call that has begun. The rare cases are boxed, so that they do not enlarge the state of each
/// call.
enum CallStart<'a> {
    Replied(CallReply),
    Plain(PlainCall),
    Boxed(BoxFuture<'a, Result<CallReply, Fault>>),
}

/// How the client of a plain call is asked by the answer to its request.
pub(crate) struct RoundTripSetup {
    pub round_trip: Box<RoundTrip>,
    pub may_be_task: bool,
}

/// A plain call under way.
pub(crate) struct PlainCall {
    pub run: Arc<Run>,
    pub slot: Slot,
    pub drive: BoxFuture<'static, RunEnd>,
    /// The news that it has become a task, if it may.
    pub became: Option<oneshot::Receiver<Task>>,
    /// Set when the request is cancelled.
    pub cancelled: Arc<Stop>,
}

/// How a call is a task from its beginning.
pub(crate) struct TaskOrigin {
    pub era: Era,
    pub ttl: RequestedTtl,
    pub round_trip: Option<Box<RoundTrip>>,
}

impl Dispatch {
    /// Calls a tool. A plain call that does not end in its first poll goes on
    /// even if this future is dropped (H-16): only `call.stop` ends it.
    ///
    /// # Errors
    /// [`Fault`]; nothing ran, no task exists.
    pub async fn call(self: &Arc<Self>, caller: &Caller, call: ToolCall) -> Result<CallReply, Fault> {
        let observation =
            self.deps.observers.observe(&caller.principal, &call.params.name, &call.params.arguments);
        let reply = match self.begin_call(caller, call, observation.clone()) {
            Ok(CallStart::Replied(reply)) => Ok(reply),
            Ok(CallStart::Plain(PlainCall { run, slot, drive, cancelled, .. })) => {
                let end = run.to_end(slot, drive).await.unwrap_or(RunEnd::Stopped);
                self.reply_to(&run, end, &cancelled).await
            }
            Ok(CallStart::Boxed(reply)) => reply.await,
            Err(fault) => Err(fault),
        };
        if let Some(observation) = observation {
            match &reply {
                Ok(reply) => reply.outcome().into_iter().for_each(|outcome| observation.end(outcome)),
                Err(fault) => observation.end(CallOutcome::Refused(fault)),
            }
        }
        reply
    }

    /// All of a call that waits for nothing.
    fn begin_call<'a>(
        self: &'a Arc<Self>,
        caller: &'a Caller,
        call: ToolCall,
        observation: Option<Arc<Observation>>,
    ) -> Result<CallStart<'a>, Fault> {
        if self.deps.slots.closing.is_set() {
            return Err(Fault::Closing);
        }
        let name = &call.params.name;
        let unknown = || Fault::UnknownTool(toolyard_protocol::error::clip(name, 128));
        // Before the name is looked up, so that nothing shows whether it exists.
        self.deps.access.check(caller, Object::Tool(name)).map_err(|denial| denial.or(unknown))?;
        let offer = self.deps.catalog.snapshot();
        let tool = offer.tool(name).ok_or_else(unknown)?;
        let permit = self.deps.access.permit_call(caller, tool, call.params.arguments.clone())?;
        offer.count_tool_call(name)?;
        drop(offer);
        let ToolCall { params, terms, stop, channel, task_channel } = call;
        let CallParams { name, task, progress_token, trace, .. } = params;
        let is_checked = true;
        let call = PermittedCall {
            permit,
            progress_token,
            trace,
            stop,
            channel,
            task_channel,
            observation,
            is_checked,
        };
        let has_tasks = match terms {
            Terms::Sessions { has_tasks } => has_tasks,
            Terms::Stateless { tasks, retry } => {
                return Ok(CallStart::Boxed(self.call_statelessly(caller, call, (tasks, retry)).boxed()));
            }
        };
        let tasks = self.deps.settings.tasks && has_tasks;
        // T-2: who was not offered tasks has the augmentation ignored.
        let augmented = if tasks { task } else { None };
        match (augmented, call.permit.tool().spec().task_support) {
            (Some(_), TaskSupport::Forbidden) => Err(Fault::TaskForbidden(name)),
            (None, TaskSupport::Required) if tasks => Err(Fault::TaskRequired(name)),
            (Some(ttl), _) => {
                let ttl = ttl.map_err(|error| Fault::InvalidParams(error.message))?;
                // T-14: what is wrong with the call is said before a task exists.
                let checked = call.check();
                let origin = TaskOrigin { era: Era::Sessions, ttl, round_trip: None };
                Ok(CallStart::Boxed(self.call_as_task_once_checked(caller, call, checked, origin).boxed()))
            }
            (None, _) => self.begin_plainly(caller, call),
        }
    }

    fn begin_plainly(
        self: &Arc<Self>,
        caller: &Caller,
        mut call: PermittedCall,
    ) -> Result<CallStart<'static>, Fault> {
        match call.check() {
            ArgumentCheck::Fits => {}
            // The model can mend this, so it is a result (TL-9).
            ArgumentCheck::Misfit(wrong) => {
                return Ok(CallStart::Replied(CallReply::Result(text_result(&wrong, true))));
            }
            ArgumentCheck::Unfinished => call.is_checked = false,
        }
        Ok(CallStart::Plain(self.begin_run(caller, call, None)?))
    }

    /// Sets up the run of a plain call; with what was asked and answered before where the
    /// client is asked by answers.
    pub(crate) fn begin_run(
        self: &Arc<Self>,
        caller: &Caller,
        call: PermittedCall,
        asking: Option<RoundTripSetup>,
    ) -> Result<PlainCall, Fault> {
        let PermittedCall {
            permit,
            progress_token,
            trace,
            stop: cancelled,
            channel,
            observation,
            is_checked,
            ..
        } = call;
        let request = SlotRequest::of_call(&permit);
        let work = request.work().clone();
        let mut slot = self.deps.slots.admission.admit(request).map_err(|full| self.deps.slots.busy(full))?;
        let may_be_task = asking.as_ref().is_some_and(|asking| asking.may_be_task);
        // A cancelled request must not stop the task that it may become (26H-13).
        let stop = if may_be_task { Arc::default() } else { cancelled.clone() };
        let client = Client::of(caller, permit.share().clone(), channel, progress_token.clone());
        let (promotion, became) = match may_be_task {
            true => {
                let (promotion, became) = Promotion::new(caller, &permit, progress_token);
                (Some(Box::new(promotion)), Some(became))
            }
            false => (None, None),
        };
        let setup = Setup {
            trace,
            observation,
            is_checked,
            round_trip: asking.map(|asking| asking.round_trip),
            promotion,
            ..Setup::new(work, stop, client)
        };
        let run = Run::new(self.deps.clone(), setup);
        let (tool, arguments) = permit.into_call();
        let drive = run.clone().drive_tool(tool, arguments, slot.take_reservation()).boxed();
        Ok(PlainCall { run, slot, drive, became, cancelled })
    }

    /// The reply for the end of a plain call.
    pub(crate) async fn reply_to(
        &self,
        run: &Run,
        end: RunEnd,
        cancelled: &Stop,
    ) -> Result<CallReply, Fault> {
        // C-1: who cancelled is answered no more, even if the guest took the hint and
        // returned before it was stopped.
        if cancelled.is_set() {
            return Err(self.stop_fault());
        }
        match (end, &run.round_trip) {
            (RunEnd::Result { result, .. }, _) => Ok(CallReply::Result(result)),
            (RunEnd::Error(error), _) => Ok(CallReply::Error(error)),
            (RunEnd::Stopped, Some(round_trip)) if round_trip.is_suspended() => {
                Ok(CallReply::InputRequired(Box::pin(round_trip.outcome(&self.deps)).await?))
            }
            (RunEnd::Stopped, _) => Err(self.stop_fault()),
        }
    }

    /// Why something was stopped.
    pub(crate) fn stop_fault(&self) -> Fault {
        if self.deps.slots.closing.is_set() { Fault::Closing } else { Fault::Cancelled }
    }

    pub(crate) async fn call_as_task(
        self: &Arc<Self>,
        caller: &Caller,
        call: PermittedCall,
        origin: TaskOrigin,
    ) -> Result<CallReply, Fault> {
        // An acknowledged task begins before a closing host is done, or the next host runs it.
        let _under_way = self.deps.slots.tracker.token();
        if self.deps.slots.closing.is_set() {
            return Err(Fault::Closing);
        }
        if caller.creates_for().is_none() {
            return Err(Fault::InvalidParams("A task needs a session that it can be found in".to_owned()));
        }
        let TaskOrigin { era, ttl, round_trip } = origin;
        self.cluster.recover_once().await?;
        let incarnation = self.deps.node.ensure_registered().await?;
        let request = SlotRequest::of_call(&call.permit);
        let work = request.work().clone();
        let admission = &self.deps.slots.admission;
        let turn = match admission.admit(request.clone()) {
            Ok(slot) => SlotTurn::Now(slot),
            Err(_) => {
                SlotTurn::Queued(admission.enqueue(request).map_err(|full| self.deps.slots.busy(full))?)
            }
        };
        let waiting = matches!(turn, SlotTurn::Queued(_));
        let fence = Fence { incarnation, attempt: 1 };
        let progress_token = call.progress_token.clone();
        let mut task = self.deps.new_task(caller, &call.permit, progress_token, fence, (era, ttl));
        if waiting {
            task.started_at = None;
            task.status_message = Some("Waiting for its turn; other calls are running.".to_owned());
        }
        let share = call.permit.share().clone();
        let mut client = Client::of(caller, share, call.task_channel, call.progress_token);
        if era == Era::Stateless {
            // Those of a session are the session's.
            client.capabilities = client.capabilities.detached();
        }
        let setup = Setup {
            trace: call.trace,
            observation: call.observation,
            is_checked: call.is_checked,
            round_trip,
            // A task is stopped as a task, not by the request that made it (C-3).
            ..Setup::new(work, Arc::default(), client)
        };
        let run = Run::new(self.deps.clone(), setup);
        let (task, guard) = self.deps.create_task(&run, task, caller, waiting).await?;
        let (tool, _) = call.permit.into_call();
        tracing::info!(
            event = "task.created", task = %task.id, tool = task.tool, owner = name_of(&task.owner),
            waiting,
            "task created"
        );
        let reply = match era {
            Era::Sessions => Ok(CallReply::Created(CreatedTask {
                view: task.view(),
                immediate_response: tool.spec().immediate_response.clone(),
                handover: None,
            })),
            Era::Stateless => self.created_reply(&task, &call.stop),
        };
        self.deps.slots.runs.tell_status(&task);
        self.deps.spawn_task(task, tool, run, turn, guard);
        reply
    }
}
