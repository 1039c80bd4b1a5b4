//! The voice of a run: reports of the guest go to the client, throttled, and every event goes to those who observe the
//! run, keep its timeline or count it.

use crate::client::client_channel::Notice;
use crate::observe::call_end::CallEnd;
use crate::observe::event::RunEvent;
use crate::observe::run_sinks::RunSinks;
use crate::run::throttle::{LogDecision, ReportThrottle};
use crate::run::view::RunView;
use crate::slots::registry::LatestProgress;
use crate::slots::stop::StopCause;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use toolyard_protocol::TraceContext;
use toolyard_task::audit::By;
use toolyard_task::host_call::{HostAction, HostCall, MIN_WAIT};
use toolyard_task::tool::{Report, ReportBounds, RunUsage};
use toolyard_task::wire::{LogLevel, RawJson};
use toolyard_task::{Event, RunEnd};

/// The longest time for which a stream is released.
const MAX_RELEASE: Duration = Duration::from_secs(60);

/// The voice of a run.
pub(crate) struct Voice {
    /// The trace that the guest's own requests belong to.
    pub trace: Option<TraceContext>,
    sinks: RunSinks,
    throttle: Mutex<ReportThrottle>,
    /// Notified when a report is held back.
    reported: Notify,
    /// The latest progress, from when the run is registered.
    progress: OnceLock<Arc<LatestProgress>>,
    /// The usage of the guest, once it has ended.
    usage: OnceLock<RunUsage>,
}

impl Voice {
    pub fn new((sinks, trace): (RunSinks, Option<TraceContext>), bounds: ReportBounds) -> Self {
        Self {
            trace,
            sinks,
            throttle: Mutex::new(ReportThrottle::new(bounds)),
            reported: Notify::new(),
            progress: OnceLock::new(),
            usage: OnceLock::new(),
        }
    }

    /// The latest progress, for the registry of runs.
    pub fn latest_progress(&self) -> Arc<LatestProgress> {
        self.progress.get_or_init(Arc::default).clone()
    }

    /// The guest's last status message, if it is not stored yet.
    pub fn take_status(&self) -> Option<String> {
        self.throttle.lock().take_held_status()
    }

    /// Passes an event to all receivers but the client.
    pub fn emit(&self, run: RunView<'_>, event: RunEvent<'_>) {
        self.sinks.emit(&run.facts(self.usage.get()), event);
    }

    /// The guest has waited for the host since `began`. A short wait is not worth a mention.
    pub fn waited(&self, run: RunView<'_>, began: Instant, what: HostAction) {
        let took = began.elapsed();
        if took >= MIN_WAIT {
            self.add_host_call(run, &HostCall { took, what });
        }
    }

    fn add_host_call(&self, run: RunView<'_>, call: &HostCall) {
        self.sinks.add_host_call(&run.facts(None), call);
    }

    /// The guest reports something. The caller acts on reports that concern other parts of the run.
    pub fn report(&self, run: RunView<'_>, report: Report) {
        run.client.channel.reported(&report);
        self.emit(run, RunEvent::Reported(&report));
        let is_held = match report {
            Report::Progress(progress) => {
                if let Some(latest) = self.progress.get() {
                    latest.set(&progress);
                }
                run.client.progress_token.is_some() && self.throttle.lock().progress(progress)
            }
            Report::Status(message) => {
                let is_stored = run.task.is_some() || run.may_be_task;
                if is_stored {
                    self.throttle.lock().status(message);
                }
                is_stored
            }
            // Text that the timeline holds back leaves in time.
            Report::Output { .. } => run.task.is_some(),
            Report::Log { level, logger, data } => {
                self.log(run, level, logger, data);
                false
            }
            Report::Usage(used) => {
                // A run reports its usage once.
                let _ = self.usage.set(used);
                false
            }
            Report::HostCall(call) => {
                self.add_host_call(run, &call);
                false
            }
            Report::ReleaseStream { retry_ms } => {
                // A task has no connection of its own to free.
                if run.task.is_none() {
                    self.send_progress(run, true);
                    run.client.channel.release(Duration::from_millis(retry_ms).min(MAX_RELEASE));
                }
                false
            }
            Report::Changed(_) | Report::ElicitationComplete { .. } => false,
        };
        if is_held {
            self.reported.notify_one();
        }
    }

    /// Logs a message of the guest: to the client and, within bounds, to the host's own log.
    fn log(&self, run: RunView<'_>, level: LogLevel, logger: Option<String>, data: RawJson) {
        let shown = logger.as_deref().unwrap_or_default();
        let (ours, theirs, bounds) = {
            let mut throttle = self.throttle.lock();
            let ours = throttle.count_log(data.as_bytes().len() + shown.len() + 1);
            (ours, throttle.admit_log(Instant::now()), throttle.bounds())
        };
        match ours {
            LogDecision::Yes => {
                tracing::info!(
                    target: "guest", event = "guest.log", plugin = run.work.plugin(),
                    tool = run.work.tool_name(), log_level = level.as_str(), logger = shown,
                    "{}", data.as_str()
                );
            }
            LogDecision::NoMore => tracing::warn!(
                target: "guest", event = "guest.log_limit_reached", plugin = run.work.plugin(),
                tool = run.work.tool_name(), setting = "limits.log", limit = bounds.log_bytes,
                "run logs more than its limit; the rest is dropped"
            ),
            LogDecision::No => {}
        }
        match theirs {
            LogDecision::Yes => self.notify(run, Notice::Log { level, logger, data }),
            LogDecision::NoMore => self.notify(
                run,
                Notice::Log {
                    level: LogLevel::Warning,
                    logger: Some("toolyard".to_owned()),
                    data: RawJson::of(&format!(
                        "The tool logs more than {} messages a second (`limits.log-rate`); the rest of this second \
                         is left out.",
                        bounds.logs_per_second
                    )),
                },
            ),
            LogDecision::No => {}
        }
    }

    /// The run has ended, and the guest is gone.
    pub fn end(&self, run: RunView<'_>, called: CallEnd, end: &RunEnd) {
        let cause = match called {
            CallEnd::Stopped => run.stop.cause().map(StopCause::name),
            _ => None,
        };
        self.sinks.end(&run.facts(self.usage.get()), called, end, cause);
    }

    /// When the next report that is held back may leave.
    fn due(&self, is_task: bool) -> Option<Instant> {
        let held = self.throttle.lock().due(is_task);
        let text = if is_task { self.sinks.timeline().due() } else { None };
        held.into_iter().chain(text).min()
    }

    /// Waits until a report that was held back may leave. `is_task` says whether the run works on a task by now.
    pub async fn wait_until_due(&self, is_task: impl Fn() -> bool) {
        loop {
            let reported = self.reported.notified();
            tokio::pin!(reported);
            reported.as_mut().enable();
            match self.due(is_task()) {
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

    /// Lets the reports leave whose time has come.
    pub async fn flush(&self, run: RunView<'_>) {
        self.send_progress(run, false);
        let Some(task) = run.task else { return };
        self.sinks.timeline().store_due(task.id, task.fence.attempt);
        let status = self.throttle.lock().take_due_status();
        let Some(message) = status else { return };
        let said = Event::Said { fence: task.fence, message };
        if let Err(error) = run.deps.tasks.change(task.id, &said, &By::host()).await {
            tracing::warn!(
                event = "task.status_not_stored", task = %task.id, error = &error as &dyn std::error::Error,
                "cannot store status message"
            );
        }
    }

    /// Shows the client that the call goes on, if the guest was silent.
    pub fn beat(&self, run: RunView<'_>, silent_for: Duration) {
        let Some(token) = &run.client.progress_token else { return };
        let progress = self.throttle.lock().heartbeat(silent_for, Instant::now());
        if let Some(progress) = progress {
            self.notify(run, Notice::Progress { token: token.clone(), progress });
        }
    }

    /// Sends held progress, if its time has come or `now_or_never` is set.
    pub fn send_progress(&self, run: RunView<'_>, now_or_never: bool) {
        let Some(token) = &run.client.progress_token else { return };
        let progress = self.throttle.lock().take_progress(now_or_never);
        if let Some(progress) = progress {
            self.notify(run, Notice::Progress { token: token.clone(), progress });
        }
    }

    /// Sends the client a notice, tied to the task if there is one.
    pub fn notify(&self, run: RunView<'_>, notice: Notice) {
        match run.task {
            // Its answer has left, or will; nothing may follow it.
            Some(task) if task.bridged => {}
            task => run.client.channel.notify(task.map(|task| task.id), notice),
        }
    }
}
