//! Entries and operations in words, for divergences and for the history.

use crate::begin::Begin;
use crate::entry::Entry;
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

/// The entry, or the operation that it would record, as a message names it.
pub(crate) fn entry(entry: &Entry<'_>) -> String {
    match entry {
        Entry::Poll { len, .. } => format!("poll of {len}"),
        Entry::Call { function, .. } => format!("call {}", short(function)),
        Entry::Ask { questions, .. } => {
            let names = questions.iter().map(|question| format!("{} ({})", question.key, question.method));
            format!("ask {}", short(&names.collect::<Vec<_>>().join(", ")))
        }
        Entry::Sleep { duration_ms, .. } => format!("sleep {duration_ms} ms"),
        Entry::Request { number, method, uri, .. } => {
            format!("request {number} {} {}", short(method), short(uri))
        }
        Entry::Ended(outcome) => format!("ended with sha256 {}", short_digest(outcome)),
        other => other.kind().as_str().to_owned(),
    }
}
