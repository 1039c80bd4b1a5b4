//! Compares how a call ended with the expectations, and shows the difference to people.

use crate::case::{Expect, ExpectedError};
use crate::json_values::{contains, same};
use crate::run_call::Ending;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;
use toolyard_cli::output::{GREEN, RED, RESET, Styled};

/// How long the search for a difference may take; after that, a coarser one is shown.
const DIFF_TIME: Duration = Duration::from_secs(2);
/// The longest difference that is shown, in lines.
const DIFF_LINES: usize = 200;
/// The lines of context around each difference.
const AROUND: usize = 3;

/// How a call ended, and its progress.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// The number of progress messages that the tool sent.
    pub progress: u64,
}

/// A difference from the expectations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The key of the expectation.
    pub key: &'static str,
    /// The difference, in a sentence.
    pub what: String,
    /// The expected text and the actual one, if they can be compared.
    pub texts: Option<(String, String)>,
}

impl Mismatch {
    /// A difference that one sentence describes.
    pub fn said(key: &'static str, what: String) -> Self {
        Self { key, what, texts: None }
    }

    /// The description, as lines for a terminal.
    pub fn described(&self, colours: bool) -> Styled {
        let what = Styled::default().text(&self.what).text("\n");
        match &self.texts {
            None => what,
            Some((expected, actual)) => what.styled(&diff(expected, actual, colours)),
        }
    }

    fn differs(key: &'static str, what: &str, expected: String, actual: String) -> Self {
        Self { key, what: what.to_owned(), texts: Some((expected, actual)) }
    }
}

/// Compares the outcome with the expectations. Returns the differences, none if all expectations are met.
pub fn compare(expect: &Expect, outcome: &Outcome) -> Vec<Mismatch> {
    let mut wrong = match (&outcome.ending, &expect.error) {
        (Ending::Stopped, _) => {
            vec![Mismatch::said("expect", "the call was stopped before it ended".to_owned())]
        }
        (Ending::Error(error), None) => vec![Mismatch::said(
            "error",
            format!("expected a result, and the call ended with the error {}: {}", error.code, error.message),
        )],
        (Ending::Error(error), Some(expected)) => compare_error(expected, error.code, &error.message),
        (Ending::Result(result), Some(_)) => {
            let text = text_of(&result.decode().unwrap_or_default());
            vec![Mismatch::said("error", format!("expected a JSON-RPC error, and a result came: {text}"))]
        }
        (Ending::Result(result), None) => match result.decode::<Value>() {
            Ok(result) => compare_result(expect, &result),
            Err(error) => vec![Mismatch::said("expect", format!("cannot read the result: {error}"))],
        },
    };
    if let Some(least) = expect.progress.filter(|least| outcome.progress < *least) {
        let what = format!("expected at least {least} progress messages, and {} came", outcome.progress);
        wrong.push(Mismatch::said("progress", what));
    }
    wrong
}

fn compare_error(expected: &ExpectedError, code: i32, message: &str) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    if let Some(expected) = expected.code.filter(|expected| *expected != i64::from(code)) {
        wrong.push(Mismatch::said("error.code", format!("expected {expected}, and {code} came: {message}")));
    }
    if let Some(expected) = expected.message.as_ref().filter(|expected| *expected != message) {
        let what = "the message is another";
        wrong.push(Mismatch::differs("error.message", what, expected.clone(), message.to_owned()));
    }
    if let Some(part) = expected.message_contains.as_ref().filter(|part| !message.contains(*part)) {
        wrong.push(Mismatch::said("error.message-contains", format!("{part:?} is not in {message:?}")));
    }
    wrong
}

fn compare_result(expect: &Expect, result: &Value) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    let text = text_of(result);
    let is_error = result["isError"].as_bool().unwrap_or_default();
    if is_error != expect.is_error.unwrap_or_default() {
        wrong.push(Mismatch::said(
            "is-error",
            match is_error {
                true => format!("the tool failed: {text}"),
                false => format!("the tool was expected to fail, and did not: {text}"),
            },
        ));
    }
    if let Some(expected) = expect.text.as_ref().filter(|expected| **expected != text) {
        wrong.push(Mismatch::differs("text", "the text is another", expected.clone(), text.clone()));
    }
    if let Some(part) = expect.text_contains.as_ref().filter(|part| !text.contains(*part)) {
        let what = "this is not in the text";
        wrong.push(Mismatch::differs("text-contains", what, part.clone(), text.clone()));
    }
    let structured = result.get("structuredContent").unwrap_or(&Value::Null);
    if let Some(expected) = expect.structured.as_ref().filter(|expected| !same(expected, structured)) {
        let what = "the structured content is another";
        wrong.push(Mismatch::differs("structured", what, pretty(expected), pretty(structured)));
    }
    if let Some(part) = expect.structured_contains.as_ref()
        && let Err(at) = contains(structured, part, "")
    {
        let at = if at.is_empty() { "all of it".to_owned() } else { at };
        let what = format!("this part is not in the structured content; it differs at {at}");
        wrong.push(Mismatch::differs("structured-contains", &what, pretty(part), pretty(structured)));
    }
    wrong
}

/// Compares two values; the difference shows texts directly, and others as JSON.
pub fn compare_value(key: &'static str, what: &str, expected: &Value, actual: &Value) -> Option<Mismatch> {
    let shown = |value: &Value| value.as_str().map_or_else(|| pretty(value), str::to_owned);
    (!same(expected, actual)).then(|| Mismatch::differs(key, what, shown(expected), shown(actual)))
}

/// The text blocks of a result, joined by newlines.
pub fn text_of(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}

/// JSON over several lines, with the members of each object sorted.
pub fn pretty(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string())
}

/// The difference of two texts, line by line: `-` expected, `+` actual.
pub fn diff(expected: &str, actual: &str, colours: bool) -> Styled {
    let mut out = Styled::default();
    let paint = |out: &mut Styled, colour: &'static str, sign: &str, line: &str| {
        let (begin, end) = if colours && !colour.is_empty() { (colour, RESET) } else { ("", "") };
        let line = line.trim_end_matches(['\n', '\r']);
        // Tabs stay; a line must not contain another line end.
        let line = line.replace('\r', "\\r");
        let styled = std::mem::take(out).control(begin).text(sign).text(" ").text(&line);
        *out = styled.control(end).text("\n");
    };
    paint(&mut out, RED, "-", "expected");
    paint(&mut out, GREEN, "+", "came");
    let compared = TextDiff::configure().timeout(DIFF_TIME).diff_lines(expected, actual);
    let mut lines = 0;
    for (place, group) in compared.grouped_ops(AROUND).iter().enumerate() {
        if place > 0 {
            paint(&mut out, "", " ", "…");
        }
        for change in group.iter().flat_map(|op| compared.iter_changes(op)) {
            lines += 1;
            if lines > DIFF_LINES {
                paint(&mut out, "", " ", "… and more");
                return out;
            }
            let (colour, sign) = match change.tag() {
                ChangeTag::Delete => (RED, "-"),
                ChangeTag::Insert => (GREEN, "+"),
                ChangeTag::Equal => ("", " "),
            };
            paint(&mut out, colour, sign, change.value());
        }
    }
    // Otherwise the two texts would look the same.
    if expected.ends_with('\n') != actual.ends_with('\n') {
        let who = if actual.ends_with('\n') { "what came" } else { "what was expected" };
        paint(&mut out, "", " ", &format!("(only {who} ends with a newline)"));
    }
    out
}

#[cfg(test)]
mod tests;
