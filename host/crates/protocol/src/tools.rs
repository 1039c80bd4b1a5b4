//! `tools/list` and `tools/call` (TL-1 to TL-11, T-2 to T-9).

pub mod schema_keywords;
pub mod union_schema;

use crate::error::RpcError;
use crate::progress::{Meta, token_of};
use crate::raw::{RawJson, check_interoperable};
use crate::response::with_member;
use crate::revision::Revision;
use crate::trace::TraceContext;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Whether a tool may be called as a task (TL-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSupport {
    /// Never; the default of the protocol.
    Forbidden,
    /// As the client asks.
    Optional,
    /// Only as a task.
    Required,
}

impl TaskSupport {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

/// A tool, as `tools/list` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDescription {
    /// The name of the tool (TL-3).
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A JSON array of icons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<RawJson>,
    /// The schema of its arguments, unchanged (TL-4).
    pub input_schema: RawJson,
    /// The schema of its structured content (TL-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<RawJson>,
    /// A JSON object of hints (TL-7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<RawJson>,
    /// How it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// A JSON object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
}

/// How a tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// Whether it may be called as a task.
    pub task_support: TaskSupport,
}

impl ToolDescription {
    /// The listing entry for a client of this revision; `tasks` says whether
    /// tasks are offered to it.
    #[must_use]
    pub fn render(&self, revision: Revision, tasks: bool) -> RawJson {
        let mut shown = self.clone();
        if !(tasks && revision.has_tasks()) {
            shown.execution = None;
        }
        RawJson::of(&shown)
    }
}

/// The `ttl` that a client asked for (T-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestedTtl {
    /// None named: the default.
    Absent,
    /// `null`, unlimited: the cap.
    Unlimited,
    /// A ttl of this many milliseconds.
    Milliseconds(u64),
}

/// The params of `tools/call`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallParams {
    /// The tool.
    pub name: String,
    /// The arguments, an object; `{}` where none were given.
    pub arguments: RawJson,
    /// The augmentation that asks for a task: its ttl (T-7). An invalid one is
    /// kept as its error, because a revision without tasks ignores it (T-2).
    pub task: Option<Result<RequestedTtl, RpcError>>,
    /// The token for progress notifications (P-1): a string or an integer.
    pub progress_token: Option<RawJson>,
    /// The trace that the call belongs to.
    pub trace: Option<TraceContext>,
}

/// The members of the params in both generations.
#[derive(Deserialize)]
pub(crate) struct CallWire<'a> {
    pub name: String,
    #[serde(borrow)]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "crate::raw::present")]
    pub task: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    pub meta: Option<Meta<'a>>,
    #[serde(borrow, default, rename = "inputResponses", deserialize_with = "crate::raw::present")]
    pub responses: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "requestState", deserialize_with = "crate::raw::present")]
    pub state: Option<&'a RawValue>,
}

impl CallParams {
    /// Decodes the params; the arguments share their memory.
    ///
    /// # Errors
    /// `-32602` that says what is missing or of the wrong type.
    pub fn decode(params: Option<&RawJson>) -> Result<Self, RpcError> {
        let params = params.ok_or_else(|| RpcError::invalid_params("tools/call needs params"))?;
        let wire: CallWire<'_> =
            params.decode().map_err(|error| RpcError::invalid_params(format!("tools/call: {error}")))?;
        let CallWire { name, arguments, task, meta, .. } = wire;
        Self::of(params, name, arguments, task, meta)
    }

    /// From its members, which are within `params`.
    pub(crate) fn of(
        params: &RawJson,
        name: String,
        arguments: Option<&RawValue>,
        task: Option<&RawValue>,
        meta: Option<Meta<'_>>,
    ) -> Result<Self, RpcError> {
        let owner = params.bytes();
        if let Some(raw) = arguments {
            if !raw.get().starts_with('{') {
                return Err(RpcError::invalid_params("tools/call: `arguments` must be an object"));
            }
            // Everything that reads them must read the same: rules, the person who approves, and the tool.
            check_interoperable(raw.get())
                .map_err(|error| RpcError::invalid_params(format!("tools/call: `arguments`: {error}")))?;
        }
        let arguments = arguments.map_or_else(RawJson::empty_object, |raw| RawJson::within(&owner, raw));
        let progress_token = token_of(meta, &owner)?;
        let trace = meta.and_then(|meta| meta.trace());
        Ok(Self { name, arguments, task: task.map(requested_ttl), progress_token, trace })
    }
}

/// T-7, T-13: an object whose `ttl` is absent, null or a positive number.
fn requested_ttl(raw: &RawValue) -> Result<RequestedTtl, RpcError> {
    let wrong = |what: &str| RpcError::invalid_params(format!("tools/call: {what}"));
    let value: serde_json::Value =
        serde_json::from_str(raw.get()).map_err(|_| wrong("`task` must be an object"))?;
    let Some(members) = value.as_object() else {
        return Err(wrong("`task` must be an object"));
    };
    match members.get("ttl") {
        None => Ok(RequestedTtl::Absent),
        Some(serde_json::Value::Null) => Ok(RequestedTtl::Unlimited),
        Some(ttl) => match ttl.as_f64() {
            // `as` saturates, so a huge ttl becomes a long one and then meets the cap.
            Some(ms) if ms >= 1.0 => Ok(RequestedTtl::Milliseconds(ms as u64)),
            _ => Err(wrong("`task.ttl` must be null or a number of milliseconds, at least 1")),
        },
    }
}

/// A `CallToolResult` of one text block.
#[must_use]
pub fn text_result(text: &str, is_error: bool) -> RawJson {
    RawJson::of(&serde_json::json!({
        "content": [{"type": "text", "text": text}],
        "isError": is_error,
    }))
}

/// A `CallToolResult` with one more text block, as the first of its `content`. Everything else stays
/// unchanged. If `content` is absent or is not an array, the block becomes the only one.
///
/// If `result` is not an object, the new result has only this block.
#[must_use]
pub fn with_text_in_front(result: &RawJson, text: &str) -> RawJson {
    #[derive(Deserialize)]
    struct Members<'a> {
        #[serde(borrow, default, deserialize_with = "crate::raw::present")]
        content: Option<&'a RawValue>,
    }
    let whole = result.as_str();
    let members = result.is_object().then(|| result.decode::<Members<'_>>().ok()).flatten();
    let Some(Members { content }) = members else { return text_result(text, false) };
    let block = serde_json::json!({"type": "text", "text": text});
    let Some(content) = content.map(RawValue::get) else {
        return with_member(result, "content", &format!("[{block}]"));
    };
    let begin = content.as_ptr() as usize - whole.as_ptr() as usize;
    let (before, after) = (&whole[..begin], &whole[begin + content.len()..]);
    let blocks = match content.strip_prefix('[') {
        Some(rest) if rest.trim_start().starts_with(']') => format!("[{block}{rest}"),
        Some(rest) => format!("[{block},{rest}"),
        None => format!("[{block}]"),
    };
    RawJson::trusted(format!("{before}{blocks}{after}"))
}

/// Whether a text has only characters that are allowed in tool names (TL-3).
#[must_use]
pub fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// Whether it is a valid tool name: 1 to 128 of those characters (TL-3).
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && is_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<CallParams, RpcError> {
        CallParams::decode(Some(&RawJson::parse(text.to_owned()).expect("test JSON")))
    }

    #[test]
    fn t_7_t_13_the_augmentation_is_an_object_with_a_positive_ttl_or_none() {
        for (task, expected) in [
            ("{}", RequestedTtl::Absent),
            (r#"{"ttl":null}"#, RequestedTtl::Unlimited),
            (r#"{"ttl":60000}"#, RequestedTtl::Milliseconds(60_000)),
            (r#"{"ttl":1.5}"#, RequestedTtl::Milliseconds(1)),
            (r#"{"ttl":1e300}"#, RequestedTtl::Milliseconds(u64::MAX)),
            (r#"{"other":1}"#, RequestedTtl::Absent),
        ] {
            let call = decode(&format!(r#"{{"name":"x","task":{task}}}"#)).expect(task);
            assert_eq!(call.task, Some(Ok(expected)), "{task}");
        }
        for task in r#"null [] 5 true {"ttl":0} {"ttl":-1} {"ttl":"5"} {"ttl":0.5}"#.split(' ') {
            let call = decode(&format!(r#"{{"name":"x","task":{task}}}"#)).expect(task);
            assert_eq!(call.task.expect(task).expect_err(task).code, -32602, "{task}");
        }
        assert_eq!(decode(r#"{"name":"x"}"#).expect("plain").task, None);
    }

    #[test]
    fn p_1_a_progress_token_is_a_string_or_an_integer_and_zero_counts() {
        let call = |token: &str| decode(&format!(r#"{{"name":"x","_meta":{{"progressToken":{token}}}}}"#));
        for token in ["0", "\"\"", "\"abc\"", "-3"] {
            assert_eq!(call(token).expect(token).progress_token.expect(token).as_str(), token);
        }
        let long = format!("\"{}\"", "x".repeat(crate::initialize::MAX_CLIENT_BYTES));
        for token in ["1.5", "{}", "true", &long] {
            call(token).expect_err(token);
        }
    }

    #[test]
    fn a_text_block_goes_in_front_of_a_result_whose_other_members_stay_to_the_letter() {
        for (given, expected) in [
            (r#"{ "a" : {"n":1.0}, "content" : [ 1 ]}"#, r#"{ "a" : {"n":1.0}, "content" : [BLOCK, 1 ]}"#),
            (r#"{"content":["\u0041",1e2]}"#, r#"{"content":[BLOCK,"\u0041",1e2]}"#),
            (r#"{"content":[]}"#, r#"{"content":[BLOCK]}"#),
            (r#"{"content":[ ],"_meta":{"content":[1]}}"#, r#"{"content":[BLOCK ],"_meta":{"content":[1]}}"#),
            (r#"{"isError":false}"#, r#"{"isError":false,"content":[BLOCK]}"#),
            ("{}", r#"{"content":[BLOCK]}"#),
            (r#"{"content":null,"isError":true}"#, r#"{"content":[BLOCK],"isError":true}"#),
            (r#"{"content":"text"}"#, r#"{"content":[BLOCK]}"#),
            (r#"{"content":{"a":[1]}}"#, r#"{"content":[BLOCK]}"#),
            ("[]", r#"{"content":[BLOCK],"isError":false}"#),
            ("null", r#"{"content":[BLOCK],"isError":false}"#),
        ] {
            let result = RawJson::parse(given).expect("test JSON");
            let longer = with_text_in_front(&result, "a \"b\"");
            let block = r#"{"text":"a \"b\"","type":"text"}"#;
            assert_eq!(longer.as_str(), expected.replace("BLOCK", block), "{given}");
            assert!(RawJson::parse(longer.bytes()).is_ok(), "{given}");
        }
    }

    #[test]
    fn malformed_params_are_refused_with_what_was_wrong() {
        for (params, says) in [
            ("{}", "name"),
            (r#"{"name":5}"#, "string"),
            (r#"{"name":"x","arguments":[]}"#, "arguments"),
            (r#"{"name":"x","arguments":"{}"}"#, "arguments"),
        ] {
            let error = decode(params).expect_err(params);
            assert_eq!(error.code, -32602);
            assert!(error.message.contains(says), "{params}: {error}");
        }
        assert_eq!(decode(r#"{"name":"x","arguments":null}"#).expect("none").arguments.as_str(), "{}");
        assert!(CallParams::decode(None).is_err());
    }
}
