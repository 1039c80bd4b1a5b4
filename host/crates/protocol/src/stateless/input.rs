//! Requests that take several round trips: the input that is still needed, and the input of a retry
//! (26M), also for a task (26T-17).

use super::META_SERVER_INFO;
use crate::error::RpcError;
use crate::members::each;
use crate::method::Method;
use crate::question::Kind;
use crate::raw::RawJson;
use crate::tools::{CallParams, CallWire};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// The state and answers that a request brings from an earlier round (26M-4), unverified: the host that
/// issued the state checks it, and the asker checks an answer (26M-5, 26M-6).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retry {
    /// The answers by the keys of the questions, any JSON.
    pub responses: HashMap<String, RawJson>,
    /// The state, as the server issued it to the client.
    pub state: Option<String>,
}

#[derive(Deserialize)]
struct RetryWire<'a> {
    #[serde(borrow, default, rename = "inputResponses", deserialize_with = "crate::raw::present")]
    responses: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "requestState", deserialize_with = "crate::raw::present")]
    state: Option<&'a RawValue>,
}

impl Retry {
    /// Decodes the two members of the params of this method; the answers share
    /// their memory.
    ///
    /// # Errors
    /// `-32602` if `inputResponses` is present and not an object, or `requestState` is present and not
    /// a string.
    pub fn decode(method: &Method, params: Option<&RawJson>) -> Result<Self, RpcError> {
        let Some(params) = params else { return Ok(Self::default()) };
        let wrong = |what: &str| RpcError::invalid_params(format!("{method}: {what}"));
        let wire: RetryWire<'_> = params.decode().map_err(|error| wrong(&error.to_string()))?;
        Self::of(params, wire.responses, wire.state).map_err(|what| wrong(&what))
    }

    pub(super) fn of(
        params: &RawJson,
        given: Option<&RawValue>,
        state: Option<&RawValue>,
    ) -> Result<Self, String> {
        let responses = given.map(|raw| responses(params, raw)).transpose()?;
        let state = state.map(|raw| serde_json::from_str(raw.get())).transpose();
        let state = state.map_err(|_| "`requestState` must be a string".to_owned())?;
        Ok(Self { responses: responses.unwrap_or_default(), state })
    }
}

/// The params of `tools/call` with the input from the round before, both read in one pass.
///
/// # Errors
/// As those of [`CallParams::decode`] and [`Retry::decode`].
pub fn call_params(params: Option<&RawJson>) -> Result<(CallParams, Retry), RpcError> {
    let wrong = |what: &str| RpcError::invalid_params(format!("tools/call: {what}"));
    let params = params.ok_or_else(|| RpcError::invalid_params("tools/call needs params"))?;
    let wire: CallWire<'_> = params.decode().map_err(|error| wrong(&error.to_string()))?;
    let retry = Retry::of(params, wire.responses, wire.state).map_err(|what| wrong(&what))?;
    let CallWire { name, arguments, task, meta, .. } = wire;
    Ok((CallParams::of(params, name, arguments, task, meta)?, retry))
}

fn responses(params: &RawJson, raw: &RawValue) -> Result<HashMap<String, RawJson>, String> {
    if !raw.get().starts_with('{') {
        return Err("`inputResponses` must be an object".to_owned());
    }
    let responses: HashMap<String, &RawValue> =
        serde_json::from_str(raw.get()).map_err(|error| format!("`inputResponses`: {error}"))?;
    let owner = params.bytes();
    Ok(responses.into_iter().map(|(key, value)| (key, RawJson::within(&owner, value))).collect())
}

/// The `inputRequests` of these questions, each with its key (26M-2). An
/// `elicitationId` is not shown (26M-8): the other generation needs it.
#[must_use]
pub fn input_requests<'a>(questions: impl Iterator<Item = (&'a str, Kind, &'a RawJson)>) -> RawJson {
    let mut out = String::from("{");
    for (key, kind, params) in questions {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(RawJson::of(key).as_str());
        out.push_str(":{\"method\":\"");
        out.push_str(kind.method());
        out.push_str("\",\"params\":");
        match kind {
            Kind::Url => push_without_id(params.as_str(), &mut out),
            Kind::Form | Kind::Sampling | Kind::Roots => out.push_str(params.as_str()),
        }
        out.push('}');
    }
    out.push('}');
    RawJson::trusted(out)
}

fn push_without_id(params: &str, out: &mut String) {
    out.push('{');
    let mut first = true;
    let read = each(params, |member| {
        if !member.is("elicitationId") {
            if !first {
                out.push(',');
            }
            first = false;
            out.push_str(member.name);
            out.push(':');
            out.push_str(member.value.get());
        }
    });
    debug_assert!(read.is_ok(), "params are an object");
    out.push('}');
}

/// The result that asks for input, of `server` (26M-2, 26J-5). A client never keeps it (26M-7).
#[must_use]
pub fn input_required(requests: &RawJson, state: Option<&str>, server: &RawJson) -> RawJson {
    let state = state.map(|state| format!(",\"requestState\":{}", RawJson::of(state).as_str()));
    RawJson::trusted(format!(
        "{{\"resultType\":\"input_required\",\"inputRequests\":{}{},\"_meta\":{{\"{META_SERVER_INFO}\":{}}}}}",
        requests.as_str(),
        state.unwrap_or_default(),
        server.as_str()
    ))
}

/// The params of `tasks/update`: the task, and the answers by their keys (26T-17).
///
/// # Errors
/// `-32602` if one of them is missing or of the wrong type.
pub fn update_params(params: Option<&RawJson>) -> Result<(String, HashMap<String, RawJson>), RpcError> {
    let id = crate::tasks::task_id(params)?;
    let wrong = |what: &str| RpcError::invalid_params(format!("tasks/update: {what}"));
    let Some(params) = params else { return Err(wrong("params are required")) };
    let wire: RetryWire<'_> = params.decode().map_err(|error| wrong(&error.to_string()))?;
    let raw = wire.responses.ok_or_else(|| wrong("`inputResponses` is required and must be an object"))?;
    Ok((id, responses(params, raw).map_err(|error| wrong(&error))?))
}

#[cfg(test)]
mod tests;
