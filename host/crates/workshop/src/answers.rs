//! Recorded answers to the questions of a tool, by the keys of the questions.

use crate::toml_json;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use toolyard_cli::nearest::nearest;
use toolyard_dispatch::{RawJson, RpcError};

/// The actions of an `ElicitResult`.
const ACTIONS: [&str; 3] = ["accept", "decline", "cancel"];
/// The members that identify the kind of an answer: a result of elicitation, roots or sampling, or an error.
const MARKS: [&str; 5] = ["action", "roots", "role", "model", "error"];

/// The capabilities of a client with recorded answers: the host can ask it anything.
pub const CAPABILITIES: &str =
    r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}"#;

/// An answer: a result of the question's method, which is an object, or a JSON-RPC error without data.
pub type Given = Result<Map<String, Value>, RpcError>;

/// Answers by key, and the keys of those that were used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    by_key: BTreeMap<String, Given>,
    used: Vec<String>,
}

/// Reads an answer.
///
/// # Errors
/// The expected form.
pub fn read_answer(key: &str, value: Value) -> Result<Given, String> {
    let Value::Object(members) = value else {
        return Err(format!("`{key}`: expected an object such as {{ action = \"decline\" }}"));
    };
    if let Some(error) = members.get("error") {
        let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok());
        let message = error["message"].as_str();
        let (Some(code), Some(message), 1) = (code, message, members.len()) else {
            return Err(format!("`{key}.error`: expected {{ code = -1, message = \"…\" }} and nothing else"));
        };
        return Ok(Err(RpcError::new(code, message)));
    }
    if let Some(action) = members.get("action")
        && !action.as_str().is_some_and(|action| ACTIONS.contains(&action))
    {
        return Err(format!("`{key}.action`: expected accept, decline or cancel, not {action}"));
    }
    if !MARKS.iter().any(|mark| members.contains_key(*mark)) {
        let meant = members.keys().find_map(|member| Some((member, nearest(member, MARKS)?)));
        return Err(match meant {
            Some((member, meant)) => {
                format!("unknown key `{key}.{member}`; did you mean `{key}.{meant}`?")
            }
            None => format!(
                "`{key}`: expected the result of an elicitation (`action`), of a sampling (`role`, `model`) or \
                 of roots (`roots`), or `error`"
            ),
        });
    }
    Ok(Ok(members))
}

/// The answer in a client's response; `None` if it cannot be parsed.
pub fn answer_of(response: &Result<RawJson, RpcError>) -> Option<Given> {
    match response {
        Ok(result) => Some(Ok(result.decode().ok()?)),
        Err(error) => Some(Err(RpcError::new(error.code, error.message.clone()))),
    }
}

/// The answer as it is written in a file.
pub fn written_answer(given: &Given) -> Value {
    match given {
        Ok(members) => Value::Object(members.clone()),
        Err(RpcError { code, message, .. }) => json!({"error": {"code": code, "message": message}}),
    }
}

impl Answers {
    /// Reads the table of answers at the key `at` of a file.
    ///
    /// # Errors
    /// What is wrong, and at which key.
    pub fn read(at: &str, members: Map<String, Value>) -> Result<Self, String> {
        let mut answers = Self::default();
        for (key, value) in members {
            let whole = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            answers.by_key.insert(key, read_answer(&whole, value)?);
        }
        Ok(answers)
    }

    /// Reads the text of a file: TOML, or JSON if it begins with a brace.
    ///
    /// # Errors
    /// The error and its place.
    pub fn of_text(text: &str) -> Result<Self, String> {
        let members = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| error.to_string())?
        } else {
            toml_json::json_object(text.parse::<toml::Table>().map_err(|error| error.to_string())?)
        };
        Self::read("", members)
    }

    /// Adds an answer, replacing one with the same key.
    pub fn insert(&mut self, key: String, given: Given) {
        self.by_key.insert(key, given);
    }

    /// The answer to this question. Marks it as used.
    pub fn give(&mut self, key: &str) -> Option<Given> {
        let given = self.by_key.get(key)?.clone();
        self.used.push(key.to_owned());
        Some(given)
    }

    /// The keys of answers that no question used.
    pub fn unused(&self) -> Vec<&str> {
        self.by_key
            .keys()
            .map(String::as_str)
            .filter(|key| !self.used.iter().any(|used| used == key))
            .collect()
    }

    /// All answers.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Given)> {
        self.by_key.iter().map(|(key, given)| (key.as_str(), given))
    }
}

/// TOML lines that would answer a question, in a table with this name.
pub fn example(table: &str, key: &str, method: &str, params: &RawJson) -> String {
    let value = match method {
        "elicitation/create" => {
            let params: Value = params.decode().unwrap_or_default();
            let properties = params["requestedSchema"]["properties"].as_object();
            let content: Map<String, Value> = properties
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), example_of(schema)))
                .collect();
            match params["mode"].as_str() {
                Some("url") => json!({"action": "accept"}),
                _ => json!({"action": "accept", "content": content}),
            }
        }
        "roots/list" => json!({"roots": [{"uri": "file:///somewhere"}]}),
        _ => json!({"role": "assistant", "model": "none", "content": {"type": "text", "text": "…"}}),
    };
    let mut tables: Vec<&str> = table.split('.').filter(|table| !table.is_empty()).collect();
    tables.push(key);
    let nested = tables.iter().rev().fold(value, |inner, name| json!({*name: inner}));
    toml_json::toml(&nested).and_then(|value| toml::to_string(&value).ok()).unwrap_or_default()
}

/// An example value that fits a field of a form.
fn example_of(schema: &Value) -> Value {
    let first = |list: &Value| list.as_array().and_then(|list| list.first()).cloned();
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => true.into(),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("array") => {
            let item = first(&schema["items"]["enum"])
                .or_else(|| Some(schema["items"]["anyOf"][0]["const"].clone()));
            item.into_iter().filter(|item| !item.is_null()).collect()
        }
        _ => first(&schema["enum"])
            .or_else(|| schema["oneOf"][0].get("const").cloned())
            .unwrap_or_else(|| "…".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Answers::of_text(text).expect_err(text)
    }

    #[test]
    fn toml_and_json_say_the_same() {
        let toml =
            Answers::of_text("[who]\naction = \"accept\"\ncontent = { name = \"Ada\" }").expect("TOML");
        let json = Answers::of_text(r#"{"who":{"action":"accept","content":{"name":"Ada"}}}"#).expect("JSON");
        assert_eq!(toml, json);
        let refused = Answers::of_text("[who.error]\ncode = -1\nmessage = \"no\"").expect("TOML");
        let (_, given) = refused.iter().next().expect("one");
        assert_eq!(given, &Err(RpcError::new(-1, "no")));
        assert_eq!(
            read_answer("k", written_answer(given)).as_ref(),
            Ok(given),
            "as it is written it is read"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (text, says) in [
            ("who = 1", "`who`: expected an object"),
            ("[who]\naction = \"yes\"", "`who.action`: expected accept, decline or cancel"),
            ("[who]\nacton = \"accept\"", "did you mean `who.action`?"),
            ("[who]\nname = \"Ada\"", "`who`: expected the result of an elicitation"),
            ("[who]\nerror = { code = 1 }", "`who.error`: expected"),
            ("[who", "unclosed table"),
            ("{\"who\":", "EOF"),
        ] {
            assert!(wrong(text).contains(says), "{text}: {}", wrong(text));
        }
    }

    #[test]
    fn an_answer_that_nobody_asked_for_is_known() {
        let mut answers =
            Answers::of_text("a = {action = \"decline\"}\nb = {action = \"cancel\"}").expect("TOML");
        assert!(answers.give("b").is_some() && answers.give("c").is_none());
        assert_eq!(answers.unused(), ["a"]);
    }

    #[test]
    fn an_example_answers_the_question() {
        let params = RawJson::trusted(
            r#"{"message":"m","requestedSchema":{"type":"object","properties":{"name":{"type":"string"},
            "n":{"type":"integer","minimum":3},"one":{"type":"string","enum":["x","y"]},"ok":{"type":"boolean"}}}}"#,
        );
        let text = example("answers", "who", "elicitation/create", &params);
        let table: toml::Table = text.parse().expect("TOML");
        let content = &table["answers"]["who"]["content"];
        assert_eq!(content["n"].as_integer(), Some(3));
        assert_eq!((content["one"].as_str(), content["ok"].as_bool()), (Some("x"), Some(true)));
        assert!(Answers::of_text(&example("", "who", "roots/list", &RawJson::empty_object())).is_ok());
        assert!(
            Answers::of_text(&example("", "w", "sampling/createMessage", &RawJson::empty_object())).is_ok()
        );
    }
}
