//! The port to tools, and the host's side of a running tool.

use crate::approval::ConfirmTerms;
use crate::argument::ArgumentValue;
use crate::error::AskError;
use crate::host_call::HostCall;
use crate::http_tape::HttpTape;
use crate::id::{Digest, TaskId};
use crate::journal::DoubtDecision;
use crate::permission::{AccessRequest, NotPermitted, WhyNot};
use crate::rate::Rate;
use crate::recovery::Durability;
use crate::reservation::{Reservation, ReservationError};
use crate::run_journal::RunJournal;
use crate::task::JournalRetention;
use crate::wire::{
    LogLevel, Progress, RawJson, RpcError, TaskSupport, Timestamp, ToolDescription, TraceContext,
};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A tool that can be called. A call works with the object that it resolved: a reload puts a new object
/// into a new catalog and leaves this one unchanged.
pub trait Tool: Send + Sync + 'static {
    /// The properties that listings show and that the dispatcher obeys.
    fn spec(&self) -> &ToolSpec;

    /// Checks arguments against the input schema, within a time that others can wait for:
    /// about a millisecond. Larger checks are left [`ArgumentCheck::Unfinished`].
    fn check(&self, arguments: &RawJson) -> ArgumentCheck;

    /// Checks arguments to the end, on a separate thread and charged to the caller that ordered the
    /// check, for as long as a run of the tool may compute. Dropping the future ends it.
    /// [`ArgumentCheck::Unfinished`] means that it was stopped.
    fn check_fully(
        self: Arc<Self>,
        arguments: RawJson,
        order: CheckOrder,
    ) -> BoxFuture<'static, ArgumentCheck> {
        drop(order);
        Box::pin(std::future::ready(self.check(&arguments)))
    }

    /// The arguments as the guest gets them, if the host turns them into values first. `None` if the
    /// guest reads the JSON text itself, or if the tool refuses the arguments, so that no guest gets
    /// them.
    fn typed_arguments(&self, _arguments: &RawJson) -> Option<ArgumentValue<'static>> {
        None
    }

    /// Reserves the resources that one run of it needs.
    ///
    /// # Errors
    /// Why there is none now.
    fn reserve(&self) -> Result<Reservation, ReservationError> {
        Ok(Reservation::UNBOUNDED)
    }

    /// Whether its runs are known to end, or to yield, soon after they begin. Others
    /// must not begin on a thread that serves clients.
    fn is_quick(&self) -> bool {
        true
    }

    /// Runs the tool in what [`Tool::reserve`] set aside for it. Nothing happens
    /// before the first poll. A quick run ends in its first poll; a run that yields
    /// may be moved to another thread. Dropping the future ends the run and frees all
    /// that it holds.
    fn run(
        self: Arc<Self>,
        arguments: RawJson,
        reservation: Reservation,
        context: Arc<dyn RunContext>,
    ) -> BoxFuture<'static, RunEnd>;

    /// The same tool as another component has it, with the settings and the grants of this one: a task that resumes
    /// ends on the component on which it began. May take as long as a compilation.
    ///
    /// # Errors
    /// Why there is none, in words for the log.
    fn of_component(self: Arc<Self>, _digest: Digest) -> BoxFuture<'static, Result<Arc<dyn Tool>, String>> {
        Box::pin(std::future::ready(Err("the tool has one component".to_owned())))
    }

    /// Makes runs of this tool that are computing look at
    /// [`RunContext::stopped`] at once.
    fn interrupt(&self);
}

/// How arguments fit the input schema of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentCheck {
    /// The arguments fit.
    Fits,
    /// The arguments do not fit. The text says why, in one or more sentences that a model can act upon.
    Misfit(String),
    /// The check has not finished.
    Unfinished,
}

/// The account to which a check is charged, and the signal that it must end.
#[derive(Clone)]
pub struct CheckOrder {
    /// The account.
    pub share: CpuShare,
    /// Whether it must end. Cheap: it is read every millisecond.
    pub stopped: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// The fixed properties of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The entry of `tools/list`.
    pub description: ToolDescription,
    /// Whether it may be called as a task, according to the manifest.
    pub task_support: TaskSupport,
    /// The component that it comes from.
    pub digest: Digest,
    /// The plugin's file name, for people.
    pub plugin: String,
    /// How often clients should ask about its tasks, in milliseconds; the
    /// default of the host if absent.
    pub poll_interval_ms: Option<u64>,
    /// Text for the model when a task begins (T-15).
    pub immediate_response: Option<String>,
    /// The fate of its tasks if their host is gone.
    pub durability: Durability,
    /// How long a call may take before it becomes a task, if the host decides that (26T-3); zero means
    /// at once. The default of the host if absent.
    pub inline_for: Option<Duration>,
    /// How long a plain call of a client without tasks may take before the bridge hands it off as a
    /// task; zero means at once. The default of the host if absent.
    pub bridge_after: Option<Duration>,
    /// The fate of a call that the bridge could hand off, if its client gives up first. The default of
    /// the host if absent.
    pub on_client_timeout: Option<OnClientTimeout>,
    /// How many runs of this tool's plugin there may be at once.
    pub concurrency: Option<u32>,
    /// How many tasks of this tool's plugin may wait for their turn; the host's own
    /// bounds hold in any case.
    pub queue: Option<u32>,
    /// How often it may be called, by all callers together.
    pub rate: Option<Rate>,
    /// Whether a person confirms its calls.
    pub confirm: ConfirmTerms,
    /// The limits on the reports of a run.
    pub reports: ReportBounds,
    /// The journals of its tasks, if they resume.
    pub journal: JournalTerms,
}

/// The operator's settings for the journals of a tool's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalTerms {
    /// The most bytes of one journal (`limits.journal`). A task whose journal is longer no longer resumes.
    pub limit: u64,
    /// Whether a journal stays after the end of its task.
    pub retention: JournalRetention,
}

impl Default for JournalTerms {
    fn default() -> Self {
        Self { limit: 16 << 20, retention: JournalRetention::Keep }
    }
}

/// The operator's setting for a call whose client gives up before the call ends: the client's timeout
/// cancels it, or the connection closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnClientTimeout {
    /// The call continues as a task.
    Keep,
    /// The host stops the call.
    Stop,
}

/// Limits of a run's reports. The receiver of the reports enforces them; each error or notice names
/// the key of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportBounds {
    /// Bytes of log messages that go to the host's own log (`limits.log`).
    pub log_bytes: u64,
    /// Log messages a second that go to the client (`limits.log-rate`).
    pub logs_per_second: u32,
    /// Progress messages a second (`limits.progress-rate`).
    pub progress_per_second: u32,
    /// Questions to the client (`limits.questions`).
    pub questions: u32,
    /// Questions to a person for permission (`limits.permissions`).
    pub permissions: u32,
}

impl Default for ReportBounds {
    fn default() -> Self {
        Self {
            log_bytes: 64 << 10,
            logs_per_second: 50,
            progress_per_second: 20,
            questions: 64,
            permissions: 8,
        }
    }
}

impl ToolSpec {
    /// The name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.description.name
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// With a result: a `CallToolResult` object. Traps, exceeded limits and malformed output also
    /// arrive in this way, with `is_error` set and a text that says what happened.
    Result {
        /// The `isError` of the result.
        is_error: bool,
        /// The object.
        result: RawJson,
        /// The first words of an error, for the status message (T-19).
        message: Option<String>,
    },
    /// With a JSON-RPC error.
    Error(RpcError),
    /// The run was stopped because [`RunContext::stopped`] turned true.
    Stopped,
}

/// A question of a guest.
#[derive(Clone)]
pub struct AskedQuestion {
    /// The guest's name for it.
    pub key: String,
    /// The method.
    pub method: String,
    /// The params, an object.
    pub params: RawJson,
    /// A check of the answer beyond its form.
    pub check: Option<Arc<dyn AnswerCheck>>,
}

/// A check of an answer, so that the host can ask the client again while the run still waits
/// (26M-5, 26T-22). The asker checks the final answer itself as well.
pub trait AnswerCheck: Send + Sync + 'static {
    /// Checks the result object of the answer.
    ///
    /// # Errors
    /// What does not fit, in a sentence.
    fn check(&self, result: &RawJson) -> Result<(), String>;
}

// Two questions are equal if their contents are; the check depends only on the contents.
impl PartialEq for AskedQuestion {
    fn eq(&self, other: &Self) -> bool {
        let Self { key, method, params, check: _ } = self;
        (key, method, params) == (&other.key, &other.method, &other.params)
    }
}

impl Eq for AskedQuestion {}

impl fmt::Debug for AskedQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, method, params, check } = self;
        f.debug_struct("AskedQuestion")
            .field("key", key)
            .field("method", method)
            .field("params", params)
            .field("is_checked", &check.is_some())
            .finish()
    }
}

/// The answer to a question of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenAnswer {
    /// The key of the question.
    pub key: String,
    /// The result, or why there is none.
    pub outcome: Result<RawJson, AskError>,
}

/// A report of a guest, which does not wait for the host to handle it.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// How far it is.
    Progress(Progress),
    /// The task's status message.
    Status(String),
    /// A log message.
    Log {
        /// How serious it is.
        level: LogLevel,
        /// The name of the logger.
        logger: Option<String>,
        /// Any JSON value.
        data: RawJson,
    },
    /// The offers of the plugin have changed.
    Changed(OfferChange),
    /// The user has finished the page of the question with this key, in URL mode (E-6).
    ElicitationComplete {
        /// The key of the question.
        key: String,
    },
    /// The run has ended, or was dropped, and used this much. The last report.
    Usage(RunUsage),
    /// The host has done something for the guest.
    HostCall(Box<HostCall>),
    /// The guest has written a line to standard output or standard error.
    Output {
        /// Which of the two.
        stream: OutputStream,
        /// The line, without secrets and control characters.
        line: String,
    },
    /// The client's connection may be closed for so many milliseconds.
    ReleaseStream {
        /// When the client should come back.
        retry_ms: u64,
    },
}

/// A stream that a guest writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// The name of the stream.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The resources that a run used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunUsage {
    /// Processor time of the guest.
    pub cpu: Duration,
    /// Elapsed time.
    pub wall: Duration,
    /// The peak linear memory of the run, in bytes; `None` if the run did not end by itself.
    pub memory: Option<u64>,
}

/// A change in a plugin's offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferChange {
    /// The tools of the plugin.
    Tools,
    /// The prompts of the plugin.
    Prompts,
    /// The resources of the plugin.
    Resources,
    /// The resource with this URI.
    Resource(String),
}

/// The services of the host for a run, and the signal that it must end.
#[async_trait]
pub trait RunContext: Send + Sync + 'static {
    /// Whether the run must end. Cheap: it is read at every epoch tick.
    fn stopped(&self) -> bool;

    /// Whether the run may still have effects outside for its task. False once its host may be dead to
    /// the others: then another run may be under way.
    fn may_act(&self) -> bool {
        true
    }

    /// Accepts a report. Never blocks; reports that come too fast are dropped, and the latest wins.
    fn report(&self, report: Report);

    /// The account to which the run is charged.
    fn share(&self) -> CpuShare {
        CpuShare::default()
    }

    /// Information about the call, for the guest's `call-info`.
    fn info(&self) -> CallInfo;

    /// The journal of the run, if its task can resume.
    fn journal(&self) -> Option<Arc<dyn RunJournal>> {
        None
    }

    /// The recorded HTTP exchanges that answer the run's requests; `None` if the network does.
    fn http_tape(&self) -> Option<&dyn HttpTape> {
        None
    }

    /// Whether the client gets an error of its own about a missing capability (`-32021`, 26R-4). If its
    /// revision has no such error, a guest's `missing-capability` becomes a result that is an error, or
    /// `-32603`.
    fn tells_missing_capabilities(&self) -> bool {
        false
    }

    /// Asks the client.
    async fn ask(&self, questions: Vec<AskedQuestion>) -> Result<Vec<GivenAnswer>, AskError>;

    /// Whether the plugin may have all of these, which its manifest leaves to the user. An earlier
    /// verdict decides; otherwise the host asks the user and waits. Call it again at every use: a
    /// permission may be revoked, or be valid for one use only. A host that cannot ask a user permits
    /// nothing.
    ///
    /// # Errors
    /// The first wish that is not permitted, and why.
    async fn permission(&self, wanted: Vec<AccessRequest>) -> Result<(), NotPermitted> {
        let refuse =
            |wanted| NotPermitted { wanted, why: WhyNot::CannotAsk("there is no user to ask".to_owned()) };
        wanted.into_iter().next().map_or(Ok(()), |first| Err(refuse(first)))
    }

    /// Turns the call into a task.
    ///
    /// # Errors
    /// A sentence that says why it could not be done.
    async fn begin_task(&self) -> Result<(), String>;

    /// Asks the person whose task it is about a request that was under way when its host stopped: `doubt` is the
    /// name of this doubt, unique in the task, and `request` the method and the URL. Returns the decision and the name
    /// of the person, or `None` without an answer.
    async fn decide_doubt(&self, _doubt: &str, _request: &str) -> Option<(DoubtDecision, String)> {
        None
    }

    /// A request that may have an effect is about to leave a run that is recorded. A call that an equal call could join
    /// becomes a task first.
    async fn before_effect(&self) {}

    /// Marks the call as one that has effects.
    ///
    /// # Errors
    /// If that could not be made durable.
    async fn effects(&self) -> Result<(), AskError>;
}

/// The account to which a run is charged. Runs that compute at the same time share the processors by
/// the weights of their accounts, however many runs each has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuShare {
    /// The account: the key of a principal.
    pub account: Arc<str>,
    /// The weight of the account in the sharing of processor time; at least 1.
    pub weight: u32,
}

impl Default for CpuShare {
    fn default() -> Self {
        Self { account: "".into(), weight: 1 }
    }
}

/// Information about a call.
#[derive(Debug, Clone)]
pub struct CallInfo {
    /// The task of the call; `None` for a plain call.
    pub task: Option<TaskId>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// When the host gives up on it, if that is known before the engine's own limits are taken into
    /// account.
    pub deadline: Option<Timestamp>,
    /// The capabilities of the client: an object.
    pub client_capabilities: RawJson,
    /// The trace of the call; the guest's own spans are children of it.
    pub trace: Option<TraceContext>,
}
