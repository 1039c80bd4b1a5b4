//! One run of a tool: what its guest may ask of us, and the loop that drives it.

use crate::outlet::{Outlet, ProgressNotice};
use crate::stop::Stop;
use crate::{Dispatch, Fault};
use async_trait::async_trait;
use futures_util::FutureExt as _;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use toolyard_task::tool::{AskError, AskedQuestion, CallInfo, GivenAnswer, Report};
use toolyard_task::wire::{Progress, RawJson, RpcError, Timestamp};
use toolyard_task::{Event, Fence, RunContext, RunEnd, TaskId, Tool};

/// At most 20 progress messages a second leave the host (`host.progress`).
const PROGRESS_EVERY: Duration = Duration::from_millis(50);
/// At most four status messages a second are stored (`host.status`).
const STATUS_EVERY: Duration = Duration::from_millis(250);
/// What one run may write to the host's log by `host.log`, in bytes.
const LOG_BYTES: usize = 64 << 10;

/// What a run is for, from the moment that it is set up.
pub(crate) struct Run {
    pub dispatch: Arc<Dispatch>,
    pub stop: Arc<Stop>,
    /// The task that it works on; a plain call has none.
    pub task: Option<(TaskId, Fence)>,
    pub progress_token: Option<RawJson>,
    pub outlet: Arc<dyn Outlet>,
    pub capabilities: RawJson,
    pub deadline: Option<Timestamp>,
    pub tool: Arc<dyn Tool>,
    reports: Mutex<Reports>,
    reported: Notify,
}

/// What the guest reported and what is still held back.
#[derive(Default)]
struct Reports {
    /// The last progress that was accepted; the next must be greater (P-1).
    reached: Option<f64>,
    progress: Option<Progress>,
    progress_sent: Option<Instant>,
    status: Option<String>,
    status_stored: Option<Instant>,
    logged: usize,
}

impl Run {
    pub fn new(
        dispatch: Arc<Dispatch>,
        tool: Arc<dyn Tool>,
        stop: Arc<Stop>,
        outlet: Arc<dyn Outlet>,
        capabilities: RawJson,
        progress_token: Option<RawJson>,
    ) -> Self {
        Self {
            dispatch,
            stop,
            task: None,
            progress_token,
            outlet,
            capabilities,
            deadline: None,
            tool,
            reports: Mutex::default(),
            reported: Notify::new(),
        }
    }

    /// Runs the tool to its end, or until it is stopped. What the guest holds is
    /// freed when this returns or is dropped.
    pub async fn drive(self: Arc<Self>, arguments: RawJson) -> RunEnd {
        let context: Arc<dyn RunContext> = self.clone();
        // A panic of the engine must not take the task's end with it.
        let run = AssertUnwindSafe(self.tool.clone().run(arguments, context)).catch_unwind();
        tokio::pin!(run);
        loop {
            tokio::select! {
                biased;
                // Dropping the run ends a guest that waits in the host.
                () = self.stop.wait() => return RunEnd::Stopped,
                end = &mut run => {
                    self.send_progress(true);
                    return end.unwrap_or_else(|_| {
                        tracing::error!(tool = self.tool.spec().name(), "the engine panicked during a run");
                        RunEnd::Error(RpcError::internal("The engine failed during this call"))
                    });
                }
                // Nothing is lost when this one loses: what is held stays held.
                () = self.report_due() => self.flush().await,
            }
        }
    }

    /// Waits until a report that was held back may leave.
    async fn report_due(&self) {
        loop {
            let reported = self.reported.notified();
            tokio::pin!(reported);
            reported.as_mut().enable();
            let due = self.lock().due();
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
        let status = {
            let mut reports = self.lock();
            let now = Instant::now();
            let due = reports.status_stored.is_none_or(|stored| stored + STATUS_EVERY <= now);
            let status = if due { reports.status.take() } else { None };
            if status.is_some() {
                reports.status_stored = Some(now);
            }
            status
        };
        if let (Some(message), Some((id, fence))) = (status, self.task)
            && let Err(error) = self.dispatch.change(id, &Event::Said { fence, message }).await
        {
            tracing::warn!(task = %id, error = &error as &dyn std::error::Error, "a status message was not stored");
        }
    }

    /// Sends what progress is held, if its time has come or `now_or_never`.
    fn send_progress(&self, now_or_never: bool) {
        let Some(token) = &self.progress_token else { return };
        let progress = {
            let mut reports = self.lock();
            let now = Instant::now();
            let due = now_or_never || reports.progress_sent.is_none_or(|sent| sent + PROGRESS_EVERY <= now);
            let progress = if due { reports.progress.take() } else { None };
            if progress.is_some() {
                reports.progress_sent = Some(now);
            }
            progress
        };
        if let Some(progress) = progress {
            let task = self.task.map(|(id, _)| id);
            self.outlet.progress(ProgressNotice { token: token.clone(), task, progress });
        }
    }

    /// Writes to the log what the guest wants written, in bounds.
    fn log(&self, level: &'static str, logger: &str, data: &str) {
        let tool = self.tool.spec().name();
        let before = {
            let mut reports = self.lock();
            let before = reports.logged;
            reports.logged = before.saturating_add(data.len() + logger.len() + 1);
            before
        };
        if before < LOG_BYTES {
            tracing::info!(target: "guest", tool, level, logger, "{data}");
            if before + data.len() >= LOG_BYTES {
                tracing::info!(target: "guest", tool, "this run has logged {LOG_BYTES} bytes; the rest is left out");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports {
    /// When the next of what is held back may leave.
    fn due(&self) -> Option<Instant> {
        let next = |last: Option<Instant>, every| last.map_or_else(Instant::now, |last| last + every);
        let progress = self.progress.as_ref().map(|_| next(self.progress_sent, PROGRESS_EVERY));
        let status = self.status.as_ref().map(|_| next(self.status_stored, STATUS_EVERY));
        [progress, status].into_iter().flatten().min()
    }
}

#[async_trait]
impl RunContext for Run {
    fn stopped(&self) -> bool {
        self.stop.is_set()
    }

    fn report(&self, report: Report) {
        match report {
            Report::Progress(progress) => {
                if self.progress_token.is_none() {
                    return;
                }
                let mut reports = self.lock();
                if reports.reached.is_some_and(|reached| progress.progress <= reached) {
                    return;
                }
                reports.reached = Some(progress.progress);
                reports.progress = Some(progress);
            }
            Report::Status(message) => {
                if self.task.is_none() {
                    return;
                }
                self.lock().status = Some(message);
            }
            Report::Log { level, logger, data } => {
                self.log(level, logger.as_deref().unwrap_or_default(), data.as_str());
                return;
            }
            // Tools of a component are listed once a version; nothing that could
            // be told has changed. Streams are released by the transport.
            Report::Changed(_) | Report::ElicitationComplete { .. } | Report::ReleaseStream { .. } => return,
        }
        self.reported.notify_one();
    }

    fn info(&self) -> CallInfo {
        CallInfo {
            task: self.task.map(|(id, _)| id),
            attempt: self.task.map_or(1, |(_, fence)| fence.attempt),
            deadline: self.deadline,
            client_capabilities: self.capabilities.clone(),
        }
    }

    async fn ask(&self, _questions: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        Err(AskError::Unsupported("questions are not supported by this client".to_owned()))
    }

    async fn begin_task(&self) -> Result<(), String> {
        // Under 2025-11-25 only the caller makes a call a task.
        Ok(())
    }

    async fn effects(&self) -> Result<(), AskError> {
        let Some((id, fence)) = self.task else { return Ok(()) };
        match self.dispatch.change(id, &Event::Effects { fence }).await {
            Ok(crate::change::Changed::Done(_)) => Ok(()),
            Ok(_) => Err(AskError::Cancelled),
            Err(error) => Err(AskError::Refused(Fault::Store(error).rpc())),
        }
    }
}

/// What a run is registered under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RunKey {
    /// The run of a task.
    Task(TaskId),
    /// The run of a plain call that did not end in its first poll.
    Plain(u64),
}

#[derive(Clone)]
struct Registered {
    stop: Arc<Stop>,
    tool: Arc<dyn Tool>,
    /// Whether the task's record is in the store; before that, its absence there
    /// says nothing.
    stored: bool,
    /// Whether it waits for a slot.
    waiting: bool,
}

/// The runs that are under way in this process.
#[derive(Default)]
pub(crate) struct Runs {
    plain: AtomicU64,
    by_key: Mutex<HashMap<RunKey, Registered>>,
}

impl Runs {
    /// Registers a run; it is forgotten when the guard is dropped.
    pub fn register(dispatch: &Arc<Dispatch>, task: Option<TaskId>, run: &Run, waiting: bool) -> RunGuard {
        let runs = &dispatch.runs;
        let key = match task {
            Some(id) => RunKey::Task(id),
            None => RunKey::Plain(runs.plain.fetch_add(1, Ordering::Relaxed)),
        };
        let registered =
            Registered { stop: run.stop.clone(), tool: run.tool.clone(), stored: task.is_none(), waiting };
        runs.lock().insert(key, registered);
        RunGuard { dispatch: dispatch.clone(), key }
    }

    /// Stops the run of this task, if it is here.
    pub fn stop(&self, id: TaskId) {
        self.stop_key(RunKey::Task(id));
    }

    pub fn stop_key(&self, key: RunKey) {
        let registered = self.lock().get(&key).cloned();
        if let Some(Registered { stop, tool, .. }) = registered {
            stop.set();
            // After the flag: the guest must see it when it looks.
            tool.interrupt();
        }
    }

    /// Tasks that run or wait here and whose records are stored.
    pub fn stored_tasks(&self) -> Vec<TaskId> {
        self.lock()
            .iter()
            .filter_map(|(key, registered)| match key {
                RunKey::Task(id) if registered.stored => Some(*id),
                _ => None,
            })
            .collect()
    }

    /// Every run, and whether it waits for a slot.
    pub fn all(&self) -> Vec<(RunKey, bool)> {
        self.lock().iter().map(|(key, registered)| (*key, registered.waiting)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunKey, Registered>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a run registered.
pub(crate) struct RunGuard {
    dispatch: Arc<Dispatch>,
    key: RunKey,
}

impl RunGuard {
    /// Notes that the task's record is in the store.
    pub fn stored(&self) {
        if let Some(registered) = self.dispatch.runs.lock().get_mut(&self.key) {
            registered.stored = true;
        }
    }

    /// Notes that the run has its slot.
    pub fn started(&self) {
        if let Some(registered) = self.dispatch.runs.lock().get_mut(&self.key) {
            registered.waiting = false;
        }
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.dispatch.runs.lock().remove(&self.key);
    }
}
