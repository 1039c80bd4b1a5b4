//! Questions to the client, and the outcome of a call whose client does not support them.

use fixtures::result;
use serde_json::{Value, json};
use toolyard_plugin::raw::{AskError, CallError, Question, ToolResult, host};

/// A question, and the capability of the client that it needs.
pub struct Asked {
    question: Question,
    needs: Value,
}

/// The reason why there are no answers.
pub enum Asking {
    /// The client lacks these capabilities.
    Lacking(Value),
    /// A message for the user.
    Failed(String),
}

impl Asking {
    /// The result of the call for this reason.
    pub fn end(self) -> Result<ToolResult, CallError> {
        match self {
            Self::Lacking(what) => Err(CallError::MissingCapability(what.to_string())),
            Self::Failed(what) => Ok(result::failure(what)),
        }
    }

    /// The same as an error, for requests other than tool calls.
    pub fn error(self) -> CallError {
        match self {
            Self::Lacking(what) => CallError::MissingCapability(what.to_string()),
            Self::Failed(what) => CallError::Rpc(fixtures::arguments::invalid_params(what)),
        }
    }
}

/// A form for the user.
pub fn form(key: &str, message: &str, properties: Value, required: &[&str]) -> Asked {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    asked(
        key,
        "elicitation/create",
        &json!({ "message": message, "requestedSchema": schema }),
        json!({ "elicitation": { "form": {} } }),
    )
}

/// A request to the client's model.
pub fn sampling(key: &str, text: &str, max_tokens: u32) -> Asked {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    let params = json!({ "messages": [message], "maxTokens": max_tokens });
    asked(key, "sampling/createMessage", &params, json!({ "sampling": {} }))
}

/// A request for the client's roots.
pub fn roots(key: &str) -> Asked {
    asked(key, "roots/list", &json!({}), json!({ "roots": {} }))
}

fn asked(key: &str, method: &str, params: &Value, needs: Value) -> Asked {
    let question = Question { key: key.to_owned(), method: method.to_owned(), params: params.to_string() };
    Asked { question, needs }
}

/// The text of the client's model: in one block, or in the first of an array of blocks.
pub fn sampled(answer: &Value) -> &str {
    let content = &answer["content"];
    content["text"].as_str().or_else(|| content[0]["text"].as_str()).unwrap_or("(no text)")
}

/// The user's value for a field of a form, as text; without content, the user's action.
pub fn field(answer: &Value, name: &str) -> String {
    match &answer["content"][name] {
        Value::String(text) => text.clone(),
        Value::Null => format!("({})", answer["action"].as_str().unwrap_or("no answer")),
        other => other.to_string(),
    }
}

/// The capabilities that the client declared.
pub fn client_capabilities() -> Value {
    call_info()["clientCapabilities"].clone()
}

/// Information about the call.
pub fn call_info() -> Value {
    serde_json::from_str(&host::call_info()).unwrap_or_default()
}

/// Asks all of these at once; the answers have the same order.
pub fn ask<const N: usize>(asked: [Asked; N]) -> Result<[Value; N], Asking> {
    let answers = ask_all(asked.into())?;
    answers.try_into().map_err(|_| Asking::Failed("The host gave other answers than asked for.".to_owned()))
}

/// Like [`ask`], for any number of questions.
pub fn ask_all(asked: Vec<Asked>) -> Result<Vec<Value>, Asking> {
    let (questions, needs): (Vec<Question>, Vec<Value>) =
        asked.into_iter().map(|Asked { question, needs }| (question, needs)).unzip();
    let answers = host::ask(&questions).map_err(|error| match error {
        AskError::Unsupported(_) => Asking::Lacking(together(needs)),
        error => Asking::Failed(why("The questions", error)),
    })?;
    let answer = |answer: toolyard_plugin::raw::Answer| {
        let json = answer.outcome.map_err(|error| Asking::Failed(why(&answer.key, error)))?;
        serde_json::from_str(&json)
            .map_err(|error| Asking::Failed(format!("{}: the answer cannot be read: {error}", answer.key)))
    };
    answers.into_iter().map(answer).collect()
}

fn together(needs: Vec<Value>) -> Value {
    let members = needs.into_iter().filter_map(|need| match need {
        Value::Object(members) => Some(members),
        _ => None,
    });
    Value::Object(members.flatten().collect())
}

/// The reason why a question has no answer, in words.
fn why(what: &str, error: AskError) -> String {
    format!("{what}: {}", toolyard_plugin::AskError::from(error))
}
