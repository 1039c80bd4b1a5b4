//! One run of a tool, and the loop that drives it.

mod context;

use crate::client::client_channel::Notice;
use crate::observe::call_end::CallEnd;
use crate::observe::call_history::HistoryEntry;
use crate::observe::host_call_log::HostCallLog;
use crate::observe::metrics::MeasuredTool;
use crate::observe::observer::Observation;
use crate::observe::run_timeline::RunTimeline;
use crate::observe::trace::Recording;
use crate::run::as_task::RunTask;
use crate::run::client::Client;
use crate::run::deps::RunDeps;
use crate::run::journal::TaskJournal;
use crate::run::pending_question::KEYS;
use crate::run::permissions::Permissions;
use crate::run::promotion::Promotion;
use crate::run::question_history::QuestionHistory;
use crate::run::round_trip::RoundTrip;
use crate::run::setup::Setup;
use crate::run::throttle::ReportThrottle;
use crate::slots::admission::Slot;
use crate::slots::heartbeat::Heartbeat;
use crate::slots::registry::{LatestProgress, Registration};
use crate::slots::stop::Stop;
use crate::slots::work::RunTarget;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use toolyard_protocol::tools::text_result;
use toolyard_protocol::{ClientCapabilities, TraceContext};
use toolyard_task::audit::By;
use toolyard_task::tool::{ArgumentCheck, CheckOrder, JournalTerms, RunUsage};
use toolyard_task::wire::error::URL_ELICITATION_REQUIRED;
use toolyard_task::wire::{RawJson, RpcError};
use toolyard_task::{Durability, Event, Fence, Reservation, RunEnd, Task, TaskId};

/// How often a run that waits for an answer looks whether others wait for its slot.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(100);

/// A run, from the moment that it is set up.
pub(crate) struct Run {
    pub deps: Arc<RunDeps>,
    pub work: RunTarget,
    pub stop: Arc<Stop>,
    pub client: Client,
    /// The task that it works on; a plain call has none, unless it becomes one.
    as_task: OnceLock<RunTask>,
    /// Whether its arguments are known to fit; else it checks them before the guest begins.
    is_checked: bool,
    /// Whether it begins on another thread than the one that serves its client.
    begins_elsewhere: bool,
    pub permissions: Permissions,
    pub observers: RunObservers,
    pub timeline: RunTimeline,
    pub host_calls: HostCallLog,
    /// How a stateless client is asked while this is a plain call.
    pub round_trip: Option<Box<RoundTrip>>,
    /// The parts that it needs to become a task, if it may.
    pub promotion: Option<Box<Promotion>>,
    /// Whether the guest has said that effects begin.
    affected: AtomicBool,
    asked: Mutex<QuestionHistory>,
    pub(crate) reports: Mutex<ReportThrottle>,
    reported: Notify,
    /// The latest progress, from when the run is registered.
    progress: OnceLock<Arc<LatestProgress>>,
    /// The usage of the guest, once it has ended.
    usage: OnceLock<RunUsage>,
    /// The journal, if it works on a task that resumes.
    journal: OnceLock<Arc<TaskJournal>>,
}

/// The receivers of a run's events besides its client.
pub(crate) struct RunObservers {
    /// The trace that the guest's own requests belong to.
    pub trace: Option<TraceContext>,
    /// The record of the call, if it is traced.
    pub recording: Option<Box<Recording>>,
    /// The observed call, if there is an observer.
    pub observation: Option<Arc<Observation>>,
    /// Its entry in the history of plain calls, if there is one.
    pub history: Option<Box<HistoryEntry>>,
}

/// How driven work ended.
pub(crate) enum DriveEnd<T> {
    /// By itself.
    Done(T),
    /// By a panic of the engine.
    Panicked,
    /// It was stopped.
    Stopped,
    /// It has to wait for its client's next request.
    Suspended,
    /// Its task waits without a run.
    Parked,
}

impl Run {
    /// Sets a run up. This is the only place that does, so that every run is observed and traced.
    pub fn new(deps: Arc<RunDeps>, setup: Setup) -> Arc<Self> {
        let Setup { work, stop, client, trace, observation, round_trip, promotion, .. } = setup;
        let ((trace, recording), history) = match &work {
            RunTarget::Tool(tool) => (deps.observers.trace(trace, tool), deps.observers.begin_history()),
            RunTarget::Provider(_) => ((trace, None), None),
        };
        let journal = match (&work, &promotion) {
            (RunTarget::Tool(tool), Some(_)) if tool.spec().durability == Durability::Resume => {
                OnceLock::from(Arc::new(TaskJournal::of_call(deps.clone(), tool.spec().journal)))
            }
            _ => OnceLock::new(),
        };
        Arc::new(Self {
            deps,
            stop,
            client,
            as_task: OnceLock::new(),
            is_checked: setup.is_checked,
            begins_elsewhere: setup.begins_elsewhere,
            permissions: Permissions::new(setup.asks_permission),
            reports: Mutex::new(ReportThrottle::new(work.bounds())),
            work,
            observers: RunObservers { trace, recording, observation, history },
            timeline: RunTimeline::default(),
            host_calls: HostCallLog::default(),
            round_trip,
            promotion,
            affected: AtomicBool::new(false),
            asked: Mutex::default(),
            reported: Notify::new(),
            progress: OnceLock::new(),
            usage: OnceLock::new(),
            journal,
        })
    }

    /// The observed call, if there is an observer.
    pub fn observation(&self) -> Option<&Observation> {
        self.observers.observation.as_deref()
    }

    /// The entry for the registry of runs.
    pub fn registration(&self) -> Registration {
        Registration {
            stop: self.stop.clone(),
            work: self.work.clone(),
            channel: self.client.channel.clone(),
            progress: self.progress.get_or_init(Arc::default).clone(),
        }
    }

    /// The task that it works on.
    pub fn task(&self) -> Option<(TaskId, Fence)> {
        self.as_task.get().map(|task| (task.id, task.fence))
    }

    /// The same, with its time.
    pub fn as_task(&self) -> Option<RunTask> {
        self.as_task.get().copied()
    }

    /// It works on this task from now on. Set once: a run never changes its task.
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
            self.question_history().earlier = keys.cloned().collect();
        }
        match (self.journal.get(), task.resume) {
            (Some(journal), Some(_)) => journal.set_task(as_task, &task.owner),
            // A task is set once.
            (None, Some(_)) => {
                let terms = match &self.work {
                    RunTarget::Tool(tool) => tool.spec().journal,
                    RunTarget::Provider(_) => JournalTerms::default(),
                };
                let journal = TaskJournal::of_task(self.deps.clone(), (as_task, &task.owner), terms);
                drop(self.journal.set(Arc::new(journal)));
            }
            (_, None) => {}
        }
        if let Some(recording) = &self.observers.recording {
            recording.set_task(task.id);
        }
        if let Some(observation) = self.observation() {
            observation.set_task(task.id);
        }
    }

    /// Whether its client knows no tasks, though the call is one or may become one.
    pub fn is_bridged(&self) -> bool {
        let may_be = self.promotion.as_ref().is_some_and(|promotion| promotion.bridge.is_some());
        may_be || self.as_task.get().is_some_and(|task| task.bridged)
    }

    /// The usage of the guest, once it has ended.
    pub fn usage(&self) -> Option<&RunUsage> {
        self.usage.get()
    }

    /// Whether the guest has said that effects begin.
    pub fn has_effects(&self) -> bool {
        self.affected.load(Ordering::Acquire)
    }

    /// The guest's last status message, if it is not stored yet.
    pub fn take_status(&self) -> Option<String> {
        self.reports.lock().take_held_status()
    }

    /// Runs a tool to its end, or until it is stopped.
    pub async fn drive_tool(
        self: Arc<Self>,
        tool: Arc<MeasuredTool>,
        arguments: RawJson,
        reservation: Reservation,
    ) -> RunEnd {
        if let Some(recording) = &self.observers.recording {
            recording.set_started();
        }
        if let Some(history) = &self.observers.history {
            history.start(&arguments);
        }
        let work = match self.is_checked {
            true => tool.tool().run(arguments, reservation, self.clone()),
            false => self.clone().check_and_run(tool.clone(), arguments, reservation).boxed(),
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
        self.keep_last_events();
        let called = if self.is_suspended() { CallEnd::InputRequired } else { CallEnd::of(&end) };
        tool.count_end(called);
        if self.keeps_host_calls() {
            self.record_end(&tool, called, &end);
        }
        self.log_end(&tool, called);
        if let Some(observation) = self.observation() {
            observation.tell_end(&end);
        }
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
                tool.count_invalid_arguments();
                RunEnd::Result { is_error: true, result: text_result(&wrong, true), message: Some(wrong) }
            }
            ArgumentCheck::Unfinished => RunEnd::Stopped,
        }
    }

    /// Whether it may begin on the thread that serves its client.
    pub fn begins_here(&self) -> bool {
        !self.begins_elsewhere && self.work.is_quick()
    }

    /// Whether it has to wait for its client's next request.
    pub fn is_suspended(&self) -> bool {
        self.round_trip.as_ref().is_some_and(|round_trip| round_trip.is_suspended())
    }

    /// Records what the guest used.
    fn spent(&self, spent: RunUsage) {
        if let RunTarget::Tool(tool) = &self.work {
            tool.spent(&spent);
        }
        if let Some(recording) = &self.observers.recording {
            recording.set_spent(spent);
        }
        // A run reports its usage once.
        let _ = self.usage.set(spent);
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
                () = self.suspended() => return DriveEnd::Suspended,
                () = self.parked() => {
                    if self.deps.slots.leaving.is_set() {
                        self.deps.slots.left.fetch_add(1, Ordering::SeqCst);
                    }
                    return DriveEnd::Parked;
                }
                () = &mut leaves => {}
                end = &mut run => {
                    self.send_progress(true);
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
                () = self.report_due() => Box::pin(self.flush()).await,
            }
        }
    }

    /// Drives work that is no task to its end. Most of it ends in its first poll,
    /// without crossing a thread, if it may begin here; the rest goes on elsewhere even
    /// if this future is dropped. None if it was lost with its runtime.
    pub async fn to_end<T: Send + 'static>(
        self: &Arc<Self>,
        slot: Slot,
        mut drive: BoxFuture<'static, T>,
    ) -> Option<T> {
        if self.begins_here()
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

    /// Waits until it has to wait for its client's next request.
    async fn suspended(&self) {
        match &self.round_trip {
            Some(round_trip) => round_trip.wait_until_suspended().await,
            None => std::future::pending().await,
        }
    }

    /// The journal, if it works on a task that resumes, or may become one.
    pub fn task_journal(&self) -> Option<&Arc<TaskJournal>> {
        self.journal.get()
    }

    /// How long it waits for an answer before it is parked.
    pub fn park_after(&self) -> Duration {
        self.journal.get().map_or(Duration::ZERO, |journal| journal.park_after())
    }

    /// Waits until it is to be parked, if it has waited since `began`. Others may come to wait for its slot meanwhile.
    pub async fn until_parks(&self, began: Instant) {
        loop {
            let left = self.park_after().saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LOOK_FOR_OTHERS)).await;
        }
    }

    /// Whether its task waits without a run.
    pub fn is_parked(&self) -> bool {
        self.journal.get().is_some_and(|journal| journal.is_parked())
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
            Some(journal) => journal.wait_until_parked().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until a report that was held back may leave.
    async fn report_due(&self) {
        loop {
            let reported = self.reported.notified();
            tokio::pin!(reported);
            reported.as_mut().enable();
            let due = match self.task() {
                Some(_) => self.reports.lock().due(true).into_iter().chain(self.timeline.due()).min(),
                None => self.reports.lock().due(false),
            };
            match due {
                None => reported.await,
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = tokio::time::sleep_until(due) => return,
                        () = reported => {}
                    }
                }
            }
        }
    }

    async fn flush(&self) {
        self.send_progress(false);
        self.keep_due_output();
        let Some((id, fence)) = self.task() else { return };
        let status = self.reports.lock().take_due_status();
        if let Some(message) = status
            && let Err(error) = self.deps.tasks.change(id, &Event::Said { fence, message }, &By::host()).await
        {
            tracing::warn!(
                event = "task.status_not_stored", task = %id, error = &error as &dyn std::error::Error,
                "cannot store status message"
            );
        }
    }

    /// The ticks at which a silent call shows its client that it goes on; none if it was not asked to.
    pub(crate) fn heartbeat(&self, wanted: bool) -> Heartbeat {
        let bridge = self.deps.settings.bridge.as_ref().filter(|_| wanted);
        let token = self.client.progress_token.as_ref();
        Heartbeat::new(bridge.zip(token).map_or(Duration::ZERO, |(bridge, _)| bridge.heartbeat))
    }

    /// Shows the client that the call goes on, if the guest was silent.
    pub(crate) fn beat(&self, silent_for: Duration) {
        let Some(token) = &self.client.progress_token else { return };
        let progress = self.reports.lock().heartbeat(silent_for, Instant::now());
        if let Some(progress) = progress {
            self.notify(Notice::Progress { token: token.clone(), progress });
        }
    }

    /// Sends held progress, if its time has come or `now_or_never` is set.
    fn send_progress(&self, now_or_never: bool) {
        let Some(token) = &self.client.progress_token else { return };
        let progress = self.reports.lock().take_progress(now_or_never);
        if let Some(progress) = progress {
            self.notify(Notice::Progress { token: token.clone(), progress });
        }
    }

    /// Sends the client a notice, tied to the task if there is one.
    pub(crate) fn notify(&self, notice: Notice) {
        match self.as_task.get() {
            // Its answer has left, or will; nothing may follow it.
            Some(task) if task.bridged => {}
            task => self.client.channel.notify(task.map(|task| task.id), notice),
        }
    }

    /// The questions so far.
    pub(crate) fn question_history(&self) -> MutexGuard<'_, QuestionHistory> {
        self.asked.lock()
    }
}
