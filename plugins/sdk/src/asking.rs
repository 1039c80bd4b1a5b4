//! Questions to the client: forms for the user, pages to open, requests to the client's model, the client's
//! folders. To the guest a question is a function that returns with the answer. The host keeps the call
//! meanwhile, as a task if necessary.
//!
//! A question has a key, which the guest chooses. It must be the same in every run, because the host may run
//! a call again from the start with the answers that it already has.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::running::host;
use crate::{Error, form, raw};

const ELICIT: &str = "elicitation/create";

/// The user's reaction to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// The user answered.
    Accepted(T),
    /// The user declined.
    Declined,
    /// The user dismissed the question.
    Cancelled,
}

impl<T> Answer<T> {
    /// The answer, or an error that says that there is none.
    pub fn accepted(self) -> Result<T, Error> {
        match self {
            Self::Accepted(answer) => Ok(answer),
            Self::Declined => Err(Error::new("The user declined to answer.")),
            Self::Cancelled => Err(Error::new("The user did not answer.")),
        }
    }

    /// The answer; `None` without one.
    pub fn ok(self) -> Option<T> {
        match self {
            Self::Accepted(answer) => Some(answer),
            Self::Declined | Self::Cancelled => None,
        }
    }
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskError {
    /// The client does not support this kind of question.
    Unsupported(String),
    /// No answer came in time.
    TimedOut,
    /// The client answered with a JSON-RPC error.
    Refused {
        /// Its code.
        code: i32,
        /// Its message.
        message: String,
    },
    /// The question is invalid, or its key was used for a different question.
    Invalid(String),
    /// The call has had effects, so it can no longer run again to ask.
    TooLate,
    /// The call is being cancelled.
    Cancelled,
    /// The answer cannot be parsed.
    Unreadable(String),
}

impl std::error::Error for AskError {}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(what) if what.is_empty() => f.write_str("not supported by this client"),
            Self::Unsupported(what) => write!(f, "not supported by this client: {what}"),
            Self::TimedOut => f.write_str("no answer came in time"),
            Self::Refused { code, message } => write!(f, "the client refused: {message} ({code})"),
            Self::Invalid(why) => write!(f, "the host found the question invalid: {why}"),
            Self::TooLate => f.write_str("it is too late to ask, the call has had effects"),
            Self::Cancelled => f.write_str("the call is being stopped"),
            Self::Unreadable(why) => write!(f, "the answer cannot be read: {why}"),
        }
    }
}

impl From<raw::AskError> for AskError {
    fn from(error: raw::AskError) -> Self {
        match error {
            raw::AskError::Unsupported(what) => Self::Unsupported(what),
            raw::AskError::TimedOut => Self::TimedOut,
            raw::AskError::Refused(error) => Self::Refused { code: error.code, message: error.message },
            raw::AskError::Invalid(why) => Self::Invalid(why),
            raw::AskError::TooLate => Self::TooLate,
            raw::AskError::Cancelled => Self::Cancelled,
        }
    }
}

/// Asks the user with a form for `T`: a struct of texts, numbers, `bool`s and enums without data (variants
/// are shown by their comments), or one such value alone.
///
/// In a plain call under 2026-07-28 the run ends here. When the client has answered, the host runs the call
/// again from the start, and this function then returns at once. So ask before you change anything, and use
/// the same keys in every run.
///
/// ```no_run
/// # use toolyard_plugin::{Error, ask};
/// # fn tool() -> Result<(), Error> {
/// let name: String = ask("name", "What is your name?")?.accepted()?;
/// # let _ = name; Ok(()) }
/// ```
pub fn ask<T: DeserializeOwned + JsonSchema>(key: &str, message: &str) -> Result<Answer<T>, AskError> {
    ask_all(vec![Question::form::<T>(key, message)?])?.form(key)
}

/// Asks the user with a form that has one field of type `T` for each of these names, for forms whose fields
/// are known only when the tool runs. The answer has the same names.
///
/// ```no_run
/// # use toolyard_plugin::{Error, ask_each};
/// # fn tool() -> Result<(), Error> {
/// let wanted = ask_each::<bool>("files", "Which files?", ["a.txt", "b.txt"])?.accepted()?;
/// let is_wanted = wanted["a.txt"];
/// # let _ = is_wanted; Ok(()) }
/// ```
pub fn ask_each<T: DeserializeOwned + JsonSchema>(
    key: &str,
    message: &str,
    names: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Answer<BTreeMap<String, T>>, AskError> {
    ask_all(vec![Question::form_each::<T>(key, message, names)?])?.form(key)
}

/// Sends the user to a page, for example to sign in or to pay. `Accepted` means that the user agreed to open
/// the page, not that they finished there.
pub fn ask_url(key: &str, message: &str, url: &str) -> Result<Answer<()>, AskError> {
    ask_all(vec![Question::url(key, message, url)])?.url(key)
}

/// Sends a request to the client's model. `params` and the result are those of MCP `sampling/createMessage`.
pub fn sample(key: &str, params: Value) -> Result<Value, AskError> {
    ask_all(vec![Question::sampling(key, params)])?.value(key)
}

/// Asks for the client's folders.
pub fn roots(key: &str) -> Result<Vec<Root>, AskError> {
    #[derive(Deserialize)]
    struct Listed {
        roots: Vec<Root>,
    }
    let answer = ask_all(vec![Question::roots(key)])?.value(key)?;
    let listed: Listed = serde_json::from_value(answer).map_err(unreadable)?;
    Ok(listed.roots)
}

/// A folder of the client.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Root {
    /// Its `file:` URI.
    pub uri: String,
    /// A name for people.
    pub name: Option<String>,
}

/// Tells the client that the user has finished on the page of this [`ask_url`] question.
pub fn url_completed(key: &str) {
    host::elicitation_complete(key);
}

/// Asks several questions at once, at most 16, and returns when all have outcomes.
pub fn ask_all(questions: Vec<Question>) -> Result<Answers, AskError> {
    let questions: Vec<raw::Question> = questions.into_iter().map(|Question(question)| question).collect();
    Ok(Answers(host::ask(&questions)?))
}

/// A question, for [`ask_all`].
#[derive(Debug, Clone)]
pub struct Question(raw::Question);

impl Question {
    /// A form for the user; see [`ask`].
    pub fn form<T: JsonSchema>(key: &str, message: &str) -> Result<Self, AskError> {
        Self::of_schema::<T>(key, message, form::of::<T>())
    }

    /// A form with a field of type `T` for each name; see [`ask_each`].
    pub fn form_each<T: JsonSchema>(
        key: &str,
        message: &str,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, AskError> {
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        Self::of_schema::<T>(key, message, form::each::<T>(&names))
    }

    fn of_schema<T: JsonSchema>(
        key: &str,
        message: &str,
        schema: Result<Value, String>,
    ) -> Result<Self, AskError> {
        let schema = schema.map_err(|what| {
            AskError::Invalid(format!("no form can be made of {}: {what}", T::schema_name()))
        })?;
        // Without `mode`, which means the same: clients of revisions before 2025-11-25 do not know it.
        Ok(Self::new(key, ELICIT, json!({ "message": message, "requestedSchema": schema })))
    }

    /// A page for the user to open; see [`ask_url`].
    pub fn url(key: &str, message: &str, url: &str) -> Self {
        Self::new(key, ELICIT, json!({ "mode": "url", "message": message, "url": url }))
    }

    /// A request to the client's model; see [`sample`].
    pub fn sampling(key: &str, params: Value) -> Self {
        Self::new(key, "sampling/createMessage", params)
    }

    /// A request for the client's folders; see [`roots`].
    pub fn roots(key: &str) -> Self {
        Self::new(key, "roots/list", json!({}))
    }

    /// Any request that the host allows.
    pub fn new(key: &str, method: &str, params: Value) -> Self {
        Self(raw::Question { key: key.to_owned(), method: method.to_owned(), params: params.to_string() })
    }
}

/// The outcomes of [`ask_all`], by the keys of the questions.
#[derive(Debug)]
pub struct Answers(Vec<raw::Answer>);

/// MCP `ElicitResult`.
#[derive(Deserialize)]
struct Elicited {
    action: String,
    #[serde(default)]
    content: Value,
}

impl Answers {
    /// The user's reaction to a form of `T`.
    pub fn form<T: DeserializeOwned + JsonSchema>(&self, key: &str) -> Result<Answer<T>, AskError> {
        self.elicited(key, |content| form::read(content).map_err(AskError::Unreadable))
    }

    /// Whether the user agreed to open a page.
    pub fn url(&self, key: &str) -> Result<Answer<()>, AskError> {
        self.elicited(key, |_| Ok(()))
    }

    /// The result object of the request, unchanged.
    pub fn value(&self, key: &str) -> Result<Value, AskError> {
        let answer = self.0.iter().find(|answer| answer.key == key);
        let answer =
            answer.ok_or_else(|| AskError::Invalid(format!("nothing was asked by the key {key:?}")))?;
        serde_json::from_str(answer.outcome.as_ref().map_err(|error| error.clone())?).map_err(unreadable)
    }

    fn elicited<T>(
        &self,
        key: &str,
        read: impl FnOnce(Value) -> Result<T, AskError>,
    ) -> Result<Answer<T>, AskError> {
        let elicited: Elicited = serde_json::from_value(self.value(key)?).map_err(unreadable)?;
        match elicited.action.as_str() {
            "accept" => read(elicited.content).map(Answer::Accepted),
            "decline" => Ok(Answer::Declined),
            "cancel" => Ok(Answer::Cancelled),
            other => Err(AskError::Unreadable(format!("the client did something unknown: {other}"))),
        }
    }
}

fn unreadable(error: serde_json::Error) -> AskError {
    AskError::Unreadable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn asked(answer: Value) -> Result<Answer<String>, AskError> {
        testing::answer("name", answer);
        ask("name", "Who?")
    }

    #[test]
    fn the_user_answers_declines_or_closes_the_question() {
        let cases = [
            (
                json!({ "action": "accept", "content": { "answer": "Ada" } }),
                Answer::Accepted("Ada".to_owned()),
            ),
            (json!({ "action": "accept", "content": { "answer": "" } }), Answer::Accepted(String::new())),
            (json!({ "action": "decline" }), Answer::Declined),
            (json!({ "action": "cancel", "content": null }), Answer::Cancelled),
        ];
        for (answer, expected) in cases {
            assert_eq!(asked(answer), Ok(expected));
        }
    }

    #[test]
    fn a_strange_answer_is_an_error() {
        let cases = [
            json!({ "action": "accept" }),
            json!({ "action": "accept", "content": { "answer": 3 } }),
            json!({ "action": "dance" }),
            json!([]),
        ];
        for answer in cases {
            assert!(matches!(asked(answer.clone()), Err(AskError::Unreadable(_))), "{answer}");
        }
    }

    #[test]
    fn a_form_has_a_field_for_each_name() {
        testing::answer("files", json!({ "action": "accept", "content": { "a": true, "b": false } }));
        let answer = ask_each::<bool>("files", "Which?", ["a", "b"]);
        let expected = BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), false)]);
        assert_eq!(answer, Ok(Answer::Accepted(expected)));
        let [testing::Heard::Asked { key, method, params }] = &testing::heard()[..] else {
            panic!("one question");
        };
        assert_eq!((key.as_str(), method.as_str()), ("files", "elicitation/create"));
        assert_eq!(params["message"], "Which?");
        let boolean = json!({ "type": "boolean" });
        let schema =
            json!({ "type": "object", "properties": { "a": boolean, "b": boolean }, "required": ["a", "b"] });
        assert_eq!(params["requestedSchema"], schema);
        // A type that makes no form is refused before the client is asked.
        assert!(matches!(ask_each::<Vec<u8>>("files", "Which?", ["a"]), Err(AskError::Invalid(_))));
        let Err(AskError::Invalid(why)) = ask::<Vec<Vec<u8>>>("key", "?") else { panic!("it is no form") };
        assert!(why.contains("no form can be made of"), "{why}");
    }

    #[test]
    fn several_are_asked_at_once() {
        testing::answer("a", json!({ "action": "accept", "content": { "answer": 1 } }));
        testing::answer("b", json!({ "action": "accept" }));
        testing::answer("c", json!({ "roots": [{ "uri": "file:///a" }] }));
        let questions = vec![
            Question::form::<u8>("a", "How many?").expect("a form"),
            Question::url("b", "Sign in.", "https://example.com/"),
            Question::roots("c"),
        ];
        let answers = ask_all(questions).expect("all are answered");
        assert_eq!(answers.form("a"), Ok(Answer::Accepted(1_u8)));
        assert_eq!(answers.url("b"), Ok(Answer::Accepted(())));
        assert_eq!(answers.value("c").map(|value| value["roots"][0]["uri"].clone()), Ok(json!("file:///a")));
        assert!(matches!(answers.value("d"), Err(AskError::Invalid(_))));
        assert_eq!(roots("c"), Ok(vec![Root { uri: "file:///a".to_owned(), name: None }]));
    }

    #[test]
    fn every_failure_to_ask_is_said() {
        let refused = raw::RpcError { code: -1, message: "no".to_owned(), data: None };
        let cases = [
            (raw::AskError::Unsupported(String::new()), "not supported by this client"),
            (raw::AskError::Unsupported("form".to_owned()), "not supported by this client: form"),
            (raw::AskError::TimedOut, "no answer came in time"),
            (raw::AskError::Refused(refused), "the client refused: no (-1)"),
            (raw::AskError::Invalid("why".to_owned()), "the host found the question invalid: why"),
            (raw::AskError::TooLate, "it is too late to ask, the call has had effects"),
            (raw::AskError::Cancelled, "the call is being stopped"),
        ];
        for (error, text) in cases {
            assert_eq!(AskError::from(error.clone()).to_string(), text);
            testing::no_answer("late", error);
            let failure = ask::<bool>("late", "?").map(|_| ()).map_err(Error::from).expect_err("no answer");
            assert_eq!(failure.to_string(), text);
        }
        assert!(matches!(ask::<bool>("never", "?"), Err(AskError::Unsupported(_))));
    }
}
