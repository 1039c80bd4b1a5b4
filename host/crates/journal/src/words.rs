//! Entries and operations in words, for divergences and for the history.

use crate::begin::Begin;
use crate::entry::{Entry, QuestionName};
use base16ct::lower::encode_string;
use toolyard_protocol::visible::clip;

/// The most characters of a foreign text in a message.
const MAX_TEXT: usize = 300;
/// Digits that identify a digest for people.
const SHORT: usize = 8;

/// The beginning of a text that may be long.
pub(crate) fn short(text: &str) -> String {
    clip(text, MAX_TEXT)
}

pub(crate) fn short_digest(digest: &[u8]) -> String {
    clip(&encode_string(digest), SHORT)
}

pub(crate) fn begin(begin: &Begin) -> String {
    format!("begin of {}", short(&begin.tool))
}

pub(crate) fn poll(len: u32) -> String {
    format!("poll of {len}")
}

pub(crate) fn call(function: &str) -> String {
    format!("call {}", short(function))
}

pub(crate) fn ask(questions: &[QuestionName<'_>]) -> String {
    let names = questions.iter().map(|question| format!("{} ({})", question.key, question.method));
    format!("ask {}", short(&names.collect::<Vec<_>>().join(", ")))
}

pub(crate) fn sleep(duration_ms: u64) -> String {
    format!("sleep {duration_ms} ms")
}

pub(crate) fn request(number: u32, method: &str, uri: &str) -> String {
    format!("request {number} {} {}", short(method), short(uri))
}

pub(crate) fn ended(outcome: &[u8; 32]) -> String {
    format!("ended with sha256 {}", short_digest(outcome))
}

/// The entry as a message names it.
pub(crate) fn entry(entry: &Entry<'_>) -> String {
    match entry {
        Entry::Poll { len, .. } => poll(*len),
        Entry::Call { function, .. } => call(function),
        Entry::Ask { questions, .. } => ask(questions),
        Entry::Sleep { duration_ms, .. } => sleep(*duration_ms),
        Entry::Request { number, method, uri, .. } => request(*number, method, uri),
        Entry::Ended(outcome) => ended(outcome),
        other => other.kind().as_str().to_owned(),
    }
}
