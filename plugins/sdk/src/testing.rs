//! Native unit tests of tools. This module replaces the host, with one instance per thread and so per test.
//! It records the tool's calls of the host, and returns the answers that the test provides. It never sleeps.
//!
//! ```
//! use serde_json::json;
//! use toolyard_plugin::{Answer, ask, testing};
//!
//! testing::answer("name", json!({ "action": "accept", "content": { "answer": "Ada" } }));
//! assert_eq!(ask::<String>("name", "Who?"), Ok(Answer::Accepted("Ada".to_owned())));
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::http::RequestError;
use crate::raw;

/// A call of the host by a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// Progress.
    Progress {
        /// The part that is done.
        done: f64,
        /// The total, if known.
        total: Option<f64>,
        /// The message.
        message: Option<String>,
    },
    /// The task's status message.
    Status(String),
    /// A log message.
    Log {
        /// The level.
        level: raw::LogLevel,
        /// The message, any JSON value.
        data: Value,
    },
    /// A question.
    Asked {
        /// The key that the tool chose.
        key: String,
        /// The method of the request to the client.
        method: String,
        /// The params of the request.
        params: Value,
    },
    /// The call has effects from here on.
    Effects,
    /// The call becomes a task.
    BeginTask,
    /// The call continues with this state.
    ContinueWith(Value),
    /// The change, formatted with `Debug`.
    Changed(String),
    /// An HTTP request.
    Requested {
        /// The method.
        method: String,
        /// The URL.
        url: String,
        /// The headers that the tool set.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
}

/// The status, the headers and the body of a response.
type Recorded = (u16, Vec<(String, String)>, Vec<u8>);

#[derive(Default)]
struct Stage {
    heard: Vec<Heard>,
    answers: BTreeMap<String, Result<String, raw::AskError>>,
    /// By method and URL.
    responses: BTreeMap<(String, String), Result<Recorded, RequestError>>,
    is_cancelled: bool,
    /// The state of an earlier run.
    restored: Option<Value>,
}

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::default();
}

fn on_stage<T>(act: impl FnOnce(&mut Stage) -> T) -> T {
    STAGE.with_borrow_mut(act)
}

/// Answers the question with this key with a result object, such as an `ElicitResult`.
pub fn answer(key: &str, result: Value) {
    on_stage(|stage| stage.answers.insert(key.to_owned(), Ok(result.to_string())));
}

/// Leaves the question with this key without an answer.
pub fn no_answer(key: &str, why: raw::AskError) {
    on_stage(|stage| stage.answers.insert(key.to_owned(), Err(why)));
}

/// Answers the requests with this method and URL with this status and body, which has the type
/// `application/json` if it is JSON.
pub fn respond(method: &str, url: &str, status: u16, body: impl AsRef<[u8]>) {
    let body = body.as_ref().to_vec();
    let json = serde_json::from_slice::<Value>(&body).is_ok();
    let headers = json.then(|| ("content-type".to_owned(), "application/json".to_owned()));
    let response = (status, headers.into_iter().collect(), body);
    on_stage(|stage| stage.responses.insert((method.to_owned(), url.to_owned()), Ok(response)));
}

/// Leaves the requests with this method and URL without a response.
pub fn no_response(method: &str, url: &str, why: RequestError) {
    on_stage(|stage| stage.responses.insert((method.to_owned(), url.to_owned()), Err(why)));
}

/// Cancels the call from here on.
pub fn cancel() {
    on_stage(|stage| stage.is_cancelled = true);
}

/// Gives the call this state of an earlier run: [`restored`](crate::restored) returns it.
///
/// [`continue_with`](crate::continue_with) cannot end a unit test, so here it returns the error of a plain
/// call. The test finds the state in [`heard`], restores it and calls the tool again.
pub fn restore(state: Value) {
    on_stage(|stage| stage.restored = Some(state));
}

/// The calls of the host since the last call of this function.
pub fn heard() -> Vec<Heard> {
    on_stage(|stage| std::mem::take(&mut stage.heard))
}

/// The exchange of an HTTP request and its response.
pub(crate) mod exchange {
    use super::{Heard, on_stage};
    use crate::http::{Request, RequestError, Response, Target};

    pub fn send(request: &Request, target: &Target<'_>) -> Result<Response, RequestError> {
        let Request { method, url, headers, body, .. } = request.clone();
        let none = || RequestError::Failed {
            target: target.authority.to_owned(),
            why: format!("the test has no response to {method} {url}"),
        };
        let response = on_stage(|stage| stage.responses.get(&(method.clone(), url.clone())).cloned());
        let response = response.unwrap_or_else(|| Err(none()));
        on_stage(|stage| stage.heard.push(Heard::Requested { method, url, headers, body }));
        let (status, headers, body) = response?;
        Ok(Response::new(status, headers, Incoming(Some(body))))
    }

    #[derive(Debug)]
    pub struct Incoming(Option<Vec<u8>>);

    impl Incoming {
        #[allow(clippy::unnecessary_wraps, reason = "as over the network")]
        pub fn chunk(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
            Ok(self.0.take().filter(|body| !body.is_empty()))
        }
    }
}

/// The functions of the interface `host`.
#[allow(clippy::unnecessary_wraps, reason = "as the bindings have them")]
pub(crate) mod host {
    use super::{Heard, on_stage, raw};

    fn hear(what: Heard) {
        on_stage(|stage| stage.heard.push(what));
    }

    fn value(json: &str) -> serde_json::Value {
        serde_json::from_str(json)
            .unwrap_or_else(|error| panic!("the host was given invalid JSON: {error}: {json}"))
    }

    pub fn progress(done: f64, total: Option<f64>, message: Option<&str>) {
        hear(Heard::Progress { done, total, message: message.map(str::to_owned) });
    }

    pub fn status(message: &str) {
        hear(Heard::Status(message.to_owned()));
    }

    pub fn log(level: raw::LogLevel, _logger: Option<&str>, data: &str) {
        hear(Heard::Log { level, data: value(data) });
    }

    pub fn cancelled() -> bool {
        on_stage(|stage| stage.is_cancelled)
    }

    pub fn sleep(_milliseconds: u64) {}

    pub fn ask(questions: &[raw::Question]) -> Result<Vec<raw::Answer>, raw::AskError> {
        let answer = |question: &raw::Question| {
            let raw::Question { key, method, params } = question.clone();
            let none = || Err(raw::AskError::Unsupported(format!("the test has no answer to {key:?}")));
            let outcome = on_stage(|stage| stage.answers.get(&key).cloned()).unwrap_or_else(none);
            hear(Heard::Asked { key: key.clone(), method, params: value(&params) });
            raw::Answer { key, outcome }
        };
        Ok(questions.iter().map(answer).collect())
    }

    pub fn elicitation_complete(_key: &str) {}

    pub fn begin_task() -> Result<(), raw::TaskError> {
        hear(Heard::BeginTask);
        Ok(())
    }

    pub fn effects() -> Result<(), raw::AskError> {
        hear(Heard::Effects);
        Ok(())
    }

    pub fn call_info() -> String {
        let mut info = serde_json::json!({ "attempt": 1 });
        if let Some(state) = on_stage(|stage| stage.restored.clone()) {
            info["state"] = state;
        }
        info.to_string()
    }

    pub fn changed(what: &raw::Change) {
        hear(Heard::Changed(format!("{what:?}")));
    }

    pub fn release_stream(_retry_ms: u64) {}

    pub fn continue_with(state: &str) -> Result<(), raw::TaskError> {
        hear(Heard::ContinueWith(value(state)));
        Err(raw::TaskError::Failed("the call is not a task that resumes".to_owned()))
    }
}
