//! `tools/call`: resolve, check, admit, run; in line or as a task.

use crate::access::caller::Caller;
use crate::access::permit::Permit;
use crate::access::rules::Object;
use crate::call::reply::{CallReply, Created};
use crate::client::client_channel::Outlet;
use crate::observe::metrics::Measured;
use crate::observe::observer::{CallOutcome, Observation};
use crate::run::prospect::Prospect;
use crate::run::round_trip::Rounds;
use crate::run::run::{AsTask, Client, Run};
use crate::slots::admission::{Claim, Full, Slot, Ticket};
use crate::slots::registry::{RunGuard, Runs};
use crate::slots::stop::Stop;
use crate::slots::work::Work;
use crate::task::commit::Changed;
use crate::{Dispatch, Fault};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use toolyard_protocol::stateless::input::Retry;
use toolyard_protocol::tools::{CallParams, RequestedTtl, TaskSupport, text_result};
use toolyard_protocol::{RawJson, Timestamp};
use toolyard_task::audit::{By, Entry, name_of};
use toolyard_task::store::{CreateError, Quota, QuotaScope, StoreError};
use toolyard_task::task::Era;
use toolyard_task::tool::{Checked, Share};
use toolyard_task::{Durability, Event, Fence, Outcome, Owner, Refusal, RunEnd, Task, TaskId, Tool};

/// A call, as a transport hands it over.
pub struct ToolCall {
    /// What is called.
    pub params: CallParams,
    /// By which rules it becomes a task and asks its client.
    pub terms: Terms,
    /// Stops a plain call (C-1).
    pub stop: Arc<Stop>,
    /// Where notices go while it is a plain call.
    pub outlet: Arc<dyn Outlet>,
    /// Where notices go once it is a task.
    pub task_outlet: Arc<dyn Outlet>,
}

/// By which rules a call becomes a task, and how its client is asked meanwhile.
#[derive(Debug)]
pub enum Terms {
    /// The client asks for a task, and is asked by requests of ours (2025-11-25 and
    /// before).
    Sessions {
        /// Whether the client's revision has tasks (T-2).
        has_tasks: bool,
    },
    /// The host decides, and the client is asked by the answer to its request
    /// (2026-07-28).
    Stateless {
        /// Whether the request declares the tasks extension (26T-1).
        tasks: bool,
        /// What the client brings from an earlier round.
        retry: Retry,
    },
}

/// A call that its caller may make.
pub(crate) struct Permitted {
    pub params: CallParams,
    pub stop: Arc<Stop>,
    pub outlet: Arc<dyn Outlet>,
    pub task_outlet: Arc<dyn Outlet>,
    pub observation: Option<Arc<Observation>>,
    /// Held until it is answered.
    pub permit: Permit,
    /// Whether its arguments are known to fit; else its run checks them first.
    pub is_checked: bool,
}

/// A call that has begun. What most calls do without is apart, so that it is not part of
/// each one's state.
enum Begun<'a> {
    Replied(CallReply),
    Plain(Plain),
    Apart(BoxFuture<'a, Result<CallReply, Fault>>),
}

/// How the client of a plain call is asked by the answer to its request.
pub(crate) struct Asking {
    pub rounds: Box<Rounds>,
    pub may_be_task: bool,
}

/// A plain call under way.
pub(crate) struct Plain {
    pub run: Arc<Run>,
    pub slot: Slot,
    pub drive: BoxFuture<'static, RunEnd>,
    /// The news that it has become a task, if it may.
    pub became: Option<oneshot::Receiver<Task>>,
    /// Set when the request is cancelled.
    pub cancelled: Arc<Stop>,
    /// Held until it is answered.
    pub permit: Permit,
}

/// How a call is a task from its beginning.
pub(crate) struct Origin {
    pub era: Era,
    pub ttl: RequestedTtl,
    pub rounds: Option<Box<Rounds>>,
}

/// How a task comes by its slot.
pub(crate) enum Place {
    Slot(Slot),
    InLine(Ticket),
    /// After a pause it stands in line.
    After(Duration, Claim),
}

impl Dispatch {
    /// Calls a tool. A plain call that does not end in its first poll goes on
    /// even if this future is dropped (H-16): only `call.stop` ends it.
    ///
    /// # Errors
    /// [`Fault`]; nothing ran, no task exists.
    pub async fn call(self: &Arc<Self>, caller: &Caller, call: ToolCall) -> Result<CallReply, Fault> {
        let observation = self.observe(caller, &call.params);
        let reply = match self.begin_call(caller, call, observation.clone()) {
            Ok(Begun::Replied(reply)) => Ok(reply),
            Ok(Begun::Plain(plain)) => self.end_of(plain).await,
            Ok(Begun::Apart(reply)) => reply.await,
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
    ) -> Result<Begun<'a>, Fault> {
        if self.closing.is_set() {
            return Err(Fault::Closing);
        }
        let name = &call.params.name;
        let unknown = || Fault::UnknownTool(toolyard_protocol::error::clip(name, 128));
        // Before the name is looked up, so that nothing shows whether it exists.
        self.permit(caller, Object::Tool(name)).map_err(|denial| denial.or(unknown))?;
        let offer = self.offer.load();
        let tool = offer.tool(name).ok_or_else(unknown)?;
        let permit = self.permit_call(caller, &**tool, &call.params.arguments)?;
        offer.pace(name)?;
        drop(offer);
        let ToolCall { params, terms, stop, outlet, task_outlet } = call;
        let call = Permitted { params, stop, outlet, task_outlet, observation, permit, is_checked: true };
        let has_tasks = match terms {
            Terms::Sessions { has_tasks } => has_tasks,
            Terms::Stateless { tasks, retry } => {
                return Ok(Begun::Apart(self.call_statelessly(caller, tool, call, (tasks, retry)).boxed()));
            }
        };
        let name = || call.params.name.clone();
        let tasks = self.settings.tasks && has_tasks;
        // T-2: who was not offered tasks has the augmentation ignored.
        let augmented = if tasks { call.params.task.clone() } else { None };
        match (augmented, tool.spec().task_support) {
            (Some(_), TaskSupport::Forbidden) => Err(Fault::TaskForbidden(name())),
            (None, TaskSupport::Required) if tasks => Err(Fault::TaskRequired(name())),
            (Some(ttl), _) => {
                let ttl = ttl.map_err(|error| Fault::InvalidParams(error.message))?;
                // T-14: what is wrong with the call is said before a task exists.
                let checked = tool.check(&call.params.arguments);
                let origin = Origin { era: Era::Sessions, ttl, rounds: None };
                Ok(Begun::Apart(self.call_as_task_once_checked(caller, tool, call, checked, origin).boxed()))
            }
            (None, _) => self.begin_plainly(caller, tool, call),
        }
    }

    fn begin_plainly(
        self: &Arc<Self>,
        caller: &Caller,
        tool: Arc<Measured>,
        mut call: Permitted,
    ) -> Result<Begun<'static>, Fault> {
        match tool.check(&call.params.arguments) {
            Checked::Fits => {}
            Checked::Misfit(wrong) => {
                tool.misfit();
                // The model can mend this, so it is a result (TL-9).
                return Ok(Begun::Replied(CallReply::Result(text_result(&wrong, true))));
            }
            Checked::Unfinished => call.is_checked = false,
        }
        Ok(Begun::Plain(self.begin_run(caller, tool, call, None)?))
    }

    /// Sets up the run of a plain call; with what was asked and answered before where the
    /// client is asked by answers.
    pub(crate) fn begin_run(
        self: &Arc<Self>,
        caller: &Caller,
        tool: Arc<Measured>,
        call: Permitted,
        asking: Option<Asking>,
    ) -> Result<Plain, Fault> {
        let Permitted { params, stop: cancelled, outlet, observation, permit, is_checked, .. } = call;
        let work = Work::Tool(tool.clone());
        let share = self.share(caller);
        let claim = Claim { owner: share.account.clone(), work: work.clone() };
        let mut slot = self.admission.admit(claim).map_err(|full| self.busy(full))?;
        let may_be_task = asking.as_ref().is_some_and(|asking| asking.may_be_task);
        // What cancels the request must not stop the task that it may become (26H-13).
        let stop = if may_be_task { Arc::default() } else { cancelled.clone() };
        let client = client(caller, share, outlet, params.progress_token.clone());
        let mut run = Run::new(self.clone(), work, stop, client);
        (run.trace, run.recording) = self.trace(params.trace.clone(), &tool);
        run.observation = observation;
        run.is_checked = is_checked;
        run.rounds = asking.map(|asking| asking.rounds);
        let became = may_be_task.then(|| {
            let (prospect, became) = Prospect::new(caller, &tool, &params);
            run.prospect = Some(Box::new(prospect));
            became
        });
        let run = Arc::new(run);
        let drive = run.clone().drive_tool(tool, params.arguments, slot.room()).boxed();
        Ok(Plain { run, slot, drive, became, cancelled, permit })
    }

    async fn end_of(self: &Arc<Self>, plain: Plain) -> Result<CallReply, Fault> {
        let Plain { run, slot, drive, permit: _permit, .. } = plain;
        let end = self.to_end(&run, slot, drive).await.unwrap_or(RunEnd::Stopped);
        // C-1: who cancelled is answered no more, even if the guest took the hint and
        // returned before it was stopped.
        let end = if run.stop.is_set() { RunEnd::Stopped } else { end };
        match end {
            RunEnd::Result { result, .. } => Ok(CallReply::Result(result)),
            RunEnd::Error(error) => Ok(CallReply::Error(error)),
            RunEnd::Stopped if self.closing.is_set() => Err(Fault::Closing),
            RunEnd::Stopped => Err(Fault::Cancelled),
        }
    }

    /// Drives work that is no task to its end. Most of it ends in its first poll,
    /// without crossing a thread, if it may begin here; the rest goes on elsewhere even
    /// if this future is dropped. None if it was lost with its runtime.
    pub(crate) async fn to_end<T: Send + 'static>(
        self: &Arc<Self>,
        run: &Arc<Run>,
        slot: Slot,
        mut drive: BoxFuture<'static, T>,
    ) -> Option<T> {
        if run.begins_here()
            && let Some(end) = (&mut drive).now_or_never()
        {
            drop(slot);
            return Some(end);
        }
        let (tell, told) = oneshot::channel();
        let guard = Runs::register(self, None, run.registration(), false);
        tracing::debug!(of = run.work.name(), "call goes on after its first poll");
        let moved = async move {
            let end = drive.await;
            drop((guard, slot));
            // Nobody listens if the caller went away.
            drop(tell.send(end));
        };
        self.tracker.spawn_on(moved, &self.guests);
        told.await.ok()
    }

    pub(crate) async fn call_as_task(
        self: &Arc<Self>,
        caller: &Caller,
        tool: Arc<Measured>,
        call: Permitted,
        origin: Origin,
    ) -> Result<CallReply, Fault> {
        // What is acknowledged has begun by the time that a closing host is done, or is left
        // to the next one.
        let _under_way = self.tracker.token();
        if self.closing.is_set() {
            return Err(Fault::Closing);
        }
        if caller.creates_for().is_none() {
            return Err(Fault::InvalidParams("A task needs a session that it can be found in".to_owned()));
        }
        let Origin { era, ttl, rounds } = origin;
        let incarnation = self.incarnation().await?;
        let work = Work::Tool(tool.clone());
        let share = self.share(caller);
        let claim = Claim { owner: share.account.clone(), work: work.clone() };
        let place = match self.admission.admit(claim.clone()) {
            Ok(slot) => Place::Slot(slot),
            Err(_) => Place::InLine(self.admission.line_up(claim).map_err(|full| self.busy(full))?),
        };
        let waiting = matches!(place, Place::InLine(_));
        let fence = Fence { incarnation, attempt: 1 };
        let mut task = self.new_task(caller, &**tool, &call.params, fence, (era, ttl));
        if waiting {
            task.started_at = None;
            task.status_message = Some("Waiting for its turn; other calls are running.".to_owned());
        }
        let client = client(caller, share, call.task_outlet, call.params.progress_token);
        // A task is stopped as a task, not by the request that made it (C-3).
        let stop = Arc::new(Stop::default());
        let mut run = Run::new(self.clone(), work, stop, client);
        (run.trace, run.recording) = self.trace(call.params.trace, &tool);
        run.observation = call.observation.clone();
        run.is_checked = call.is_checked;
        run.rounds = rounds;
        if era == Era::Stateless {
            // Those of a session are the session's.
            run.capabilities = run.capabilities.detached();
        }
        run.is_task(&task);
        let run = Arc::new(run);
        self.make_room_for(&task).await?;
        // Registered before it is stored, so that a cancel which finds the record
        // finds the run as well.
        let guard = Runs::register(self, Some(task.id), run.registration(), waiting);
        let entry = Entry::created(&task, &caller.by());
        let created = self.stores.tasks.create(task, self.quota(), vec![entry]).await;
        let task = created.map_err(|error| self.not_created(error))?;
        guard.stored(incarnation);
        self.metrics.task_created();
        if let Some(observation) = call.observation {
            observation.is_task(task.id);
        }
        tracing::info!(task = %task.id, tool = task.tool, owner = name_of(&task.owner), waiting, "task created");
        let reply = match era {
            Era::Sessions => Ok(CallReply::Created(Created {
                view: task.view(),
                immediate_response: tool.spec().immediate_response.clone(),
                handover: None,
            })),
            Era::Stateless => self.created(&task, &call.stop),
        };
        self.runs.tell_status(&task);
        let this = self.clone();
        self.tracker.spawn_on(
            async move {
                this.run_task(task, tool, run, place, &guard).await;
                drop(guard);
            },
            &self.guests,
        );
        reply
    }

    /// A task that begins now, or is about to.
    pub(crate) fn new_task(
        &self,
        caller: &Caller,
        tool: &dyn Tool,
        params: &CallParams,
        fence: Fence,
        (era, requested_ttl): (Era, RequestedTtl),
    ) -> Task {
        let settings = &self.settings;
        let spec = tool.spec();
        let ttl_ms = match requested_ttl {
            RequestedTtl::Absent => settings.ttl_default_ms,
            RequestedTtl::Unlimited => settings.ttl_cap_ms,
            RequestedTtl::Milliseconds(ms) => ms,
        };
        let now = self.clock.now();
        Task {
            id: TaskId(self.ids.uuid()),
            owner: caller.creates_for().expect("looked at before anything was done"),
            session: caller.session.clone(),
            era,
            client_capabilities: caller.capabilities.clone(),
            tool: spec.name().to_owned(),
            digest: spec.digest.clone(),
            arguments: params.arguments.clone(),
            progress_token: params.progress_token.clone(),
            requested_ttl,
            ttl_ms: ttl_ms.min(settings.ttl_cap_ms),
            poll_interval_ms: spec.poll_interval_ms.unwrap_or(settings.poll_interval_ms),
            created_at: now,
            updated_at: now,
            status_message: None,
            version: 1,
            fence,
            started_at: Some(now),
            effects: false,
            rerun: spec.durability == Durability::Rerun,
            questions: Vec::new(),
            outcome: None,
        }
    }

    /// The life of a task after its creation, in one spawned future.
    pub(crate) async fn run_task(
        self: &Arc<Self>,
        task: Task,
        tool: Arc<Measured>,
        run: Arc<Run>,
        place: Place,
        guard: &RunGuard,
    ) {
        let as_task = run.as_task().expect("it was made one before it was spawned");
        let AsTask { id, fence, expires_at, .. } = as_task;
        let (arguments, mut slot) = match place {
            Place::Slot(slot) => (task.arguments.detached(), slot),
            Place::InLine(_) | Place::After(..) => {
                // What it was given may be large, and is in the store until its turn.
                drop(task);
                let slot = tokio::select! {
                    biased;
                    () = run.stop.wait() => return,
                    slot = Box::pin(self.slot_in_turn(place)) => slot,
                };
                let Some(slot) = slot else { return };
                if !guard.started() {
                    return run.stop.wait().await;
                }
                // Durable before the guest begins: a later reader must know that
                // it may have had effects.
                // Detached: while the run waits, the rest of the task is not kept for its arguments.
                match Box::pin(self.change_at_last(id, Event::Started { fence }, expires_at)).await {
                    Some(Changed::Done(task)) => (task.arguments.detached(), slot),
                    // By this run itself: the store had failed, and had written all the same.
                    Some(Changed::Refused(task, Refusal::AlreadyStarted)) if task.fence == fence => {
                        (task.arguments.detached(), slot)
                    }
                    _ => return,
                }
            }
        };
        // Apart, so that those who wait in line are small.
        let end = Box::pin(run.drive_tool(tool, arguments, slot.room())).await;
        Box::pin(self.finish_task(as_task, end)).await;
        drop(slot);
    }

    /// Waits for a slot.
    async fn slot_in_turn(&self, place: Place) -> Option<Slot> {
        let claim = match place {
            Place::Slot(slot) => return Some(slot),
            Place::InLine(ticket) => return ticket.slot().await,
            Place::After(pause, claim) => {
                tokio::time::sleep(pause).await;
                claim
            }
        };
        loop {
            match self.admission.line_up(claim.clone()) {
                Ok(ticket) => return ticket.slot().await,
                // The line of its plugin is full: it was accepted, so it waits before it.
                Err(_) => tokio::time::sleep(Duration::from_millis(self.settings.retry_after_ms)).await,
            }
        }
    }

    /// Writes down what a task came to.
    pub(crate) async fn finish_task(&self, task: AsTask, end: RunEnd) {
        let AsTask { id, fence, expires_at, .. } = task;
        let (outcome, message) = match end {
            RunEnd::Result { is_error, result, message } => (Outcome::Result { is_error, result }, message),
            RunEnd::Error(error) => {
                let message = error.message.clone();
                (Outcome::Error(error), Some(message))
            }
            RunEnd::Stopped => {
                // Whoever stopped it has decided what the task came to.
                tracing::info!(task = %id, "run stopped; its guest is gone");
                return;
            }
        };
        let finished = Event::Finished { fence, outcome, message };
        match self.change_at_last(id, finished, expires_at).await {
            Some(Changed::Done(task)) => {
                tracing::info!(task = %id, tool = task.tool, status = task.status().as_str(), "task ended");
            }
            Some(Changed::Refused(task, refusal)) => {
                tracing::debug!(task = %id, status = task.status().as_str(), %refusal, "a late result was dropped");
            }
            Some(Changed::Gone) | None => {}
        }
    }

    /// Applies an event of a run, and goes on trying while the store is out of
    /// reach, until the task's time is up.
    async fn change_at_last(&self, id: TaskId, event: Event, until: Timestamp) -> Option<Changed> {
        let mut pause = Duration::from_millis(20);
        loop {
            match self.change(id, &event, &By::host()).await {
                Ok(changed) => return Some(changed),
                Err(error) => {
                    log_store_failure(id, &error);
                    if self.clock.now() >= until {
                        return None;
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(5));
                }
            }
        }
    }

    /// On whose account a caller's runs compute.
    pub(crate) fn share(&self, caller: &Caller) -> Share {
        Share { account: caller.account(), weight: self.policy().weights.of(&caller.principal) }
    }

    pub(crate) const fn quota(&self) -> Quota {
        let bounds = &self.settings.admission;
        Quota {
            per_owner: bounds.running_per_principal + bounds.waiting_per_principal,
            in_all: self.settings.live_tasks,
        }
    }

    pub(crate) fn busy(&self, full: Full) -> Fault {
        let bounds = &self.settings.admission;
        let (what, limit) = match full {
            Full::Host => (format!("this host runs {} calls, its most", bounds.running), "calls.running"),
            Full::Principal => (
                format!(
                    "{} of your calls are running, the most for one principal",
                    bounds.running_per_principal
                ),
                "calls.running-per-principal",
            ),
            Full::Plugin => (
                "as many calls of this plugin are running as its manifest allows".to_owned(),
                "limits.concurrency",
            ),
            Full::Queue(most) => (
                format!(
                    "{most} tasks of this plugin are waiting for their turn, as many as its manifest allows"
                ),
                "limits.queue",
            ),
            Full::Room(shortage) => (shortage.to_string(), shortage.setting()),
        };
        Fault::Busy { what, limit, retry_after_ms: self.settings.retry_after_ms }
    }

    pub(crate) fn not_created(&self, error: CreateError) -> Fault {
        match error {
            CreateError::Store(error) => Fault::Store(error),
            CreateError::Full { scope, .. } => Fault::Busy {
                what: error.to_string(),
                limit: match scope {
                    QuotaScope::Owner => "tasks.waiting-per-principal",
                    QuotaScope::Store => "tasks.live",
                },
                retry_after_ms: self.settings.retry_after_ms,
            },
        }
    }
}

/// The client of a run, from who calls.
pub(crate) fn client(
    caller: &Caller,
    share: Share,
    outlet: Arc<dyn Outlet>,
    progress_token: Option<RawJson>,
) -> Client {
    Client {
        share,
        outlet,
        session: caller.session.clone(),
        // Nobody would know an anonymous client again.
        owner: caller.creates_for().filter(|owner| *owner != Owner::Anyone),
        by: caller.by(),
        name: caller.principal.to_string(),
        capabilities: caller.capabilities.clone(),
        // For as long as it runs or waits; what it was cut from is not kept for it.
        progress_token: progress_token.map(|token| token.detached()),
    }
}

fn log_store_failure(id: TaskId, error: &StoreError) {
    tracing::error!(task = %id, error = error as &dyn std::error::Error, "the task store failed; trying again");
}
