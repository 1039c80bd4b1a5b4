//! Recorded cases: a call of a tool, the answers to its questions, and the expected result.

use crate::answers::Answers;
use crate::fields::Fields;
use crate::http_entry::{self, HttpEntry};
use crate::toml_json;
use serde_json::{Map, Value};
use std::path::Path;
use toolyard_cli::read;
use toolyard_dispatch::RawJson;

/// The ending of the names of case files.
pub const SUFFIX: &str = ".case.toml";

/// The largest case file, in bytes.
pub const MAX_BYTES: u64 = 16 << 20;

/// A case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The tool.
    pub tool: String,
    /// For people.
    pub description: Option<String>,
    /// Whether it is called as a task.
    pub task: bool,
    /// The arguments, an object.
    pub arguments: Map<String, Value>,
    /// The answers to its questions.
    pub answers: Answers,
    /// The answers to its HTTP requests.
    pub http: Vec<HttpEntry>,
    /// The expectations, at least one.
    pub expect: Expect,
}

/// The expectations of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expect {
    /// The text blocks, joined by newlines.
    pub text: Option<String>,
    /// A part of them.
    pub text_contains: Option<String>,
    /// The structured content.
    pub structured: Option<Value>,
    /// A part of it.
    pub structured_contains: Option<Value>,
    /// Whether the result is an error of the tool.
    pub is_error: Option<bool>,
    /// A JSON-RPC error.
    pub error: Option<ExpectedError>,
    /// The least number of progress messages.
    pub progress: Option<u64>,
}

/// An expected JSON-RPC error.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExpectedError {
    /// The code of the error.
    pub code: Option<i64>,
    /// The message of the error.
    pub message: Option<String>,
    /// A part of its message.
    pub message_contains: Option<String>,
}

impl Case {
    /// Reads a file.
    ///
    /// # Errors
    /// The error, and its key.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        Self::of_text(&text_of(path)?)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Case::of_file`].
    pub fn of_text(text: &str) -> Result<Self, String> {
        const KNOWN: [&str; 8] =
            ["tool", "description", "task", "arguments", "arguments-json", "answers", "http", "expect"];
        let table: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
        let mut fields = Fields::new("", table, &KNOWN)?;
        let tool = fields.read::<String>("tool")?.ok_or("`tool` is missing: the tool that is called")?;
        let description = fields.read("description")?;
        let task = fields.read("task")?.unwrap_or_default();
        let arguments = match (fields.read("arguments")?, fields.read::<String>("arguments-json")?) {
            (Some(_), Some(_)) => {
                return Err("`arguments` and `arguments-json` are two ways to say one thing".to_owned());
            }
            (Some(table), None) => toml_json::json_object(table),
            (None, Some(text)) => match json_text("arguments-json", &text)? {
                Value::Object(members) => members,
                _ => return Err("`arguments-json`: expected a JSON object".to_owned()),
            },
            (None, None) => Map::new(),
        };
        let answers = fields.read("answers")?.unwrap_or_default();
        let answers = Answers::read("answers", toml_json::json_object(answers))?;
        let http = http_entry::read(fields.take("http"))?;
        let expect = fields.read("expect")?.unwrap_or_default();
        Ok(Self { tool, description, task, arguments, answers, http, expect: Expect::read(expect)? })
    }
}

impl Expect {
    fn read(table: toml::Table) -> Result<Self, String> {
        const KNOWN: [&str; 8] = [
            "text",
            "text-contains",
            "structured",
            "structured-json",
            "structured-contains",
            "is-error",
            "error",
            "progress",
        ];
        if table.is_empty() {
            return Err(format!("`expect` is missing: at least one of {}", KNOWN.join(", ")));
        }
        let mut fields = Fields::new("expect", table, &KNOWN)?;
        let structured = match (fields.take("structured"), fields.read::<String>("structured-json")?) {
            (Some(_), Some(_)) => {
                return Err("`expect.structured` and `expect.structured-json` are two ways to say one thing"
                    .to_owned());
            }
            (Some(value), None) => Some(toml_json::json(value)),
            (None, Some(text)) => Some(json_text("expect.structured-json", &text)?),
            (None, None) => None,
        };
        let expect = Self {
            text: fields.read("text")?,
            text_contains: fields.read("text-contains")?,
            structured,
            structured_contains: fields.take("structured-contains").map(toml_json::json),
            is_error: fields.read("is-error")?,
            error: fields.read("error")?.map(ExpectedError::read).transpose()?,
            progress: fields.read("progress")?,
        };
        let of_result = [
            ("text", expect.text.is_some()),
            ("text-contains", expect.text_contains.is_some()),
            ("structured", expect.structured.is_some()),
            ("structured-contains", expect.structured_contains.is_some()),
            ("is-error", expect.is_error.is_some()),
        ];
        match (&expect.error, of_result.iter().find(|(_, there)| *there)) {
            (Some(_), Some((key, _))) => Err(format!(
                "`expect.{key}` beside `expect.error`: a call that ends with a JSON-RPC error has no result"
            )),
            _ => Ok(expect),
        }
    }
}

impl ExpectedError {
    fn read(table: toml::Table) -> Result<Self, String> {
        const KNOWN: [&str; 3] = ["code", "message", "message-contains"];
        if table.is_empty() {
            return Err(format!("`expect.error` is empty: at least one of {}", KNOWN.join(", ")));
        }
        let mut fields = Fields::new("expect.error", table, &KNOWN)?;
        Ok(Self {
            code: fields.read("code")?,
            message: fields.read("message")?,
            message_contains: fields.read("message-contains")?,
        })
    }
}

/// The text of a file with a bounded size.
///
/// # Errors
/// The reason why it cannot be read.
pub fn text_of(path: &Path) -> Result<String, String> {
    read::text(path, MAX_BYTES).map_err(|error| format!("it cannot be read: {error}"))
}

/// JSON, parsed as the host parses that of a client.
fn json_text(key: &str, text: &str) -> Result<Value, String> {
    let json = RawJson::parse(text.to_owned()).map_err(|error| format!("`{key}` is {error}"))?;
    json.decode().map_err(|error| format!("`{key}` cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_key_is_read() {
        let case = Case::of_text(
            r#"
            tool = "hello"
            description = "greets"
            task = true
            [arguments]
            name = "World"
            [answers.who]
            action = "accept"
            content = { name = "Ada" }
            [[http]]
            request = "GET https://a.example/"
            status = 200
            [expect]
            text = "Hello"
            text-contains = "Hell"
            structured = { greeting = "Hello" }
            structured-contains = {}
            is-error = false
            progress = 3
            "#,
        )
        .expect("a case");
        assert_eq!((case.tool.as_str(), case.task), ("hello", true));
        assert_eq!(Value::from(case.arguments), json!({"name": "World"}));
        assert_eq!((case.answers.iter().count(), case.http.len()), (1, 1));
        let expect = case.expect;
        assert_eq!((expect.is_error, expect.progress), (Some(false), Some(3)));
        assert_eq!(expect.structured, Some(json!({"greeting": "Hello"})));
        let case = Case::of_text(
            "tool = 'a'\narguments-json = '{\"n\":null}'\n[expect]\nerror = {code = -32602, message-contains = 'n'}",
        );
        let case = case.expect("a case");
        assert_eq!(Value::from(case.arguments), json!({"n": null}));
        assert_eq!(case.expect.error.expect("an error").code, Some(-32602));
        let case = Case::of_text("tool = 'a'\n[expect]\nstructured-json = '[null]'").expect("a case");
        assert_eq!(case.expect.structured, Some(json!([null])));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        let expect = "[expect]\ntext = ''\n";
        for (text, says) in [
            (expect.to_owned(), "`tool` is missing"),
            ("tool = 'a'".to_owned(), "`expect` is missing: at least one of text"),
            ("tool = 'a'\n[expect]".to_owned(), "`expect` is missing"),
            (format!("tool = 1\n{expect}"), "`tool`: invalid type: integer `1`, expected a string"),
            (format!("tol = 'a'\n{expect}"), "unknown key `tol`; did you mean `tool`?"),
            (format!("tool = 'a'\nxyz = 1\n{expect}"), "unknown key `xyz`; known are tool"),
            (format!("tool = 'a'\narguments-json = 'x'\n{expect}"), "`arguments-json` is"),
            (
                format!("tool = 'a'\narguments-json = '[]'\n{expect}"),
                "`arguments-json`: expected a JSON object",
            ),
            (format!("tool = 'a'\narguments-json = '{{}}'\narguments = {{}}\n{expect}"), "two ways"),
            (format!("tool = 'a'\n{expect}[answers.q]\naction = 'no'"), "`answers.q.action`"),
            (format!("tool = 'a'\n[[http]]\n{expect}"), "`http[1].request` is missing"),
            ("tool = 'a'\n[expect]\ntxt = 'a'".to_owned(), "did you mean `expect.text`?"),
            ("tool = 'a'\n[expect]\nprogress = -1".to_owned(), "`expect.progress`"),
            ("tool = 'a'\n[expect]\nerror = {}".to_owned(), "`expect.error` is empty"),
            ("tool = 'a'\n[expect]\nerror = {cod = 1}".to_owned(), "did you mean `expect.error.code`?"),
            ("tool = 'a'\n[expect]\ntext = ''\nerror = {code = 1}".to_owned(), "`expect.text` beside"),
            ("tool = 'a'\n[expect]\nstructured = 1\nstructured-json = '1'".to_owned(), "two ways"),
            ("tool = ".to_owned(), "TOML parse error"),
        ] {
            let error = Case::of_text(&text).expect_err(&text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
