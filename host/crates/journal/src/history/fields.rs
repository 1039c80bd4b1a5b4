//! The members of the JSON form of a line.

use super::{Detail, History, decider, timestamp};
use crate::begin::Begin;
use crate::entry::{Entry, QuestionName};
use crate::response::{Response, ResponseOutcome};
use crate::words;
use base16ct::lower::encode_string;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use toolyard_protocol::visible::clip;

/// Digits of a digest after its algorithm that identify a component for people.
const SHORT: usize = 12;

impl History {
    pub(super) fn fields(&self, entry: &Entry<'_>) -> Map<String, Value> {
        let is_full = self.detail == Detail::Full;
        let fields = match entry {
            Entry::Begin(json) => begin_fields(json),
            Entry::Clock { steps, readings } => json!({"steps": steps, "readings": readings}),
            Entry::Poll { len, ready, times } => json!({"length": len, "ready": ready, "times": times}),
            Entry::Ready { is_ready, times } => json!({"isReady": is_ready, "times": times}),
            Entry::Call { function, result, .. } => {
                with_json(json!({"function": function}), "result", result, is_full)
            }
            Entry::Ask { questions, .. } => {
                let name =
                    |question: &QuestionName<'_>| json!({"key": question.key, "method": question.method});
                json!({"questions": questions.iter().map(name).collect::<Vec<_>>()})
            }
            Entry::Answer(answers) => with_json(json!({}), "answers", answers, is_full),
            Entry::Sleep { duration_ms, until_ms } => {
                json!({"durationMs": duration_ms, "until": timestamp(*until_ms).to_string()})
            }
            Entry::Request { number, method, uri, .. } => {
                json!({"request": number, "method": method, "uri": uri})
            }
            Entry::Ended(outcome) => json!({"sha256": encode_string(outcome)}),
            Entry::Response { number, response } => response_fields(*number, response, is_full),
            Entry::Doubt { number, decision, by } => {
                json!({"request": number, "decision": decision.as_str(), "by": decider(*by)})
            }
            Entry::Key { number, key } => json!({"request": number, "key": key}),
        };
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

/// Neither the seed nor the values of variables: they are for the guest alone.
fn begin_fields(json: &[u8]) -> Value {
    let Ok(begin) = Begin::from_json(json) else { return json!({}) };
    json!({
        "format": begin.format,
        "version": begin.version,
        "tool": begin.tool,
        "digest": begin.digest,
        "baseTime": timestamp(begin.base_time).to_string(),
        "variables": begin.environment.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    })
}

/// The fields with the length of a JSON text, and with the text.
fn with_json(mut fields: Value, name: &str, text: &[u8], is_full: bool) -> Value {
    fields["bytes"] = text.len().into();
    if is_full {
        let value = serde_json::from_slice(text);
        fields[name] = value.unwrap_or_else(|_| Value::from(String::from_utf8_lossy(text)));
    }
    fields
}

fn response_fields(number: u32, response: &Response, is_full: bool) -> Value {
    let (status, headers, body) = match &response.outcome {
        ResponseOutcome::Error(error) => return json!({"request": number, "error": error}),
        ResponseOutcome::Complete { status, headers, body } => (status, headers, body),
    };
    let mut fields = json!({"request": number, "status": status, "bytes": body.len()});
    if is_full {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = headers.iter().map(|(name, value)| json!([text(name), text(value)]));
        fields["headers"] = headers.collect();
        match std::str::from_utf8(body) {
            Ok(body) => fields["body"] = body.into(),
            Err(_) => fields["bodyBase64"] = STANDARD.encode(body).into(),
        }
    }
    fields
}

/// Answers as `size -> accept {"size":"L"}`; other JSON as it is.
pub(super) fn answer_words(answers: &[u8]) -> String {
    let text = || words::short(&String::from_utf8_lossy(answers));
    let Ok(Value::Object(answers)) = serde_json::from_slice(answers) else { return text() };
    let mut all = String::new();
    for (key, answer) in &answers {
        let Some(action) = answer.get("action").and_then(Value::as_str) else { return text() };
        let comma = if all.is_empty() { "" } else { ", " };
        // Writing to a String does not fail.
        let _ = write!(all, "{comma}{key} -> {action}");
        if let Some(content) = answer.get("content") {
            let _ = write!(all, " {content}");
        }
    }
    words::short(&all)
}

/// The digits of a digest that people compare.
pub(super) fn short_name(digest: &str) -> String {
    let digits = digest.rsplit_once(':').map_or(digest, |(_, digits)| digits);
    clip(digits, SHORT)
}
