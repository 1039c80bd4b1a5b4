//! The running call: its progress, its cancellation, and information from the host.

use std::convert::Infallible;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[cfg(target_family = "wasm")]
pub(crate) use crate::raw::host;
use crate::raw::{self, Change, LogLevel};
#[cfg(not(target_family = "wasm"))]
pub(crate) use crate::testing::host;
use crate::{Context, Error};

/// Reports progress to the caller: `done` of `total`, if the total is known. An empty `message` sends none.
/// Only callers that asked for progress receive it. `done` must increase from call to call.
///
/// ```no_run
/// # use toolyard_plugin::progress;
/// progress(2.0, 10.0, "two of ten");
/// progress(4_096.0, None, "");
/// ```
pub fn progress(done: f64, total: impl Into<Option<f64>>, message: &str) {
    host::progress(done, total.into(), (!message.is_empty()).then_some(message));
}

/// Sets the task's status message, one sentence. Has no effect in a plain call.
pub fn status(message: &str) {
    host::status(message);
}

/// Logs a message of any JSON value. For texts there are macros with the arguments of `format!`:
/// [`debug!`](crate::debug!), [`info!`](crate::info!), [`warning!`](crate::warning!) and
/// [`error!`](crate::error!).
pub fn log(level: LogLevel, data: &(impl Serialize + ?Sized)) {
    // A value that cannot be written as JSON must not fail the call.
    if let Ok(json) = serde_json::to_string(data) {
        host::log(level, None, &json);
    }
}

/// Suspends the call. This uses no thread.
pub fn sleep(duration: std::time::Duration) {
    host::sleep(duration.as_millis().try_into().unwrap_or(u64::MAX));
}

/// Whether the call is being cancelled, so that a tool can clean up early. The host stops it in any case.
pub fn cancelled() -> bool {
    host::cancelled()
}

/// [`cancelled`] as an error, for use with `?` in a loop.
pub fn check_cancelled() -> Result<(), Error> {
    if cancelled() { Err(Error::cancelled()) } else { Ok(()) }
}

/// Makes the call a task, which outlives its connection. Has no effect if the call already is a task or
/// cannot become one; [`CallInfo::task_id`] tells which. Under 2026-07-28, a tool whose calls may become tasks
/// uses this when waiting makes no sense. In earlier revisions the client decides, with the call.
pub fn begin_task() -> Result<(), TaskError> {
    host::begin_task().map_err(|error| match error {
        raw::TaskError::Busy(why) => TaskError::Busy(why),
        raw::TaskError::Failed(why) => TaskError::Failed(why),
    })
}

/// Ends this run of a task that resumes (`durability = "resume"` in the manifest). The call begins again in a
/// fresh instance, with the same arguments, and [`restored`] returns the state. The host drops the journal of
/// the task so far, so a task that works for days keeps a short one and resumes quickly.
///
/// Returns only if that fails, and then the run can go on by itself. A plain call always gets an error. The
/// JSON of the state has at most 256 KiB. Do not call this while a request is under way.
///
/// ```no_run
/// # use serde::{Deserialize, Serialize};
/// # use toolyard_plugin::{Error, continue_with, restored};
/// # fn index_page(_page: u32) -> Result<(), Error> { Ok(()) }
/// #[derive(Default, Deserialize, Serialize)]
/// struct Indexed {
///     pages: u32,
/// }
///
/// fn index(pages: u32) -> Result<(), Error> {
///     let mut indexed: Indexed = restored()?.unwrap_or_default();
///     while indexed.pages < pages {
///         index_page(indexed.pages)?;
///         indexed.pages += 1;
///         if indexed.pages % 100 == 0 {
///             // In a plain call this run goes on.
///             let Err(_) = continue_with(&indexed);
///         }
///     }
///     Ok(())
/// }
/// ```
pub fn continue_with(state: &(impl Serialize + ?Sized)) -> Result<Infallible, TaskError> {
    let json = serde_json::to_string(state).map_err(|error| TaskError::CannotContinue(error.to_string()))?;
    match host::continue_with(&json) {
        Err(raw::TaskError::Busy(why) | raw::TaskError::Failed(why)) => Err(TaskError::CannotContinue(why)),
        Ok(()) => unreachable!("the host ends a run that continues with a state"),
    }
}

/// The state that an earlier run of the task gave to [`continue_with`]; `None` in the first run and in a plain
/// call.
///
/// # Errors
/// If the state does not fit the type.
pub fn restored<T: DeserializeOwned>() -> Result<Option<T>, Error> {
    #[derive(Deserialize)]
    struct Info<T> {
        state: Option<T>,
    }
    let info: Info<T> =
        serde_json::from_str(&host::call_info()).context("reading the state of an earlier run")?;
    Ok(info.state)
}

/// The reason why a call did not become a task, or does not continue with a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskError {
    /// There are too many tasks.
    Busy(String),
    /// The host could not store the task.
    Failed(String),
    /// The call does not continue with the state; the run goes on.
    CannotContinue(String),
}

impl std::error::Error for TaskError {}

impl std::fmt::Display for TaskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busy(why) => write!(f, "no task, the host is busy: {why}"),
            Self::Failed(why) => write!(f, "no task: {why}"),
            Self::CannotContinue(why) => write!(f, "cannot continue with the state: {why}"),
        }
    }
}

/// Declares that the call has effects from here on: the host does not run it again by itself. Call this
/// before you change anything, and after the last question. Under 2026-07-28, a later question needs a task,
/// and fails with [`TooLate`](crate::AskError::TooLate) if the call cannot become one.
pub fn effects() -> Result<(), crate::AskError> {
    Ok(host::effects()?)
}

/// Announces a change in what the component offers.
pub fn changed(what: &Change) {
    host::changed(what);
}

/// Closes the call's connection for now, to save it during long work. The client reconnects after `retry` and
/// loses nothing.
pub fn release_stream(retry: std::time::Duration) {
    host::release_stream(retry.as_millis().try_into().unwrap_or(u64::MAX));
}

/// Information from the host about the call.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallInfo {
    /// The id of the task; `None` in a plain call.
    pub task_id: Option<String>,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The time at which the call must end (RFC 3339).
    pub deadline: Option<String>,
    /// The name of the called tool.
    pub tool: Option<String>,
    /// The capabilities that the client declared for this call or its session: MCP `ClientCapabilities`.
    pub client_capabilities: Map<String, Value>,
    /// The principal of the call, if the manifest grants this information.
    pub subject: Option<Value>,
    /// The argument of [`continue_with`] in an earlier run of the task; [`restored`] reads it as a type.
    pub state: Option<Value>,
    /// W3C Trace Context, for requests that the tool makes for this call.
    pub traceparent: Option<String>,
    /// W3C Trace Context.
    pub tracestate: Option<String>,
}

/// Returns information about this call.
pub fn call_info() -> CallInfo {
    // The host's JSON is valid; a tool must also work without this information.
    serde_json::from_str(&host::call_info()).unwrap_or_default()
}

/// Logs a text at a level: `log_text!(LogLevel::Notice, "{n} rows")`.
#[macro_export]
macro_rules! log_text {
    ($level:expr, $($text:tt)+) => {
        $crate::log($level, &::std::format!($($text)+))
    };
}

/// Logs a message of level debug.
#[macro_export]
macro_rules! debug {
    ($($text:tt)+) => { $crate::log_text!($crate::LogLevel::Debug, $($text)+) };
}

/// Logs a message of level info.
#[macro_export]
macro_rules! info {
    ($($text:tt)+) => { $crate::log_text!($crate::LogLevel::Info, $($text)+) };
}

/// Logs a message of level warning.
#[macro_export]
macro_rules! warning {
    ($($text:tt)+) => { $crate::log_text!($crate::LogLevel::Warning, $($text)+) };
}

/// Logs a message of level error.
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
    fn the_call_is_described_and_its_stop_is_seen() {
        let info = call_info();
        assert_eq!((info.attempt, info.task_id), (1, None));
        assert!(begin_task().is_ok() && effects().is_ok());
        assert!(!cancelled() && check_cancelled().is_ok());
        testing::cancel();
        assert!(cancelled() && check_cancelled().is_err());
    }

    #[test]
    fn a_state_is_given_and_restored() {
        assert_eq!(restored::<Vec<u32>>().expect("no state"), None);
        let Err(why) = continue_with(&[1, 2]);
        assert_eq!(why.to_string(), "cannot continue with the state: the call is not a task that resumes");
        let heard = testing::heard();
        let [Heard::ContinueWith(state)] = &heard[..] else { panic!("{heard:?}") };
        testing::restore(state.clone());
        assert_eq!(restored().expect("a list"), Some(vec![1, 2]));
        assert_eq!(call_info().state, Some(state.clone()));
        let error = restored::<String>().expect_err("no text");
        assert!(error.to_string().starts_with("reading the state of an earlier run: "), "{error}");
        let Err(why) = continue_with(&std::collections::BTreeMap::from([((1, 2), 3)]));
        assert_eq!(why.to_string(), "cannot continue with the state: key must be a string");
        assert!(testing::heard().is_empty());
    }
}
