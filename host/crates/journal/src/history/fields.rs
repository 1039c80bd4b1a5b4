//! The members of the JSON form of a line.

use super::{Detail, History, decider, timestamp};
use crate::begin::Begin;
use crate::entry::Entry;
use crate::response::{Response, ResponseOutcome};
use crate::words;
use base16ct::lower::encode_string;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use toolyard_protocol::visible::clip;

type Members = Map<String, Value>;

/// Digits of a digest after its algorithm that identify a component for people.
const SHORT: usize = 12;

fn put(members: &mut Members, name: &str, value: impl Into<Value>) {
    members.insert(name.to_owned(), value.into());
}

impl History {
    pub(super) fn put_fields(&self, members: &mut Members, entry: &Entry<'_>) {
        let is_full = self.detail == Detail::Full;
        match entry {
            Entry::Begin(json) => put_begin(members, json),
            Entry::Clock { steps, readings } => {
                put(members, "steps", *steps);
                put(members, "readings", *readings);
            }
            Entry::Poll { len, ready, times } => {
                put(members, "length", *len);
                put(members, "ready", ready.to_vec());
                put(members, "times", *times);
            }
            Entry::Ready { is_ready, times } => {
                put(members, "isReady", *is_ready);
                put(members, "times", *times);
            }
            Entry::Call { function, result, .. } => {
                put(members, "function", *function);
                put_json(members, "result", result, is_full);
            }
            Entry::Ask { questions, .. } => {
                let names = questions.iter().map(|question| {
                    let (key, method) = (question.key, question.method);
                    json!({"key": key, "method": method})
                });
                put(members, "questions", names.collect::<Vec<_>>());
            }
            Entry::Answer(answers) => put_json(members, "answers", answers, is_full),
            Entry::Sleep { duration_ms, until_ms } => {
                put(members, "durationMs", *duration_ms);
                put(members, "until", timestamp(*until_ms).to_string());
            }
            Entry::Request { number, method, uri, .. } => {
                put(members, "request", *number);
                put(members, "method", *method);
                put(members, "uri", *uri);
            }
            Entry::Ended(outcome) => put(members, "sha256", encode_string(outcome)),
            Entry::Response { number, response } => {
                put(members, "request", *number);
                put_response(members, response, is_full);
            }
            Entry::Doubt { number, decision, by } => {
                put(members, "request", *number);
                put(members, "decision", decision.as_str());
                put(members, "by", decider(*by));
            }
            Entry::Key { number, key } => {
                put(members, "request", *number);
                put(members, "key", *key);
            }
        }
    }
}

/// Neither the seed nor the values of variables: they are for the guest alone.
fn put_begin(members: &mut Members, json: &[u8]) {
    let Ok(begin) = Begin::from_json(json) else { return };
    put(members, "format", begin.format);
    put(members, "version", begin.version);
    put(members, "tool", begin.tool);
    put(members, "digest", begin.digest);
    put(members, "baseTime", timestamp(begin.base_time).to_string());
    let names = begin.environment.into_iter().map(|(name, _)| name);
    put(members, "variables", names.collect::<Vec<_>>());
}

fn put_json(members: &mut Members, name: &str, text: &[u8], is_full: bool) {
    put(members, "bytes", text.len());
    if is_full {
        let value = serde_json::from_slice(text);
        put(members, name, value.unwrap_or_else(|_| Value::from(String::from_utf8_lossy(text))));
    }
}

fn put_response(members: &mut Members, response: &Response, is_full: bool) {
    match &response.outcome {
        ResponseOutcome::Error(error) => put(members, "error", error.as_str()),
        ResponseOutcome::Complete { status, headers, body } => {
            put(members, "status", *status);
            put(members, "bytes", body.len());
            if is_full {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let headers = headers.iter().map(|(name, value)| json!([text(name), text(value)]));
                put(members, "headers", headers.collect::<Vec<_>>());
                match std::str::from_utf8(body) {
                    Ok(body) => put(members, "body", body),
                    Err(_) => put(members, "bodyBase64", STANDARD.encode(body)),
                }
            }
        }
    }
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
