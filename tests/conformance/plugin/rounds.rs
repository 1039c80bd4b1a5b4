//! Tools that ask the client, and run again from the start with its answers (2026-07-28). The tools do not
//! notice this: they ask as in a session.

use fixtures::result;
use serde_json::{Value, json};
use toolyard_plugin::raw::{CallError, Tool, ToolResult, host};

use crate::questions::{self, Asking, client_capabilities, field, form, roots, sampling};
use crate::tools::{none, plain};

/// A tool: its name, its description, and what it does.
type Row = (&'static str, &'static str, fn() -> Result<String, Asking>);

const TOOLS: [Row; 10] = [
    ("test_input_required_result_elicitation", "Asks the user for a name.", name_of_user),
    ("test_input_required_result_sampling", "Asks the client's model for a capital.", capital),
    ("test_input_required_result_list_roots", "Asks the client for its roots.", client_roots),
    ("test_input_required_result_request_state", "Asks the user to confirm.", || {
        confirmed("state-ok: the user answered")
    }),
    ("test_input_required_result_tampered_state", "Asks the user to confirm.", || {
        confirmed("The user answered")
    }),
    ("test_input_required_result_multiple_inputs", "Asks three things at once.", three_at_once),
    ("test_input_required_result_multi_round", "Asks for a name, then for a color.", two_rounds),
    ("test_input_required_result_capabilities", "Asks whatever the client can be asked.", whatever_it_can),
    ("test_missing_capability", "Needs a client that has a model.", sampling_or_nothing),
    ("test_streaming_elicitation", "Says how far it is, and asks the user.", streaming),
];

/// The tools.
pub fn list() -> Vec<Tool> {
    TOOLS.iter().map(|(name, description, _)| plain(name, description, none())).collect()
}

/// Calls one of them.
pub fn call(name: &str) -> Option<Result<ToolResult, CallError>> {
    let (_, _, run) = TOOLS.iter().find(|(known, ..)| *known == name)?;
    Some(run().map(result::text).or_else(Asking::end))
}

/// The question for a name, under the suite's key.
pub fn name_question(key: &str, message: &str) -> questions::Asked {
    form(key, message, json!({ "name": { "type": "string" } }), &["name"])
}

fn name_of_user() -> Result<String, Asking> {
    let [answer] = questions::ask([name_question("user_name", "What is your name?")])?;
    Ok(format!("Hello, {}!", field(&answer, "name")))
}

fn capital() -> Result<String, Asking> {
    let [answer] = questions::ask([sampling("capital_question", "What is the capital of France?", 100)])?;
    Ok(format!("The model says: {}", questions::sampled(&answer)))
}

fn client_roots() -> Result<String, Asking> {
    let [answer] = questions::ask([roots("client_roots")])?;
    Ok(format!("The roots: {}", root_uris(&answer)))
}

fn root_uris(answer: &Value) -> String {
    let roots = answer["roots"].as_array().map(Vec::as_slice).unwrap_or_default();
    let uris: Vec<&str> = roots.iter().filter_map(|root| root["uri"].as_str()).collect();
    uris.join(", ")
}

fn confirmed(words: &str) -> Result<String, Asking> {
    let ok = json!({ "ok": { "type": "boolean" } });
    let [answer] = questions::ask([form("confirm", "Please confirm", ok, &["ok"])])?;
    Ok(format!("{words} {}.", field(&answer, "ok")))
}

fn three_at_once() -> Result<String, Asking> {
    let [name, greeting, roots] = questions::ask([
        name_question("user_name", "What is your name?"),
        sampling("greeting", "Generate a greeting", 50),
        roots("client_roots"),
    ])?;
    let (name, greeting) = (field(&name, "name"), questions::sampled(&greeting));
    Ok(format!("{greeting} {name} has the roots {}.", root_uris(&roots)))
}

fn two_rounds() -> Result<String, Asking> {
    let [name] = questions::ask([name_question("step1", "Step 1: What is your name?")])?;
    let color = json!({ "color": { "type": "string" } });
    let question = form("step2", "Step 2: What is your favorite color?", color, &["color"]);
    let [color] = questions::ask([question])?;
    Ok(format!("{} likes {}.", field(&name, "name"), field(&color, "color")))
}

fn whatever_it_can() -> Result<String, Asking> {
    let capabilities = client_capabilities();
    let every = [
        ("elicitation", name_question("user_name", "What is your name?")),
        ("sampling", sampling("greeting", "Generate a greeting", 50)),
        ("roots", roots("client_roots")),
    ];
    let can_be = every.into_iter().filter(|(capability, _)| capabilities[capability].is_object());
    let questions: Vec<questions::Asked> = can_be.map(|(_, question)| question).collect();
    if questions.is_empty() {
        return Ok("This client cannot be asked anything.".to_owned());
    }
    let answers = questions::ask_all(questions)?;
    Ok(format!("The client answered {} questions.", answers.len()))
}

fn sampling_or_nothing() -> Result<String, Asking> {
    if client_capabilities()["sampling"].is_object() {
        Ok("The client has a model.".to_owned())
    } else {
        Err(Asking::Lacking(json!({ "sampling": {} })))
    }
}

fn streaming() -> Result<String, Asking> {
    host::progress(0.0, Some(1.0), Some("About to ask."));
    name_of_user()
}
