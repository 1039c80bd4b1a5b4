//! Questions of a server to its client: elicitation, sampling, roots (E-1 to E-8, M-1 to M-4,
//! IR-2). Questions are checked here before they leave, answers when they arrive; both keep their
//! text.

pub mod form;

mod sampling;

use crate::capabilities::ClientCapabilities;
use crate::error::RpcError;
use crate::method::Method;
use crate::raw::RawJson;
use crate::resources::is_uri;
use crate::response::RELATED_TASK;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// `elicitation/create` by a form.
    #[serde(rename = "form")]
    Form,
    /// `elicitation/create` by a page that the user is sent to.
    #[serde(rename = "url")]
    Url,
    /// `sampling/createMessage`.
    #[serde(rename = "sampling")]
    Sampling,
    /// `roots/list`.
    #[serde(rename = "roots")]
    Roots,
}

/// A valid question, for a client that has the capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedQuestion {
    /// The kind.
    pub kind: Kind,
    /// The params of the request.
    pub params: RawJson,
}

impl Kind {
    /// The method on the wire.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Form | Self::Url => Method::ElicitationCreate.as_str(),
            Self::Sampling => Method::SamplingCreateMessage.as_str(),
            Self::Roots => Method::RootsList.as_str(),
        }
    }

    /// Whether a client with these capabilities runs it as a task, so that we ask
    /// it to.
    #[must_use]
    pub const fn as_task(self, client: &ClientCapabilities) -> bool {
        match self {
            Self::Form | Self::Url => client.elicitation_tasks,
            Self::Sampling => client.sampling_tasks,
            Self::Roots => false,
        }
    }
}

/// Checks what a guest wants to ask. `elicitation_id` is for a question in URL mode (E-5): the host
/// assigns the ids, whatever the guest says.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn check(method: &str, params: &RawJson, elicitation_id: &str) -> Result<CheckedQuestion, String> {
    let value: Value = params.decode().map_err(|error| format!("the params cannot be read: {error}"))?;
    let Value::Object(members) = &value else {
        return Err("the params must be an object".to_owned());
    };
    check_reserved(members)?;
    match Method::from(method) {
        Method::ElicitationCreate => {
            match members.get("mode").map(|mode| mode.as_str().unwrap_or_default()) {
                None | Some("form") => {
                    form::check(members)?;
                    Ok(CheckedQuestion { kind: Kind::Form, params: params.clone() })
                }
                Some("url") => {
                    check_url(members)?;
                    let mut members = members.clone();
                    members.insert("elicitationId".to_owned(), elicitation_id.into());
                    Ok(CheckedQuestion { kind: Kind::Url, params: RawJson::of(&members) })
                }
                Some(_) => Err("`mode` must be \"form\" or \"url\"".to_owned()),
            }
        }
        Method::SamplingCreateMessage => {
            sampling::check(members)?;
            Ok(CheckedQuestion { kind: Kind::Sampling, params: params.clone() })
        }
        Method::RootsList => Ok(CheckedQuestion { kind: Kind::Roots, params: params.clone() }),
        _ => Err("the method must be elicitation/create, sampling/createMessage or roots/list".to_owned()),
    }
}

/// A guest must not set members that belong to the host.
fn check_reserved(members: &Map<String, Value>) -> Result<(), String> {
    if members.contains_key("task") {
        return Err("`task` is the host's to set".to_owned());
    }
    match members.get("_meta") {
        None => Ok(()),
        Some(Value::Object(meta)) => {
            match ["progressToken", RELATED_TASK].iter().find(|key| meta.contains_key(**key)) {
                Some(key) => Err(format!("`_meta.{key}` is the host's to set")),
                None => Ok(()),
            }
        }
        Some(_) => Err("`_meta` must be an object".to_owned()),
    }
}

fn check_url(members: &Map<String, Value>) -> Result<(), String> {
    if !members.get("message").is_some_and(Value::is_string) {
        return Err("`message` must be a string".to_owned());
    }
    check_page(members.get("url").and_then(Value::as_str).unwrap_or_default())
}

/// Whether a user may be sent to this address: it must be a page, not a script or a file, and must not
/// carry its own credentials (E-8).
///
/// # Errors
/// A sentence about the member `url`.
pub fn check_page(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let authority = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match authority {
        Some(authority) if is_uri(url) && !authority.is_empty() => {
            // Anyone who sees such a link can use it.
            if authority.contains('@') {
                return Err("`url` must not carry a user name or a password".to_owned());
            }
            Ok(())
        }
        _ => Err("`url` must be an http or https URL".to_owned()),
    }
}

impl CheckedQuestion {
    /// Whether a client with these capabilities may be asked (IR-2, E-1, M-1).
    ///
    /// # Errors
    /// The capability that it did not declare, in a sentence.
    pub fn check_client(&self, client: &ClientCapabilities) -> Result<(), String> {
        let lacks = |what: &str| Err(format!("the client did not declare the capability {what}"));
        match self.kind {
            Kind::Form if !client.form => lacks("elicitation.form"),
            Kind::Url if !client.url => lacks("elicitation.url"),
            Kind::Roots if !client.roots => lacks("roots"),
            Kind::Sampling if !client.sampling => lacks("sampling"),
            Kind::Sampling => match sampling::needs(&self.params) {
                needs if needs.tools && !client.sampling_tools => lacks("sampling.tools"),
                needs if needs.context && !client.sampling_context => lacks("sampling.context"),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The params as they are sent: with `task` if the client is asked to run it as a task with this
    /// ttl in milliseconds.
    #[must_use]
    pub fn params(&self, task_ttl_ms: Option<u64>) -> RawJson {
        match task_ttl_ms {
            Some(ttl) => crate::response::with_member(&self.params, "task", &format!("{{\"ttl\":{ttl}}}")),
            None => self.params.clone(),
        }
    }
}

/// The response of a client to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAnswer {
    /// The answer.
    Answer(RawJson),
    /// The client runs the question as a task of its own, and this is the task.
    Task(ClientTask),
}

/// A task that a client runs for us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTask {
    /// The id of the task, in the client's own name space.
    pub id: String,
    /// The status of the task.
    pub status: crate::tasks::TaskStatus,
    /// How often to ask about it, in milliseconds.
    pub poll_interval_ms: Option<u64>,
}

impl ClientTask {
    /// Reads a flat task, as `tasks/get` gives it.
    ///
    /// # Errors
    /// A sentence; an unknown status is one of the faults.
    pub fn decode(task: &RawJson) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            task_id: String,
            status: crate::tasks::TaskStatus,
            #[serde(default)]
            poll_interval: Option<f64>,
        }
        let wire: Wire = task.decode().map_err(|error| format!("it is not a task: {error}"))?;
        if wire.task_id.is_empty() || wire.task_id.len() > 1024 {
            return Err("its taskId is empty or too long".to_owned());
        }
        let poll_interval_ms = wire.poll_interval.filter(|ms| *ms >= 0.0).map(|ms| ms as u64);
        Ok(Self { id: wire.task_id, status: wire.status, poll_interval_ms })
    }
}

/// The longest answer to a question; a task stores it, and each change of the task writes it again.
pub const MAX_ANSWER_BYTES: usize = 64 << 10;
/// The longest message of a model that a client sampled, which may be an image.
pub const MAX_SAMPLED_BYTES: usize = 1 << 20;

/// Whether an answer is not too long.
///
/// # Errors
/// `-32602`, which names the limit.
pub fn check_size(kind: Kind, result: &RawJson) -> Result<(), RpcError> {
    let most = if kind == Kind::Sampling { MAX_SAMPLED_BYTES } else { MAX_ANSWER_BYTES };
    let bytes = result.as_bytes().len();
    if bytes <= most {
        return Ok(());
    }
    let method = kind.method();
    Err(RpcError::invalid_params(format!(
        "The answer to {method} has {bytes} bytes; at most {most} are taken"
    )))
}

/// Reads the result that came for a question: an answer, or a task if one was requested. Its shape
/// decides, whatever the client declared.
///
/// # Errors
/// `-32602`, with a sentence that says what is wrong with it.
pub fn given(kind: Kind, asked_for_task: bool, result: &RawJson) -> Result<ClientAnswer, RpcError> {
    #[derive(Deserialize)]
    struct Created {
        #[serde(default)]
        task: Option<RawJson>,
    }
    let wrong = |what: String| {
        RpcError::invalid_params(format!("The client's answer to {} cannot be used: {what}", kind.method()))
    };
    check_size(kind, result)?;
    if asked_for_task
        && let Ok(Created { task: Some(task) }) = result.decode::<Created>()
        && task.is_object()
    {
        return ClientTask::decode(&task).map(ClientAnswer::Task).map_err(wrong);
    }
    let value: Value = result.decode().map_err(|error| wrong(error.to_string()))?;
    let checked = match kind {
        Kind::Form | Kind::Url => form::check_answer(&value),
        Kind::Sampling => sampling::check_answer(&value),
        Kind::Roots => check_roots(&value),
    };
    checked.map_err(wrong)?;
    // E-3: only an accepted form has content. A page only returns agreement: the client does not learn
    // what the user entered there (E-9).
    let action = value["action"].as_str();
    let bare = match kind {
        Kind::Form => action != Some("accept"),
        Kind::Url => true,
        Kind::Sampling | Kind::Roots => false,
    };
    let answer = if bare { RawJson::of(&serde_json::json!({"action": action})) } else { result.clone() };
    Ok(ClientAnswer::Answer(answer))
}

fn check_roots(value: &Value) -> Result<(), String> {
    let roots = value["roots"].as_array().ok_or("`roots` must be an array")?;
    let is_root = |root: &Value| root["uri"].as_str().is_some_and(|uri| uri.starts_with("file://"));
    if roots.iter().all(is_root) { Ok(()) } else { Err("every root needs a file:// `uri`".to_owned()) }
}

#[cfg(test)]
mod tests;
