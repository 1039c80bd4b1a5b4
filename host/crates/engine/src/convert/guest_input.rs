//! Bounds and checks the values that guests pass to the host.

use crate::bindings::toolyard::plugin::types as wit;
use std::collections::HashSet;
use toolyard_task::tool::AskedQuestion;
use toolyard_task::wire::{LogLevel, RawJson};

/// The maximum length of a progress or status message, in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1 << 10;
/// The maximum length of a logger's name, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 256;
/// The maximum size of the datum of a log message, in bytes.
const MAX_LOG_BYTES: usize = 64 << 10;
/// The maximum number of questions in one call of `ask`.
const MAX_QUESTIONS: usize = 16;

/// Truncates `text` to at most this many bytes, between characters.
pub(crate) fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
    }
    text
}

/// The datum of a log message. Invalid JSON is logged as text, because a log message must not fail
/// a run.
pub(crate) fn log_data(data: String) -> RawJson {
    if data.len() > MAX_LOG_BYTES {
        return log_text(&data);
    }
    // `log_text` needs the text again if it is not JSON.
    RawJson::parse(data.clone()).unwrap_or_else(|_| log_text(&data))
}

/// The datum of a log message that is plain text.
pub(crate) fn log_text(text: &str) -> RawJson {
    if text.len() > MAX_LOG_BYTES {
        return RawJson::of(&format!("(a message of {} bytes; the most are {MAX_LOG_BYTES})", text.len()));
    }
    RawJson::of(text)
}

pub(crate) fn level(level: wit::LogLevel) -> LogLevel {
    match level {
        wit::LogLevel::Debug => LogLevel::Debug,
        wit::LogLevel::Info => LogLevel::Info,
        wit::LogLevel::Notice => LogLevel::Notice,
        wit::LogLevel::Warning => LogLevel::Warning,
        wit::LogLevel::Error => LogLevel::Error,
        wit::LogLevel::Critical => LogLevel::Critical,
        wit::LogLevel::Alert => LogLevel::Alert,
        wit::LogLevel::Emergency => LogLevel::Emergency,
    }
}

/// Whether this is a valid key for a question.
pub(crate) fn is_key(key: &str) -> bool {
    (1..=128).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Checks the questions of one `ask`.
pub(crate) fn questions(asked: Vec<wit::Question>) -> Result<Vec<AskedQuestion>, String> {
    if asked.is_empty() || asked.len() > MAX_QUESTIONS {
        return Err(format!("{} questions at once; 1 to {MAX_QUESTIONS} are allowed", asked.len()));
    }
    let mut keys = HashSet::new();
    for question in &asked {
        let key = &question.key;
        if !is_key(key) {
            return Err("the key of a question is not made of 1 to 128 visible ASCII characters".to_owned());
        }
        if key.starts_with("host:") {
            return Err(format!("the key `{key}` is reserved"));
        }
        if !keys.insert(key.as_str()) {
            return Err(format!("the key `{key}` is used twice"));
        }
    }
    asked.into_iter().map(question).collect()
}

fn question(asked: wit::Question) -> Result<AskedQuestion, String> {
    let wit::Question { key, method, params } = asked;
    if !matches!(method.as_str(), "elicitation/create" | "sampling/createMessage" | "roots/list") {
        return Err(format!("the question `{key}` has a method that clients do not have"));
    }
    let params =
        RawJson::parse(params).map_err(|error| format!("the params of the question `{key}`: {error}"))?;
    if !params.is_object() {
        return Err(format!("the params of the question `{key}` are not an object"));
    }
    Ok(AskedQuestion { key, method, params, check: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(key: &str, method: &str, params: &str) -> wit::Question {
        wit::Question { key: key.into(), method: method.into(), params: params.into() }
    }

    #[test]
    fn questions_are_checked_one_by_one_and_together() {
        let fine = ask("a", "roots/list", "{}");
        assert!(questions(vec![fine.clone()]).is_ok());
        for (wrong, says) in [
            (vec![], "0 questions"),
            (vec![fine.clone(); 17], "17 questions"),
            (vec![fine.clone(), fine.clone()], "twice"),
            (vec![ask("", "roots/list", "{}")], "1 to 128"),
            (vec![ask(&"x".repeat(129), "roots/list", "{}")], "1 to 128"),
            (vec![ask("a b", "roots/list", "{}")], "visible"),
            (vec![ask("host:x", "roots/list", "{}")], "reserved"),
            (vec![ask("a", "tools/call", "{}")], "method"),
            (vec![ask("a", "roots/list", "[]")], "object"),
            (vec![ask("a", "roots/list", "{")], "JSON"),
        ] {
            let what = questions(wrong).expect_err(says);
            assert!(what.contains(says), "{what}");
        }
    }

    #[test]
    fn log_data_that_is_no_json_becomes_a_string_and_too_much_becomes_a_note() {
        assert_eq!(log_data("{\"a\":1}".into()).as_str(), "{\"a\":1}");
        assert_eq!(log_data("oops".into()).as_str(), "\"oops\"");
        assert!(log_data("1".repeat(MAX_LOG_BYTES + 1)).as_str().contains("bytes"));
        assert_eq!(log_text("{}").as_str(), "\"{}\"");
        assert!(log_text(&"1".repeat(MAX_LOG_BYTES + 1)).as_str().contains("bytes"));
        assert_eq!(cut("aé".into(), 2), "a");
    }
}
