//! `tools/call`: resolve, check, admit, run; as a plain call or as a task.

use crate::access::caller::Caller;
use crate::access::permit::CallPermit;
use crate::access::rate_limit::{Operation, RateKey};
use crate::access::rules::Object;
use crate::application::Dispatch;
use crate::bridge::QUEUED;
use crate::call::reply::{CallReply, CreatedTask};
use crate::client::client_channel::ClientChannel;
use crate::error::Fault;
use crate::observe::metrics::MeasuredTool;
use crate::observe::observer::{CallOutcome, Observation};
use crate::run::begin::NewTaskTerms;
use crate::run::client::Client;
use crate::run::promotion::promote::{EndOrTask, PromotionWait};
use crate::run::promotion::{BridgedPromotion, Promotion};
use crate::run::questions::round_trip::RoundTrip;
use crate::run::run::{CheckedTool, Run};
use crate::run::setup::Setup;
use crate::run::task_run::SlotTurn;
use crate::settings::bridge::BridgeTerms;
use crate::slots::admission::{LimitReached, Slot, SlotRequest};
use crate::slots::stop::Stop;
use crate::slots::work::RunTarget;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::stateless::input::Retry;
use toolyard_protocol::tools::{CallParams, RequestedTtl, TaskSupport, text_result};
use toolyard_protocol::{RawJson, TraceContext};
use toolyard_task::audit::name_of;
use toolyard_task::task::{Bridged, Era};
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
    /// The key under which its caller's operations are counted.
    pub rate_key: RateKey,
}

/// The terms by which a call becomes a task, and how its client is asked meanwhile.
#[derive(Debug)]
pub enum Terms {
    /// The client asks for a task, and the host sends it requests (2025-11-25 and before).
    Sessions {
        /// Whether the client's revision has tasks (T-2).
        has_tasks: bool,
        /// Present if the client knows no tasks, so that its long calls are handed off.
        bridge: Option<BridgeTerms>,
    },
    /// The host decides, and the client is asked by the answer to its request
    /// (2026-07-28).
    Stateless {
        /// Whether the request declares the tasks extension (26T-1).
        tasks: bool,
        /// Present if the client knows no tasks, so that its long calls are handed off. A name in the request
        /// itself decides nothing (26R-5).
        bridge: Option<BridgeTerms>,
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
    pub rate_key: RateKey,
    pub observation: Option<Arc<Observation>>,
    /// Whether its arguments are known to fit; else its run checks them first.
    pub is_checked: bool,
}

impl PermittedCall {
    /// Whether it is a task from its beginning: its tool wants that, or it waits for an approval.
    pub fn begins_as_task(&self) -> bool {
        let support = self.permit.tool().spec().task_support;
        support == TaskSupport::Required || self.permit.unapproved().is_some()
    }

    /// Checks its arguments, as far as can be done at once.
    pub fn check(&self) -> ArgumentCheck {
        let tool = self.permit.tool();
        let checked = tool.check(self.permit.arguments());
        if let ArgumentCheck::Misfit(_) = &checked {
            tool.invalid.inc();
        }
        checked
    }

    /// The reply to a call whose arguments do not fit. If this cannot be told at once, the run checks them.
    pub fn refuse_misfit(&mut self) -> Option<CallReply> {
        let checked = self.check();
        self.is_checked = !matches!(checked, ArgumentCheck::Unfinished);
        match checked {
            // The model can mend this, so it is a result (TL-9).
            ArgumentCheck::Misfit(wrong) => Some(CallReply::Result(text_result(&wrong, true))),
            ArgumentCheck::Fits | ArgumentCheck::Unfinished => None,
        }
    }
}

/// A call that has begun. The rare cases are boxed, so that they do not enlarge the state of each
/// call.
enum CallStart<'a> {
    Replied(CallReply),
    Plain(PlainCall),
    Boxed(BoxFuture<'a, Result<CallReply, Fault>>),
}

/// A plain call under way.
pub(crate) struct PlainCall {
    pub run: Arc<Run>,
    pub slot: Slot,
    pub drive: BoxFuture<'static, RunEnd>,
    /// Present if it may become a task.
    pub promotion: Option<PromotionWait>,
    /// Set when the request is cancelled.
    pub cancelled: Arc<Stop>,
}

/// How a plain call may become a task.
pub(crate) enum MayBeTask {
    /// The call may not become a task.
    No,
    /// The call may become a task after this time. Its client learns of the task by the answer.
    Created(Duration),
    /// The client knows no tasks, so the bridge hands the call off.
    HandedOff(BridgeTerms),
}

/// How a call is a task from its beginning.
pub(crate) struct TaskOrigin {
    pub era: Era,
    pub ttl: RequestedTtl,
    pub round_trip: Option<Box<RoundTrip>>,
    /// Whether its client knows no tasks.
    pub is_bridged: bool,
}

impl Dispatch {
    /// Calls a tool. A plain call that does not end in its first poll goes on
    /// even if this future is dropped (H-16): only `call.stop` ends it.
    ///
    /// # Errors
    /// [`Fault`]; then nothing has run, and no task exists.
    pub async fn call(self: &Arc<Self>, caller: &Caller, call: ToolCall) -> Result<CallReply, Fault> {
        let call = match self.deps.settings.tool_search {
            true => match self.search_or_name(caller, call) {
                Ok(call) => call,
                Err(result) => return Ok(CallReply::Result(result)),
            },
            false => call,
        };
        let observation =
            self.deps.observers.observe(&caller.principal, &call.params.name, &call.params.arguments);
        // For the log, so it costs nothing where the log is off.
        let name = tracing::enabled!(tracing::Level::INFO).then(|| call.params.name.clone());
        if self.deps.catalog.is_loading() {
            self.wait_for_tool(&call).await;
        }
        let reply = match self.begin_call(caller, call, observation.clone()) {
            Ok(CallStart::Replied(reply)) => Ok(reply),
            Ok(CallStart::Plain(plain)) => self.drive(caller, plain).await,
            Ok(CallStart::Boxed(reply)) => reply.await,
            Err(fault) => Err(fault),
        };
        if let (Err(fault), Some(name)) = (&reply, &name) {
            self.log_refusal(caller, name, fault);
        }
        let reply = match reply {
            // The model can read this and tell its user, so it is a result.
            Err(fault @ (Fault::NeedsApproval { .. } | Fault::NeverApproved(_))) => {
                Ok(CallReply::Result(text_result(&fault.to_string(), true)))
            }
            reply => reply,
        };
        if let Some(observation) = observation {
            match &reply {
                Ok(reply) => reply.outcome().into_iter().for_each(|outcome| observation.end(outcome)),
                Err(fault) => observation.end(CallOutcome::Refused(fault)),
            }
        }
        reply
    }

    /// Logs that a call was not accepted, unless `log.rate` is reached.
    fn log_refusal(&self, caller: &Caller, tool: &str, fault: &Fault) {
        if self.may_log() {
            tracing::info!(
                event = "call.refused",
                tool = toolyard_protocol::visible::clip(tool, 128),
                principal = %caller.principal,
                reason = %fault,
                "call refused"
            );
        }
    }

    /// The part of a call that waits for nothing.
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
        let unknown = || {
            let name = toolyard_protocol::visible::clip(name, 128);
            match self.deps.catalog.is_loading() {
                true => Fault::UnknownTool(format!(
                    "{name}; a component is still being compiled, so try again soon"
                )),
                false => Fault::UnknownTool(name),
            }
        };
        let offer = self.deps.catalog.snapshot();
        if let Some((tool, terms)) = self.host_tool(&offer, name, &call.terms) {
            return Ok(CallStart::Boxed(self.call_host_tool(caller, tool, call, terms).boxed()));
        }
        // Before the name is looked up, so that nothing shows whether it exists.
        self.deps.access.check(caller, Object::Tool(name)).map_err(|denial| denial.or(unknown))?;
        let tool = offer.tool(name).ok_or_else(unknown)?;
        let permit = self.deps.access.permit_call(caller, tool, call.params.arguments.clone())?;
        offer.count_tool_call(name)?;
        drop(offer);
        let ToolCall { params, terms, stop, channel, task_channel, rate_key } = call;
        let CallParams { name, task, progress_token, trace, .. } = params;
        let is_checked = true;
        let call = PermittedCall {
            permit,
            progress_token,
            trace,
            stop,
            channel,
            task_channel,
            rate_key,
            observation,
            is_checked,
        };
        let (has_tasks, bridge) = match terms {
            Terms::Sessions { has_tasks, bridge } => (has_tasks, bridge),
            Terms::Stateless { tasks, bridge, retry } => {
                let how = (tasks, bridge, retry);
                return Ok(CallStart::Boxed(self.call_statelessly(caller, call, how).boxed()));
            }
        };
        let tasks = self.deps.settings.tasks && has_tasks;
        // T-2: the augmentation is ignored for a client that was not offered tasks.
        let augmented = if tasks { task } else { None };
        let support = call.permit.tool().spec().task_support;
        let bridge = bridge.filter(|_| self.deps.settings.tasks && support != TaskSupport::Forbidden);
        match (augmented, bridge, support) {
            (None, Some(terms), _) => self.begin_bridged(caller, call, terms),
            (Some(_), _, TaskSupport::Forbidden) => Err(Fault::TaskForbidden(name)),
            (None, None, TaskSupport::Required) if tasks => Err(Fault::TaskRequired(name)),
            (Some(ttl), ..) => {
                let ttl = ttl.map_err(|error| Fault::InvalidParams(error.message))?;
                // T-14: faults of the call are reported before a task exists.
                let checked = call.check();
                let origin = TaskOrigin { era: Era::Sessions, ttl, round_trip: None, is_bridged: false };
                Ok(CallStart::Boxed(self.call_as_task_once_checked(caller, call, checked, origin).boxed()))
            }
            (None, None, _) => self.begin_plainly(caller, call),
        }
    }

    fn begin_plainly(
        self: &Arc<Self>,
        caller: &Caller,
        mut call: PermittedCall,
    ) -> Result<CallStart<'static>, Fault> {
        if let Some(reply) = call.refuse_misfit() {
            return Ok(CallStart::Replied(reply));
        }
        let slot = self.admit(&call)?;
        Ok(CallStart::Plain(self.begin_run(caller, call, slot, None, MayBeTask::No)))
    }

    /// Begins a plain call of a client that knows no tasks.
    fn begin_bridged<'a>(
        self: &'a Arc<Self>,
        caller: &'a Caller,
        mut call: PermittedCall,
        terms: BridgeTerms,
    ) -> Result<CallStart<'a>, Fault> {
        if let Some(reply) = call.refuse_misfit() {
            return Ok(CallStart::Replied(reply));
        }
        let spec = call.permit.tool().spec();
        let terms = self.deps.tasks.timeouts.limit(terms.of_tool(spec), &call.rate_key);
        if call.begins_as_task() || !self.deps.tasks.rejoin.is_empty() {
            return Ok(CallStart::Boxed(self.call_bridged(caller, call, terms, None).boxed()));
        }
        Ok(match self.admit_or_queue(&call)? {
            Some(slot) => {
                CallStart::Plain(self.begin_run(caller, call, slot, None, MayBeTask::HandedOff(terms)))
            }
            None => CallStart::Boxed(self.call_as_bridged_task(caller, call, terms, None).boxed()),
        })
    }

    /// A slot for this call, now.
    pub(crate) fn admit(&self, call: &PermittedCall) -> Result<Slot, Fault> {
        let slots = &self.deps.slots;
        slots.admission.admit(self.slot_request(call)?).map_err(|full| slots.busy(full))
    }

    /// The request for a slot. Fails for a call that needs an approval: only a task can wait for it.
    fn slot_request(&self, call: &PermittedCall) -> Result<SlotRequest, Fault> {
        SlotRequest::of_call(&call.permit).map_err(|_unapproved| {
            let spec = call.permit.tool().spec();
            let may_be_task = self.deps.settings.tasks && spec.task_support != TaskSupport::Forbidden;
            Fault::NeedsApproval { tool: spec.name().to_owned(), may_be_task }
        })
    }

    /// A slot for a call that may be a task. `None` if it waits for its turn as a task.
    pub(crate) fn admit_or_queue(&self, call: &PermittedCall) -> Result<Option<Slot>, Fault> {
        let slots = &self.deps.slots;
        let full = match slots.admission.admit(self.slot_request(call)?) {
            Ok(slot) => return Ok(Some(slot)),
            Err(full) => full,
        };
        let passes = match full {
            LimitReached::Host | LimitReached::Principal | LimitReached::Plugin => true,
            LimitReached::Reservation(shortage) => !shortage.is_for_ever(),
            LimitReached::Queue(_) => false,
        };
        if !passes || !self.deps.settings.queue_when_busy {
            return Err(slots.busy(full));
        }
        self.deps.access.count_operation(&call.rate_key, Operation::Creation)?;
        self.deps.observers.metrics.count_queued(full.setting());
        Ok(None)
    }

    /// Sets up the run of a plain call, with the earlier questions and answers of a client that is asked in answers.
    pub(crate) fn begin_run(
        self: &Arc<Self>,
        caller: &Caller,
        call: PermittedCall,
        mut slot: Slot,
        round_trip: Option<Box<RoundTrip>>,
        may_be_task: MayBeTask,
    ) -> PlainCall {
        let PermittedCall {
            permit,
            progress_token,
            trace,
            stop: cancelled,
            channel,
            task_channel,
            observation,
            is_checked,
            rate_key,
        } = call;
        // A cancelled request must not stop the task that it may become (26H-13).
        let stop = match may_be_task {
            MayBeTask::No => cancelled.clone(),
            MayBeTask::Created(_) | MayBeTask::HandedOff(_) => Arc::default(),
        };
        let client = Client::of(caller, permit.share().clone(), channel, progress_token.clone());
        let how = match may_be_task {
            MayBeTask::No => None,
            MayBeTask::Created(inline_for) => Some((inline_for, None)),
            MayBeTask::HandedOff(terms) => Some((terms.after, Some(terms))),
        };
        let (promotion, wait) = how
            .map(|(inline_for, bridge)| {
                let bridged = bridge.map(|terms| {
                    let client = (rate_key, terms.name_hash);
                    BridgedPromotion::new(era_of(round_trip.as_deref()), client, task_channel)
                });
                let (promotion, became) = Promotion::new(caller, &permit, progress_token, bridged);
                (Box::new(promotion), PromotionWait { became, inline_for, bridge })
            })
            .unzip();
        let setup = Setup {
            trace,
            observation,
            round_trip,
            promotion,
            ..Setup::new(RunTarget::Tool(permit.tool().clone()), stop, client)
        };
        let run = Run::new(self.deps.clone(), setup);
        let (tool, arguments) = permit.into_call();
        let drive = run
            .clone()
            .drive_tool(CheckedTool { tool, is_checked }, arguments, slot.take_reservation())
            .boxed();
        PlainCall { run, slot, drive, promotion: wait, cancelled }
    }

    /// Drives a call to its end, or until it is a task.
    pub(crate) async fn drive(
        self: &Arc<Self>,
        caller: &Caller,
        mut plain: PlainCall,
    ) -> Result<CallReply, Fault> {
        let Some(wait) = plain.promotion.take() else {
            let PlainCall { run, slot, drive, cancelled, .. } = plain;
            let end = run.to_end(slot, drive, true).await.unwrap_or(RunEnd::Stopped);
            return self.reply_to(&run, end, &cancelled).await;
        };
        match plain.first_poll() {
            Some(end) if !plain.cancelled.is_set() => {
                return self.reply_to(&plain.run, end, &plain.cancelled).await;
            }
            // An equal call may get this end.
            Some(end) => plain.drive = std::future::ready(end).boxed(),
            None => {}
        }
        Box::pin(self.drive_to_end_or_task(caller, plain, wait)).await
    }

    async fn drive_to_end_or_task(
        self: &Arc<Self>,
        caller: &Caller,
        plain: PlainCall,
        wait: PromotionWait,
    ) -> Result<CallReply, Fault> {
        let PlainCall { run, slot, drive, cancelled, .. } = plain;
        let bridge = wait.bridge;
        // The next request of the client may be the equal call.
        let _expected = bridge.map(|terms| run.expected_on_stop(&cancelled, terms));
        match (run.to_end_or_task(wait, &cancelled, slot, drive).await, bridge) {
            (EndOrTask::End(end), _) => {
                if let Some(terms) = bridge {
                    run.keep_end(&end, &cancelled, terms).await;
                }
                self.reply_to(&run, end, &cancelled).await
            }
            (EndOrTask::Task(promoted), None) => self.created_reply(&promoted.task, &cancelled),
            (EndOrTask::Task(promoted), Some(terms)) => {
                self.reply_to_promoted(caller, &run, *promoted, &cancelled, terms).await
            }
        }
    }

    /// The reply for the end of a plain call.
    pub(crate) async fn reply_to(
        &self,
        run: &Run,
        end: RunEnd,
        cancelled: &Stop,
    ) -> Result<CallReply, Fault> {
        // C-1: a cancelled request gets no answer, even if the guest reacted and returned before it was
        // stopped.
        if cancelled.is_set() {
            return Err(self.stop_fault());
        }
        match (end, &run.questions.round_trip) {
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
        let (era, stop) = (origin.era, call.stop.clone());
        // An acknowledged task begins before a closing host is done, or the next host runs it.
        let _under_way = self.deps.slots.tracker.token();
        let (task, tool) = self.begin_task(caller, call, origin).await?;
        match era {
            Era::Sessions => Ok(CallReply::Created(CreatedTask {
                view: task.view(),
                immediate_response: tool.spec().immediate_response.clone(),
                handover: None,
            })),
            Era::Stateless => self.created_reply(&task, &stop),
        }
    }

    /// Makes a call a task, which begins when it gets a slot.
    pub(crate) async fn begin_task(
        self: &Arc<Self>,
        caller: &Caller,
        call: PermittedCall,
        origin: TaskOrigin,
    ) -> Result<(Task, Arc<MeasuredTool>), Fault> {
        if self.deps.slots.closing.is_set() {
            return Err(Fault::Closing);
        }
        if caller.creates_for().is_none() {
            return Err(Fault::InvalidParams("A task needs a session that it can be found in".to_owned()));
        }
        let TaskOrigin { era, ttl, round_trip, is_bridged } = origin;
        self.cluster.recover_once().await?;
        let incarnation = self.deps.node.ensure_registered().await?;
        let work = RunTarget::Tool(call.permit.tool().clone());
        let admission = &self.deps.slots.admission;
        let turn = match SlotRequest::of_call(&call.permit) {
            Err(unapproved) => SlotTurn::Approval(unapproved),
            Ok(request) => match admission.admit(request.clone()) {
                Ok(slot) => SlotTurn::Now(slot),
                Err(_) => {
                    SlotTurn::Queued(admission.enqueue(request).map_err(|full| self.deps.slots.busy(full))?)
                }
            },
        };
        let waiting = !matches!(turn, SlotTurn::Now(_));
        let fence = Fence { incarnation, attempt: 1 };
        let progress_token = call.progress_token.clone();
        let undelivered = caller.rejoins_as().is_some();
        let bridged = is_bridged.then_some(Bridged { waited_ms: 0, undelivered });
        let terms = NewTaskTerms { era, requested_ttl: ttl, bridged };
        let mut task = self.deps.new_task(caller, &call.permit, progress_token, fence, terms);
        if waiting {
            task.started_at = None;
            task.status_message = Some(match &task.approval {
                Some(approval) => approval.status_message(),
                None => {
                    let running = admission.running_of_account(&call.permit.share().account);
                    format!("{QUEUED}; {running} of your calls are running.")
                }
            });
        }
        let share = call.permit.share().clone();
        let mut client = Client::of(caller, share, call.task_channel, call.progress_token);
        if era == Era::Stateless {
            // The capabilities of a session belong to the session.
            client.capabilities = client.capabilities.detached();
        }
        let setup = Setup {
            trace: call.trace,
            observation: call.observation,
            round_trip,
            // A task is stopped as a task, not by the request that made it (C-3).
            ..Setup::new(work, Arc::default(), client)
        };
        let run = Run::new(self.deps.clone(), setup);
        let (task, guard) = self.deps.create_task(&run, task, &caller.by(), waiting).await?;
        let is_checked = call.is_checked;
        let (tool, _) = call.permit.into_call();
        tracing::info!(
            event = "task.created", task = %task.id, tool = task.tool, owner = name_of(&task.owner),
            waiting,
            "task created"
        );
        self.deps.slots.runs.tell_status(&task);
        let checked = CheckedTool { tool: tool.clone(), is_checked };
        self.deps.spawn_task(task.clone(), checked, run, turn, guard);
        Ok((task, tool))
    }
}

/// The rules by which a task asks its client: stateless clients are asked in rounds.
pub(crate) fn era_of(round_trip: Option<&RoundTrip>) -> Era {
    if round_trip.is_some() { Era::Stateless } else { Era::Sessions }
}

impl PlainCall {
    /// The end of a call that ends in its first poll and has not become a task.
    fn first_poll(&mut self) -> Option<RunEnd> {
        if !self.run.work.is_quick() {
            return None;
        }
        let end = (&mut self.drive).now_or_never()?;
        if self.run.task().is_none() {
            return Some(end);
        }
        // It became a task and ended in its first poll; the end is written like any other.
        self.drive = std::future::ready(end).boxed();
        None
    }
}
