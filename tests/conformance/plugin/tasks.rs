//! Tools for the scenarios of the tasks extension. The host decides whether a call is a task; a tool can
//! request it with `begin-task`.

use fixtures::declaration::{object, tool};
use fixtures::{arguments, result};
use serde_json::{Value, json};
use toolyard_plugin::raw::{CallError, RpcError, TaskSupport, Tool, ToolResult, host};

use crate::questions::{self, Asking, field, form};
use crate::rounds::name_question;
use crate::tools::{none, plain};

/// The duration of the failing jobs.
const JOB_MS: u64 = 1_000;
/// The name of the extension.
const TASKS: &str = "io.modelcontextprotocol/tasks";
/// JSON-RPC 2.0: a failure of the server.
const INTERNAL_ERROR: i32 = -32603;

/// The tools.
pub fn list() -> Vec<Tool> {
    let string = || json!({ "type": "string" });
    let supports = |name: &str, description: &str, input: Value, task_support: TaskSupport| Tool {
        task_support,
        ..tool(name, name, description, input)
    };
    let (optional, required) = (TaskSupport::Optional, TaskSupport::Required);
    let seconds = json!({ "type": "number", "minimum": 0, "maximum": 3600 });
    let compute = object(json!({ "seconds": seconds, "label": string() }), &["seconds"]);
    vec![
        plain("greet", "Greets, at once.", object(json!({ "name": string() }), &["name"])),
        supports("slow_compute", "Takes so many seconds.", compute, optional),
        supports("failing_job", "Fails after a second.", none(), required),
        supports("protocol_error_job", "Ends with a JSON-RPC error after a second.", none(), required),
        supports(
            "confirm_delete",
            "Deletes nothing, after the user agreed.",
            object(json!({ "filename": string() }), &["filename"]),
            optional,
        ),
        supports("multi_input", "Asks two things at once.", none(), optional),
        supports("test_tool_with_task", "Asks for a name, then works as a task.", none(), optional),
    ]
}

/// Calls one of them.
pub fn call(name: &str, given: &str) -> Option<Result<ToolResult, CallError>> {
    let given: Value = match arguments::read(given) {
        Ok(given) => given,
        Err(error) => return Some(Err(error)),
    };
    let text = |name: &str| given[name].as_str().unwrap_or_default().to_owned();
    let done = match name {
        "greet" => Ok(format!("Hello, {}!", text("name"))),
        "slow_compute" => compute(given["seconds"].as_f64().unwrap_or_default(), &text("label")),
        "failing_job" => {
            host::sleep(JOB_MS);
            Err(Asking::Failed("The job failed, as it always does.".to_owned()))
        }
        "protocol_error_job" => {
            host::sleep(JOB_MS);
            let message = "The job ended without a result, as it always does.".to_owned();
            return Some(Err(CallError::Rpc(RpcError { code: INTERNAL_ERROR, message, data: None })));
        }
        "confirm_delete" => confirm(&text("filename")),
        "multi_input" => two_at_once(),
        "test_tool_with_task" => name_then_task(),
        _ => return None,
    };
    Some(done.map(result::text).or_else(Asking::end))
}

/// Makes the call a task from here on, if possible.
fn begin_task() -> Result<(), Asking> {
    toolyard_plugin::begin_task().map_err(|error| Asking::Failed(error.to_string()))
}

fn compute(seconds: f64, label: &str) -> Result<String, Asking> {
    if seconds > 0.0 {
        begin_task()?;
        host::sleep((seconds * 1_000.0) as u64);
    }
    Ok(format!("{label}: computed for {seconds} seconds."))
}

fn confirm(filename: &str) -> Result<String, Asking> {
    begin_task()?;
    let confirm = json!({ "confirm": { "type": "boolean" } });
    let message = format!("Delete {filename}?");
    let [answer] = questions::ask([form("confirm", &message, confirm, &["confirm"])])?;
    Ok(match &answer["content"]["confirm"] {
        Value::Bool(true) => format!("{filename} would be deleted now."),
        _ => format!("{filename} stays."),
    })
}

fn two_at_once() -> Result<String, Asking> {
    begin_task()?;
    let [first, second] = questions::ask([
        name_question("first", "What is the first name?"),
        name_question("second", "What is the second name?"),
    ])?;
    Ok(format!("The names are {} and {}.", field(&first, "name"), field(&second, "name")))
}

/// Asks as a plain call, then works as a task.
fn name_then_task() -> Result<String, Asking> {
    let is_task = || questions::call_info()["taskId"].is_string();
    let lacking = || Asking::Lacking(json!({ "extensions": { TASKS: {} } }));
    // Do not ask a client whose call cannot become a task afterwards.
    if !is_task() && !questions::client_capabilities()["extensions"][TASKS].is_object() {
        return Err(lacking());
    }
    let [answer] = questions::ask([name_question("user_name", "What is your name?")])?;
    begin_task()?;
    if !is_task() {
        return Err(lacking());
    }
    Ok(format!("The task worked for {}.", field(&answer, "name")))
}
