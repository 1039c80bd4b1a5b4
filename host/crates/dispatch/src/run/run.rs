//! A run of a tool, and the loop that drives it.

mod context;

use crate::observe::call_end::CallEnd;
use crate::observe::event::RunEvent;
use crate::observe::metrics::MeasuredTool;
use crate::observe::run_sinks::RunSinks;
use crate::run::as_task::RunTask;
use crate::run::client::Client;
use crate::run::deps::RunDeps;
use crate::run::journal::TaskJournal;
use crate::run::journal_sink::JournalSink;
use crate::run::promotion::{BridgedPromotion, Promotion};
use crate::run::questions::Questions;
use crate::run::questions::pending::KEYS;
use crate::run::setup::Setup;
use crate::run::view::RunView;
use crate::run::voice::Voice;
use crate::slots::admission::Slot;
use crate::slots::heartbeat::Heartbeat;
use crate::slots::registry::Registration;
use crate::slots::stop::Stop;
use crate::slots::work::RunTarget;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;
use toolyard_protocol::ClientCapabilities;
use toolyard_protocol::tools::text_result;
use toolyard_task::tool::{ArgumentCheck, CheckOrder, JournalTerms};
use toolyard_task::wire::error::URL_ELICITATION_REQUIRED;
use toolyard_task::wire::{RawJson, RpcError};
use toolyard_task::{Durability, Reservation, RunEnd, Task};

/// A run, from the moment that it is set up.
pub(crate) struct Run {
    pub deps: Arc<RunDeps>,
    pub work: RunTarget,
    pub stop: Arc<Stop>,
    pub client: Client,
    /// The task that it works on; a plain call has none, unless it becomes one.
    as_task: OnceLock<RunTask>,
    /// The parts that it needs to become a task, if it may.
    pub promotion: Option<Box<Promotion>>,
    pub voice: Voice,
    pub questions: Questions,
    /// The journal, if it works on a task that resumes, or may become one.
    journal: OnceLock<Arc<TaskJournal>>,
}

/// How driven work ended.
pub(crate) enum DriveEnd<T> {
    /// By itself.
    Done(T),
    /// By a panic of the engine.
    Panicked,
    /// The work was stopped.
    Stopped,
    /// The run has to wait for its client's next request.
    Suspended,
    /// The task of the run waits without a run.
    Parked,
}

/// The tool of a run, and whether the arguments are known to fit it; else the run checks them before the guest begins.
pub(crate) struct CheckedTool {
    pub tool: Arc<MeasuredTool>,
    pub is_checked: bool,
}

impl Run {
    /// Sets a run up. This is the only place that does, so that every run is observed and traced.
    pub fn new(deps: Arc<RunDeps>, setup: Setup) -> Arc<Self> {
        let Setup { work, stop, client, trace, observation, round_trip, promotion, asks_permission } = setup;
        let tool = match &work {
            RunTarget::Tool(tool) => Some(tool),
            RunTarget::Provider(_) => None,
        };
        let timeline = deps.tasks.timeline.clone();
        let sinks = RunSinks::new(&deps.observers, tool, (trace, observation), timeline, || deps.clock.now());
        let resumes = tool.filter(|tool| tool.spec().durability == Durability::Resume);
        let journal = match (resumes, &promotion) {
            (Some(tool), Some(_)) => {
                let sink = JournalSink::of_call(deps.clone(), tool.spec().journal);
                OnceLock::from(Arc::new(TaskJournal::new(deps.clone(), sink)))
            }
            _ => OnceLock::new(),
        };
        Arc::new(Self {
            deps,
            stop,
            client,
            as_task: OnceLock::new(),
            promotion,
            voice: Voice::new(sinks, work.bounds()),
            questions: Questions::new(round_trip, asks_permission),
            journal,
            work,
        })
    }

    /// The parts that its other parts need.
    pub fn view(&self) -> RunView<'_> {
        RunView {
            deps: &self.deps,
            work: &self.work,
            client: &self.client,
            stop: &self.stop,
            task: self.as_task.get(),
            may_be_task: self.promotion.is_some(),
        }
    }

    /// The entry for the registry of runs.
    pub fn registration(&self) -> Registration {
        Registration {
            stop: self.stop.clone(),
            work: self.work.clone(),
            channel: self.client.channel.clone(),
            progress: self.voice.latest_progress(),
        }
    }

    /// The task that it works on.
    pub fn task(&self) -> Option<RunTask> {
        self.as_task.get().copied()
    }

    /// Makes the run work on this task from now on. Set once: a run never changes its task.
    pub fn set_task(&self, task: &Task) {
        let as_task = RunTask {
            id: task.id,
            fence: task.fence,
            started_at: task.started_at,
            expires_at: task.expires_at(),
            era: task.era,
            bridged: task.bridged.is_some(),
            is_stalled: task.resume.is_some_and(|resume| resume.stalled > 0),
        };
        if self.as_task.set(as_task).is_err() {
            return;
        }
        if task.resume.is_some() {
            // A run that repeats them does not ask them again. One that begins with a state does.
            let earlier = task.questions.iter().filter(|question| !question.is_superseded());
            let keys = earlier.map(|question| &question.key).filter(|key| !key.starts_with(KEYS));
            self.questions.history().earlier = keys.cloned().collect();
            match self.journal.get() {
                Some(journal) => journal.sink.set_task(as_task, &task.owner),
                None => {
                    let terms = match &self.work {
                        RunTarget::Tool(tool) => tool.spec().journal,
                        RunTarget::Provider(_) => JournalTerms::default(),
                    };
                    let sink = JournalSink::of_task(self.deps.clone(), as_task, &task.owner, terms);
                    // A task is set once.
                    drop(self.journal.set(Arc::new(TaskJournal::new(self.deps.clone(), sink))));
                }
            }
        }
        self.voice.emit(self.view(), RunEvent::IsTask);
    }

    /// The part of its promotion for a client that knows no tasks.
    pub fn bridge(&self) -> Option<&BridgedPromotion> {
        self.promotion.as_ref()?.bridge.as_ref()
    }

    /// Whether its client knows no tasks, though the call is one or may become one.
    pub fn is_bridged(&self) -> bool {
        self.bridge().is_some() || self.as_task.get().is_some_and(|task| task.bridged)
    }

    /// The journal, if it works on a task that resumes, or may become one.
    pub fn task_journal(&self) -> Option<&Arc<TaskJournal>> {
        self.journal.get()
    }

    /// Whether its task waits without a run.
    pub fn is_parked(&self) -> bool {
        self.journal.get().is_some_and(|journal| journal.parking.is_parked())
    }

    /// Runs a tool to its end, or until it is stopped.
    pub async fn drive_tool(
        self: Arc<Self>,
        CheckedTool { tool, is_checked }: CheckedTool,
        arguments: RawJson,
        reservation: Reservation,
    ) -> RunEnd {
        self.voice.emit(self.view(), RunEvent::Started(&arguments));
        let work = match is_checked {
            true => tool.tool().run(arguments, reservation, self.clone()),
            false => self.clone().check_and_run(tool, arguments, reservation).boxed(),
        };
        let end = match self.clone().drive(work).await {
            DriveEnd::Done(RunEnd::Error(error)) => self.shown(error),
            DriveEnd::Done(end) => end,
            DriveEnd::Panicked => RunEnd::Error(RpcError::internal("The engine failed during this call")),
            // Another run goes on where this one was, and reports the end.
            DriveEnd::Parked => return RunEnd::Stopped,
            DriveEnd::Stopped | DriveEnd::Suspended => RunEnd::Stopped,
        };
        // By now the guest is gone and has reported what it used.
        let called = if self.questions.is_suspended() { CallEnd::InputRequired } else { CallEnd::of(&end) };
        self.voice.end(self.view(), called, &end);
        end
    }

    /// Checks the arguments of a tool to the end, as part of the run, and then runs the tool.
    async fn check_and_run(
        self: Arc<Self>,
        tool: Arc<MeasuredTool>,
        arguments: RawJson,
        reservation: Reservation,
    ) -> RunEnd {
        let run = self.clone();
        let order =
            CheckOrder { share: self.client.share.clone(), stopped: Arc::new(move || run.stop.is_set()) };
        match tool.tool().check_fully(arguments.clone(), order).await {
            ArgumentCheck::Fits => tool.tool().run(arguments, reservation, self).await,
            ArgumentCheck::Misfit(wrong) => {
                tool.invalid.inc();
                RunEnd::Result { is_error: true, result: text_result(&wrong, true), message: Some(wrong) }
            }
            ArgumentCheck::Unfinished => RunEnd::Stopped,
        }
    }

    /// E-1, E-7: a client that cannot send its user to a page gets no error that
    /// asks it to.
    fn shown(&self, error: RpcError) -> RunEnd {
        if error.code != URL_ELICITATION_REQUIRED || ClientCapabilities::of(&self.client.capabilities).url {
            return RunEnd::Error(error);
        }
        let text = format!(
            "{} (The user would have to open a web page first, which this client did not declare it can show.)",
            error.message
        );
        RunEnd::Result { is_error: true, result: text_result(&text, true), message: Some(text) }
    }

    /// Drives work to its end, or until it is stopped. The guest's resources are free when this
    /// returns or is dropped.
    pub async fn drive<T>(self: Arc<Self>, work: BoxFuture<'static, T>) -> DriveEnd<T> {
        // A panic of the engine must not prevent the task's end.
        let run = AssertUnwindSafe(work).catch_unwind();
        tokio::pin!(run);
        // Not begun again in each turn: a task that is being parked must not be left half done.
        let leaves = self.leaves();
        tokio::pin!(leaves);
        loop {
            tokio::select! {
                biased;
                // Dropping the run ends a guest that waits in the host.
                () = self.stop.wait() => return DriveEnd::Stopped,
                () = self.questions.wait_until_suspended() => return DriveEnd::Suspended,
                () = self.parked() => {
                    if self.deps.slots.leaving.is_set() {
                        self.deps.slots.left.fetch_add(1, Ordering::SeqCst);
                    }
                    return DriveEnd::Parked;
                }
                () = &mut leaves => {}
                end = &mut run => {
                    self.voice.send_progress(self.view(), true);
                    return end.map_or_else(
                        |_| {
                            tracing::error!(
                                event = "run.panicked", plugin = self.work.plugin(),
                                tool = self.work.tool_name(),
                                "engine panicked during a run"
                            );
                            DriveEnd::Panicked
                        },
                        DriveEnd::Done,
                    );
                }
                // Nothing is lost when this branch loses: held reports stay held.
                () = self.voice.wait_until_due(|| self.as_task.get().is_some()) => {
                    Box::pin(self.voice.flush(self.view())).await;
                }
            }
        }
    }

    /// Drives work that is no task to its end. Most of it ends in its first poll, without crossing a thread, if it
    /// `begins_here`; the rest goes on elsewhere even if this future is dropped. None if it was lost with its runtime.
    pub async fn to_end<T: Send + 'static>(
        self: &Arc<Self>,
        slot: Slot,
        mut drive: BoxFuture<'static, T>,
        begins_here: bool,
    ) -> Option<T> {
        if begins_here
            && self.work.is_quick()
            && let Some(end) = (&mut drive).now_or_never()
        {
            drop(slot);
            return Some(end);
        }
        let (tell, told) = oneshot::channel();
        let guard = self.deps.slots.register(None, self.registration(), false);
        tracing::debug!(
            plugin = self.work.plugin(),
            tool = self.work.tool_name(),
            "call goes on after its first poll"
        );
        let moved = async move {
            let end = drive.await;
            drop((guard, slot));
            // The caller may be gone.
            drop(tell.send(end));
        };
        self.deps.slots.tracker.spawn_on(moved, &self.deps.slots.guests);
        told.await.ok()
    }

    /// When its host leaves, the task is parked, and another host goes on at once.
    async fn leaves(&self) {
        match self.journal.get() {
            Some(journal) => {
                self.deps.slots.leaving.wait().await;
                journal.leave().await;
            }
            None => std::future::pending().await,
        }
    }

    /// Waits until its task is parked.
    async fn parked(&self) {
        match self.journal.get() {
            Some(journal) => journal.parking.wait_until_parked().await,
            None => std::future::pending().await,
        }
    }

    /// The ticks at which a silent call shows its client that it goes on; none if it was not asked to.
    pub(crate) fn heartbeat(&self, wanted: bool) -> Heartbeat {
        Heartbeat::new(wanted && self.deps.settings.bridge.is_some() && self.client.progress_token.is_some())
    }
}
