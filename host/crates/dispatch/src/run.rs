//! One run of a tool: what its guest may ask of us, and the loop that drives it.

use crate::ask::Asked;
use crate::outlet::{Notice, Outlet};
use crate::stop::Stop;
use crate::{Dispatch, Fault};
use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use toolyard_protocol::ClientCapabilities;
use toolyard_protocol::tools::text_result;
use toolyard_task::tool::{AskError, AskedQuestion, CallInfo, GivenAnswer, Report};
use toolyard_task::wire::error::URL_ELICITATION_REQUIRED;
use toolyard_task::wire::{LogLevel, Progress, RawJson, RpcError, Timestamp};
use toolyard_task::{Event, Fence, Provider, RunContext, RunEnd, SessionId, Task, TaskId, Tool};

/// At most 20 progress messages a second leave the host (`host.progress`).
const PROGRESS_EVERY: Duration = Duration::from_millis(50);
/// At most four status messages a second are stored (`host.status`).
const STATUS_EVERY: Duration = Duration::from_millis(250);
/// What one run may write to the host's log by `host.log`, in bytes.
const LOG_BYTES: usize = 64 << 10;
/// What one run may log to its client.
const LOGS_A_SECOND: u32 = 50;
/// The longest time for which a stream is released.
const LONGEST_RELEASE: Duration = Duration::from_secs(60);

/// What a run runs.
#[derive(Clone)]
pub(crate) enum Work {
    /// A tool.
    Tool(Arc<dyn Tool>),
    /// A resource, a prompt or a completion.
    Provider(Arc<dyn Provider>),
}

impl Work {
    /// For logs: the tool, or the plugin.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => tool.spec().name(),
            Self::Provider(provider) => &provider.spec().plugin,
        }
    }

    fn interrupt(&self) {
        match self {
            Self::Tool(tool) => tool.interrupt(),
            Self::Provider(provider) => provider.interrupt(),
        }
    }
}

/// For whom a run is.
pub(crate) struct Client {
    /// Where notices and questions go.
    pub outlet: Arc<dyn Outlet>,
    /// The session that may answer them.
    pub session: Option<SessionId>,
    /// What the client can do: an object.
    pub capabilities: RawJson,
    /// The token that it wants progress under.
    pub progress_token: Option<RawJson>,
}

/// What a run is for, from the moment that it is set up.
pub(crate) struct Run {
    pub dispatch: Arc<Dispatch>,
    pub stop: Arc<Stop>,
    /// The task that it works on; a plain call has none.
    pub task: Option<(TaskId, Fence)>,
    pub progress_token: Option<RawJson>,
    pub outlet: Arc<dyn Outlet>,
    pub session: Option<SessionId>,
    pub capabilities: RawJson,
    pub deadline: Option<Timestamp>,
    pub work: Work,
    asked: Mutex<Asked>,
    reports: Mutex<Reports>,
    reported: Notify,
}

/// How driven work ended.
pub(crate) enum Driven<T> {
    /// By itself.
    Done(T),
    /// By a panic of the engine.
    Panicked,
    /// It was stopped.
    Stopped,
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
    /// When the second began in which log messages are counted, and how many
    /// there were.
    log_second: Option<(Instant, u32)>,
}

impl Run {
    pub fn new(dispatch: Arc<Dispatch>, work: Work, stop: Arc<Stop>, client: Client) -> Self {
        Self {
            dispatch,
            stop,
            task: None,
            progress_token: client.progress_token,
            outlet: client.outlet,
            session: client.session,
            capabilities: client.capabilities,
            deadline: None,
            work,
            asked: Mutex::default(),
            reports: Mutex::default(),
            reported: Notify::new(),
        }
    }

    /// Runs a tool to its end, or until it is stopped.
    pub async fn drive_tool(self: Arc<Self>, tool: Arc<dyn Tool>, arguments: RawJson) -> RunEnd {
        let work = tool.run(arguments, self.clone());
        match self.clone().drive(work).await {
            Driven::Done(RunEnd::Error(error)) => self.shown(error),
            Driven::Done(end) => end,
            Driven::Panicked => RunEnd::Error(RpcError::internal("The engine failed during this call")),
            Driven::Stopped => RunEnd::Stopped,
        }
    }

    /// E-1, E-7: a client that cannot send its user to a page gets no error that
    /// asks it to.
    fn shown(&self, error: RpcError) -> RunEnd {
        if error.code != URL_ELICITATION_REQUIRED || ClientCapabilities::of(&self.capabilities).url {
            return RunEnd::Error(error);
        }
        let text = format!(
            "{} (The user would have to open a web page first, which this client did not declare it can show.)",
            error.message
        );
        RunEnd::Result { is_error: true, result: text_result(&text, true), message: Some(text) }
    }

    /// Drives work to its end, or until it is stopped. What the guest holds is
    /// freed when this returns or is dropped.
    pub async fn drive<T>(self: Arc<Self>, work: BoxFuture<'static, T>) -> Driven<T> {
        // A panic of the engine must not take the task's end with it.
        let run = AssertUnwindSafe(work).catch_unwind();
        tokio::pin!(run);
        loop {
            tokio::select! {
                biased;
                // Dropping the run ends a guest that waits in the host.
                () = self.stop.wait() => return Driven::Stopped,
                end = &mut run => {
                    self.send_progress(true);
                    return end.map_or_else(
                        |_| {
                            tracing::error!(of = self.work.name(), "the engine panicked during a run");
                            Driven::Panicked
                        },
                        Driven::Done,
                    );
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
            self.notify(Notice::Progress { token: token.clone(), progress });
        }
    }

    /// Logs what the guest wants logged: to the client, and in bounds to our own
    /// log.
    fn log(&self, level: LogLevel, logger: Option<String>, data: RawJson) {
        let of = self.work.name();
        let shown = logger.as_deref().unwrap_or_default();
        let (before, passed) = {
            let mut reports = self.lock();
            let before = reports.logged;
            reports.logged = before.saturating_add(data.as_bytes().len() + shown.len() + 1);
            (before, reports.may_log(Instant::now()))
        };
        if before < LOG_BYTES {
            tracing::info!(target: "guest", of, level = level.as_str(), logger = shown, "{}", data.as_str());
            if before + data.as_bytes().len() >= LOG_BYTES {
                tracing::info!(target: "guest", of, "this run has logged {LOG_BYTES} bytes; the rest is left out");
            }
        }
        match passed {
            MayLog::Yes => self.notify(Notice::Log { level, logger, data }),
            MayLog::NoMore => self.notify(Notice::Log {
                level: LogLevel::Warning,
                logger: Some("toolyard".to_owned()),
                data: RawJson::of(&format!(
                    "The tool logs more than {LOGS_A_SECOND} messages a second; the rest of this second is left out."
                )),
            }),
            MayLog::No => {}
        }
    }

    /// Tells the client something, tied to the task if there is one.
    fn notify(&self, notice: Notice) {
        self.outlet.notify(self.task.map(|(id, _)| id), notice);
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a log message still fits the second that it falls into (G-2).
enum MayLog {
    Yes,
    /// It is the first that does not.
    NoMore,
    No,
}

impl Reports {
    fn may_log(&mut self, now: Instant) -> MayLog {
        let (began, count) = match self.log_second {
            Some((began, count)) if now.duration_since(began) < Duration::from_secs(1) => (began, count + 1),
            _ => (now, 1),
        };
        self.log_second = Some((began, count));
        match count {
            count if count <= LOGS_A_SECOND => MayLog::Yes,
            count if count == LOGS_A_SECOND + 1 => MayLog::NoMore,
            _ => MayLog::No,
        }
    }

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
            Report::Log { level, logger, data } => return self.log(level, logger, data),
            Report::Changed(change) => return self.dispatch.announce(change),
            Report::ElicitationComplete { key } => {
                let agreed = self.asked().agreed_to(&key);
                if let Some(elicitation_id) = agreed {
                    self.notify(Notice::ElicitationComplete { elicitation_id });
                }
                return;
            }
            Report::ReleaseStream { retry_ms } => {
                // A task has no connection of its own to spare.
                if self.task.is_none() {
                    self.send_progress(true);
                    self.outlet.release(Duration::from_millis(retry_ms).min(LONGEST_RELEASE));
                }
                return;
            }
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

    async fn ask(&self, questions: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError> {
        self.ask_client(questions).await
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
    work: Work,
    outlet: Arc<dyn Outlet>,
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
        let registered = Registered {
            stop: run.stop.clone(),
            work: run.work.clone(),
            outlet: run.outlet.clone(),
            stored: task.is_none(),
            waiting,
        };
        runs.lock().insert(key, registered);
        RunGuard { dispatch: dispatch.clone(), key }
    }

    /// Stops the run of this task, if it is here.
    pub fn stop(&self, id: TaskId) {
        self.stop_key(RunKey::Task(id));
    }

    pub fn stop_key(&self, key: RunKey) {
        let registered = self.lock().get(&key).cloned();
        if let Some(Registered { stop, work, .. }) = registered {
            stop.set();
            // After the flag: the guest must see it when it looks.
            work.interrupt();
        }
    }

    /// Tells the client of this task's run how the task stands (T-37).
    pub fn tell_status(&self, task: &Task) {
        let outlet = self.lock().get(&RunKey::Task(task.id)).map(|registered| registered.outlet.clone());
        if let Some(outlet) = outlet {
            outlet.notify(Some(task.id), Notice::Status(task.view()));
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
