//! The expectations of `toolyard call --expect` and `--expect-error`.

use crate::compare::{Mismatch, compare_value, text_of};
use serde_json::Value;
use std::path::Path;
use toolyard_cli::{WrongUsage, read};
use toolyard_dispatch::RawJson;

/// The expected end of a call.
pub enum Expected {
    /// Exactly this result.
    Value(Value),
    /// Exactly this text, ignoring a newline at its end.
    Text(String),
    /// An error, of the tool or of JSON-RPC, that contains this text.
    Error(String),
}

/// The largest file for `--expect`, in bytes.
const MAX_BYTES: u64 = 16 << 20;

impl Expected {
    /// Reads an expectation: the name of a file, or JSON.
    ///
    /// # Errors
    /// [`WrongUsage`] if it is neither.
    pub fn read(said: &str) -> Result<Self, WrongUsage> {
        let file = Path::new(said);
        if file.is_file() {
            let text = read::text(file, MAX_BYTES)
                .map_err(|error| WrongUsage(format!("--expect: {said} cannot be read: {error}")))?;
            return Ok(Self::of_text(&text).unwrap_or(Self::Text(text)));
        }
        Self::of_text(said).ok_or_else(|| {
            WrongUsage(format!(
                "--expect takes the name of a file or JSON, such as '{{\"sum\":3}}' or '\"hello\"', not `{said}`"
            ))
        })
    }

    fn of_text(text: &str) -> Option<Self> {
        RawJson::parse(text.to_owned()).ok()?.decode().ok().map(Self::Value)
    }

    /// How a result differs from this expectation; `None` if it matches.
    pub fn misses(&self, result: &Value) -> Option<Mismatch> {
        let text = text_of(result);
        let failed = result["isError"] == true;
        if failed && !matches!(self, Self::Error(_)) {
            return Some(Mismatch::said("expect", format!("the tool failed: {text}")));
        }
        let (expected, actual) = match (self, result.get("structuredContent")) {
            (Self::Error(part), _) => return if failed { lacks(&text, part) } else { Some(no_error(&text)) },
            (Self::Value(expected), Some(structured)) => (expected.clone(), structured.clone()),
            (Self::Text(expected), Some(structured)) => (expected.clone().into(), structured.clone()),
            (Self::Value(Value::String(expected)), None) => (expected.clone().into(), text.into()),
            (Self::Value(expected), None) => {
                (expected.clone(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
            }
            (Self::Text(expected), None) => {
                let line = |text: &str| Value::from(text.strip_suffix('\n').unwrap_or(text));
                (line(expected), line(&text))
            }
        };
        compare_value("expect", "another result came", &expected, &actual)
    }

    /// How a JSON-RPC error differs from this expectation; `None` if it matches.
    pub fn misses_error(&self, code: i32, message: &str) -> Option<Mismatch> {
        match self {
            Self::Error(part) => lacks(message, part),
            Self::Value(_) | Self::Text(_) => {
                Some(Mismatch::said("expect", format!("the call ended with the error {code}: {message}")))
            }
        }
    }
}

fn lacks(text: &str, part: &str) -> Option<Mismatch> {
    let what = || format!("{part:?} is not in the error: {text}");
    (!text.contains(part)).then(|| Mismatch::said("expect-error", what()))
}

fn no_error(text: &str) -> Mismatch {
    Mismatch::said("expect-error", format!("an error was expected, and a result came: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(text: &str) -> Value {
        json!({"content": [{"type": "text", "text": text}]})
    }

    fn fits(said: &str, result: &Value) -> bool {
        Expected::read(said).unwrap_or_else(|error| panic!("{error}")).misses(result).is_none()
    }

    #[test]
    fn the_structured_content_counts_and_without_one_the_text() {
        let structured = json!({"content": [{"type": "text", "text": "3"}], "structuredContent": {"sum": 3}});
        assert!(fits(r#"{"sum":3.0}"#, &structured));
        assert!(!fits("3", &structured) && !fits(r#"{"sum":4}"#, &structured));
        assert!(fits("3", &text("3")) && fits("\"3\"", &text("3")));
        assert!(fits(r#"{"a":[1]}"#, &text("{ \"a\": [1] }")), "a text that is JSON is read as such");
        assert!(!fits("\"3\"", &text("3\n")), "a text is compared exactly");
        let failed = json!({"content": [{"type": "text", "text": "3"}], "isError": true});
        assert!(!fits("3", &failed));
        assert!(Expected::read("no such file").is_err());
    }

    #[test]
    fn a_file_holds_json_or_a_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("expected");
        let said = path.to_str().expect("plain");
        std::fs::write(&path, "two\nlines\n").expect("written");
        assert!(fits(said, &text("two\nlines")) && fits(said, &text("two\nlines\n")));
        assert!(!fits(said, &text("two lines")));
        std::fs::write(&path, "{\n  \"sum\": 3\n}\n").expect("written");
        assert!(fits(said, &json!({"content": [], "structuredContent": {"sum": 3}})));
    }

    #[test]
    fn an_error_is_expected_by_a_part_of_its_text() {
        let expected = Expected::Error("luck".to_owned());
        let failed = json!({"content": [{"type": "text", "text": "no luck"}], "isError": true});
        assert!(expected.misses(&failed).is_none() && expected.misses(&text("luck")).is_some());
        assert!(expected.misses_error(1, "no luck").is_none() && expected.misses_error(1, "no").is_some());
        assert!(Expected::Text(String::new()).misses_error(1, "").is_some());
    }
}
