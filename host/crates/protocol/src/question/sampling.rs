//! Sampling: the params of `sampling/createMessage` and its answers (M-1 to M-4).

use crate::raw::RawJson;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The needs of a request beyond plain sampling (M-1).
pub(super) struct Needs {
    pub tools: bool,
    pub context: bool,
}

/// The needs of these params, which were checked.
pub(super) fn needs(params: &RawJson) -> Needs {
    let value: Value = params.decode().unwrap_or_default();
    let is_tool_block = |block: &&Value| matches!(block["type"].as_str(), Some("tool_use" | "tool_result"));
    let messages = value["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    Needs {
        tools: value.get("tools").is_some()
            || value.get("toolChoice").is_some()
            || messages.iter().any(|message| blocks(message).iter().any(is_tool_block)),
        context: value["includeContext"].as_str().is_some_and(|context| context != "none"),
    }
}

/// The content of a message, which is one block or several (M-3).
fn blocks(message: &Value) -> Vec<&Value> {
    match &message["content"] {
        Value::Array(blocks) => blocks.iter().collect(),
        block => vec![block],
    }
}

pub(super) fn check(params: &Map<String, Value>) -> Result<(), String> {
    let messages = params.get("messages").and_then(Value::as_array).ok_or("`messages` must be an array")?;
    for message in messages {
        if !matches!(message["role"].as_str(), Some("user" | "assistant")) {
            return Err("the role of a message is user or assistant".to_owned());
        }
        if !blocks(message).iter().all(|block| block["type"].is_string()) {
            return Err("the content of a message is a block, or several, each with a `type`".to_owned());
        }
    }
    check_tool_results(messages)?;
    if !params.get("maxTokens").and_then(Value::as_f64).is_some_and(|tokens| tokens >= 1.0) {
        return Err("`maxTokens` must be a number, at least 1".to_owned());
    }
    if let Some(tools) = params.get("tools") {
        let tools = tools.as_array().ok_or("`tools` must be an array")?;
        if !tools.iter().all(|tool| tool["name"].is_string() && tool["inputSchema"].is_object()) {
            return Err("every tool needs a `name` and an `inputSchema`".to_owned());
        }
    }
    let modes = ["auto", "required", "none"];
    if let Some(choice) = params.get("toolChoice")
        && !(choice.is_object()
            && choice.get("mode").is_none_or(|mode| modes.iter().any(|known| mode == known)))
    {
        return Err("`toolChoice.mode` must be auto, required or none".to_owned());
    }
    let contexts = ["none", "thisServer", "allServers"];
    if let Some(context) = params.get("includeContext")
        && !contexts.iter().any(|known| context == known)
    {
        return Err("`includeContext` must be none, thisServer or allServers".to_owned());
    }
    let is = |name: &str, fits: fn(&Value) -> bool| params.get(name).is_none_or(fits);
    for (name, fits) in [
        ("systemPrompt", is("systemPrompt", Value::is_string)),
        ("temperature", is("temperature", Value::is_number)),
        ("stopSequences", is("stopSequences", Value::is_array)),
        ("modelPreferences", is("modelPreferences", Value::is_object)),
        ("metadata", is("metadata", Value::is_object)),
    ] {
        if !fits {
            return Err(format!("`{name}` is of the wrong type"));
        }
    }
    Ok(())
}

/// M-4: a message with tool uses is followed at once by a message of the user that holds exactly the
/// results of all these uses.
fn check_tool_results(messages: &[Value]) -> Result<(), String> {
    let ids = |message: &Value, kind: &str, id: &str| -> BTreeSet<String> {
        let of_kind = |block: &&Value| block["type"] == kind;
        let id = |block: &Value| block[id].as_str().unwrap_or_default().to_owned();
        blocks(message).into_iter().filter(of_kind).map(id).collect()
    };
    let mut used = BTreeSet::new();
    for message in messages {
        let results = ids(message, "tool_result", "toolUseId");
        if results != used {
            return Err("the results of tools must follow their use, one for each".to_owned());
        }
        if !results.is_empty() && (message["role"] != "user" || results.len() != blocks(message).len()) {
            return Err("a message with results of tools is the user's and holds nothing else".to_owned());
        }
        used = ids(message, "tool_use", "id");
    }
    if used.is_empty() { Ok(()) } else { Err("the last use of a tool has no result".to_owned()) }
}

/// Checks the form of a `CreateMessageResult` (M-3).
pub(super) fn check_answer(answer: &Value) -> Result<(), String> {
    if !matches!(answer["role"].as_str(), Some("user" | "assistant")) {
        return Err("`role` must be user or assistant".to_owned());
    }
    if !answer["model"].is_string() {
        return Err("`model` must be a string".to_owned());
    }
    if !blocks(answer).iter().all(|block| block["type"].is_string()) {
        return Err("`content` must be a block, or several, each with a `type`".to_owned());
    }
    Ok(())
}
