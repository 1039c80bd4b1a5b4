//! The running call: how far it is, whether it is to stop, what the host knows of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;
#[cfg(target_family = "wasm")]
pub(crate) use crate::raw::host;
use crate::raw::{self, Change, LogLevel};
#[cfg(not(target_family = "wasm"))]
pub(crate) use crate::testing::host;

/// Tells the caller how far the work is: so much `done` of the `total`, if that is known.
/// An empty `message` is none. Only the caller who asked for progress gets it, and `done`
/// must rise from call to call.
///
/// ```no_run
/// # use toolyard_plugin::progress;
/// progress(2.0, 10.0, "two of ten");
/// progress(4_096.0, None, "");
/// ```
pub fn progress(done: f64, total: impl Into<Option<f64>>, message: &str) {
    host::progress(done, total.into(), (!message.is_empty()).then_some(message));
}

/// Sets the task's status message: one sentence. No effect in a plain call.
pub fn status(message: &str) {
    host::status(message);
}

/// Writes a log message of any JSON value. For texts there are macros:
/// [`debug!`](crate::debug!), [`info!`](crate::info!), [`warning!`](crate::warning!) and
/// [`error!`](crate::error!), which take what `format!` takes.
pub fn log(level: LogLevel, data: &(impl Serialize + ?Sized)) {
    // What cannot be written as JSON is not worth the call.
    if let Ok(json) = serde_json::to_string(data) {
        host::log(level, None, &json);
    }
}

/// Suspends the call. It costs no thread.
pub fn sleep(duration: std::time::Duration) {
    host::sleep(duration.as_millis().try_into().unwrap_or(u64::MAX));
}

/// Whether the call is being stopped: an early sign, so that a tool can tidy up. The
/// host stops it in any case.
pub fn cancelled() -> bool {
    host::cancelled()
}

/// [`cancelled`] for use with `?` in the midst of a loop.
pub fn check_cancelled() -> Result<(), Error> {
    if cancelled() { Err(Error::cancelled()) } else { Ok(()) }
}

/// From here on the call is a task, which outlives its connection. Nothing happens if it
/// is one already or cannot be one; [`CallInfo::task_id`] tells. Under 2026-07-28 this is
/// how a tool with [`optional_task`](crate::Tool::optional_task) says that there is no use
/// in waiting for it; in earlier revisions the client decides, with the call.
pub fn begin_task() -> Result<(), TaskError> {
    host::begin_task().map_err(|error| match error {
        raw::TaskError::Busy(why) => TaskError::Busy(why),
        raw::TaskError::Failed(why) => TaskError::Failed(why),
    })
}

/// Why a call did not become a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskError {
    /// There are too many.
    Busy(String),
    /// The host could not store it.
    Failed(String),
}

impl std::error::Error for TaskError {}

impl std::fmt::Display for TaskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busy(why) => write!(f, "no task, the host is busy: {why}"),
            Self::Failed(why) => write!(f, "no task: {why}"),
        }
    }
}

/// From here on the call has effects: the host does not run it again on its own account.
/// To be called before anything is changed, and after the last question: under 2026-07-28
/// a later one can only be waited for in a task, and fails with
/// [`TooLate`](crate::AskError::TooLate) where the call cannot become one.
pub fn effects() -> Result<(), crate::AskError> {
    Ok(host::effects()?)
}

/// Says that what the component offers has changed.
pub fn changed(what: &Change) {
    host::changed(what);
}

/// Closes the call's connection for now, to spare it during long work; the client comes
/// back after so long and loses nothing.
pub fn release_stream(retry: std::time::Duration) {
    host::release_stream(retry.as_millis().try_into().unwrap_or(u64::MAX));
}

/// What the host says about the call.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallInfo {
    /// The id of the task; none in a plain call.
    pub task_id: Option<String>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// When the call must be done (RFC 3339).
    pub deadline: Option<String>,
    /// The tool that is called.
    pub tool: Option<String>,
    /// What the client can do, as it said for this call or its session: MCP
    /// `ClientCapabilities`.
    pub client_capabilities: Map<String, Value>,
    /// Who calls, if the manifest grants that to be known.
    pub subject: Option<Value>,
    /// W3C Trace Context, for requests that the tool makes for this call.
    pub traceparent: Option<String>,
    /// W3C Trace Context.
    pub tracestate: Option<String>,
}

/// About this call.
pub fn call_info() -> CallInfo {
    // The host writes it, so it can be read; a tool can do without in any case.
    serde_json::from_str(&host::call_info()).unwrap_or_default()
}

/// Logs a text at a level: `log_text!(LogLevel::Notice, "{n} rows")`.
#[macro_export]
macro_rules! log_text {
    ($level:expr, $($text:tt)+) => {
        $crate::log($level, &::std::format!($($text)+))
    };
}

/// Logs details for debugging.
#[macro_export]
macro_rules! debug {
    ($($text:tt)+) => { $crate::log_text!($crate::LogLevel::Debug, $($text)+) };
}

/// Logs what is normal.
#[macro_export]
macro_rules! info {
    ($($text:tt)+) => { $crate::log_text!($crate::LogLevel::Info, $($text)+) };
}

/// Logs that something may be wrong.
#[macro_export]
macro_rules! warning {
    ($($text:tt)+) => { $crate::log_text!($crate::LogLevel::Warning, $($text)+) };
}

/// Logs that something failed.
#[macro_export]
macro_rules! error {
    ($($text:tt)+) => { $crate::log_text!($crate::LogLevel::Error, $($text)+) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Heard};

    #[test]
    fn the_host_hears_what_it_is_told() {
        progress(1.0, 3.0, "one");
        progress(2.0, None, "");
        status("well");
        let rows = 3;
        crate::warning!("{rows} rows");
        log(LogLevel::Info, &[1, 2]);
        let expected = [
            Heard::Progress { done: 1.0, total: Some(3.0), message: Some("one".to_owned()) },
            Heard::Progress { done: 2.0, total: None, message: None },
            Heard::Status("well".to_owned()),
            Heard::Log { level: LogLevel::Warning, data: "3 rows".into() },
            Heard::Log { level: LogLevel::Info, data: serde_json::json!([1, 2]) },
        ];
        assert_eq!(testing::heard(), expected);
        assert!(testing::heard().is_empty());
    }

    #[test]
    fn a_stop_is_seen() {
        assert!(!cancelled() && check_cancelled().is_ok());
        testing::cancel();
        assert!(cancelled() && check_cancelled().is_err());
    }

    #[test]
    fn the_call_is_described() {
        let info = call_info();
        assert_eq!((info.attempt, info.task_id), (1, None));
        assert!(begin_task().is_ok() && effects().is_ok());
    }
}
