//! Requirements of the specification for messages without sessions that the schemas cannot express.

use super::errors;
use crate::schema::Schema;
use crate::stateless::{TASKS, VERSION, key};
use crate::tap::negotiated::needed;
use crate::tap::rules::{RELATED_TASK, of_task};
use serde_json::Value;

/// The results that say how long clients may cache them.
const CACHED: [&str; 6] = [
    "DiscoverResult",
    "ListToolsResult",
    "ListPromptsResult",
    "ListResourcesResult",
    "ListResourceTemplatesResult",
    "ReadResourceResult",
];

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Whether a log message of this level goes to a request that asked for `asked` (26C-4).
pub(super) fn is_at_least(level: Option<&str>, asked: Option<&str>) -> bool {
    let rank = |level: Option<&str>| LEVELS.iter().position(|known| Some(*known) == level);
    rank(asked).is_some_and(|asked| rank(level).is_some_and(|level| level >= asked))
}

/// The problem of a notification that belongs to no request.
pub(super) fn unwanted(method: &str, params: &Value) -> String {
    match method {
        "notifications/progress" => format!("26C-3: no request gave the token {}", params["progressToken"]),
        "notifications/message" => format!("26C-4: no request asked for {}", params["level"]),
        _ => format!("26SUB-3: {method} names no subscription"),
    }
}

/// The notifications that were granted but not asked for (26SUB-2).
pub(super) fn beyond(granted: &Value, asked: &Value) -> Vec<String> {
    let members = granted.as_object().into_iter().flatten();
    let within = |key: &str, value: &Value| match value {
        Value::Array(granted) => {
            let asked = asked[key].as_array();
            asked.is_some_and(|asked| granted.iter().all(|one| asked.contains(one)))
        }
        value => *value == asked[key],
    };
    let beyond = members.filter(|(key, value)| !within(key, value));
    beyond.map(|(key, _)| format!("26SUB-2: `{key}` was not asked for")).collect()
}

/// Whether a notification was granted.
pub(super) fn is_granted(granted: &Value, method: &str, params: &Value) -> bool {
    let holds = |key: &str, value: &Value| granted[key].as_array().is_some_and(|all| all.contains(value));
    match method {
        "notifications/tools/list_changed" => granted["toolsListChanged"] == true,
        "notifications/prompts/list_changed" => granted["promptsListChanged"] == true,
        "notifications/resources/list_changed" => granted["resourcesListChanged"] == true,
        "notifications/resources/updated" => holds("resourceSubscriptions", &params["uri"]),
        "notifications/tasks" => holds("taskIds", &params["taskId"]),
        // 26SUB-6: progress and logs never come on this stream.
        _ => false,
    }
}

/// The problems of any result.
pub(super) fn of_any_result(definition: &str, result: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let server = &result["_meta"][key::SERVER];
    // 26T-17, 26T-20: an acknowledgement has its type and nothing else. 26SUB-5: the final message of a
    // subscription names the subscription, and nothing else.
    let may_be_bare = is_acknowledgement(definition) && result.get("_meta").is_none()
        || definition == "SubscriptionsListenResult" && server.is_null();
    let signed = server["name"].is_string() && server["version"].is_string();
    if !signed && !may_be_bare {
        problems.push("26J-5: the result does not say whose it is".to_owned());
    }
    if result.get("serverInfo").is_some() {
        problems.push("26J-5: `serverInfo` is no member of a result".to_owned());
    }
    if result["nextCursor"] == "" {
        problems.push("N-1: an empty cursor".to_owned());
    }
    problems
}

/// The problems of this result of a request with these params.
pub(super) fn of_result(schema: &Schema, definition: &str, params: &Value, result: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let cached = CACHED.contains(&definition);
    if !cached && result.get("cacheScope").is_some() {
        problems.push(format!("26C-5: {definition} is not kept"));
    }
    if !cached && !matches!(definition, "CreateTaskResult" | "GetTaskResult") && result.get("ttlMs").is_some()
    {
        problems.push(format!("26C-5: {definition} is not kept"));
    }
    match definition {
        "DiscoverResult" => problems.extend(of_discovery(result)),
        "ListToolsResult" => {
            let tools = result["tools"].as_array().into_iter().flatten();
            let executed = tools.filter(|tool| tool.get("execution").is_some());
            problems.extend(executed.map(|tool| format!("26TL-1: {} has `execution`", tool["name"])));
        }
        "InputRequiredResult" => problems.extend(of_input_required(result, &params["_meta"])),
        "CreateTaskResult" => problems.extend(of_created(result, &params["_meta"])),
        "GetTaskResult" => {
            if result["taskId"] != params["taskId"] {
                problems.push("26T-14: it is another task".to_owned());
            }
            problems.extend(of_detailed_task(schema, result, &params["_meta"]));
        }
        definition if is_acknowledgement(definition) => {
            let others = result.as_object().into_iter().flatten().map(|(key, _)| key);
            let others = others.filter(|key| !matches!(key.as_str(), "resultType" | "_meta"));
            problems.extend(others.map(|key| format!("26T-17: an acknowledgement has no `{key}`")));
        }
        _ => {}
    }
    problems
}

fn is_acknowledgement(definition: &str) -> bool {
    matches!(definition, "UpdateTaskResult" | "CancelTaskResult")
}

fn of_discovery(result: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if result["supportedVersions"] != serde_json::json!([VERSION]) {
        problems.push("26D-4: versions that are not spoken without a session".to_owned());
    }
    let capabilities = &result["capabilities"];
    if capabilities.get("tasks").is_some() {
        problems.push("26D-2: `tasks` is a capability of sessions".to_owned());
    }
    if capabilities["extensions"].get(TASKS).is_some_and(|tasks| *tasks != serde_json::json!({})) {
        problems.push("26D-2: the extension has no members".to_owned());
    }
    problems
}

fn of_input_required(result: &Value, meta: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if result.get("inputRequests").is_none() && result.get("requestState").is_none() {
        problems.push("26M-2: neither requests nor a state".to_owned());
    }
    problems.extend(of_input_requests(&result["inputRequests"], meta));
    problems
}

/// The problems of questions to a client that declared `meta` with its request.
fn of_input_requests(requests: &Value, meta: &Value) -> Vec<String> {
    let declared = &meta[key::CAPABILITIES];
    let mut problems = Vec::new();
    for (name, request) in requests.as_object().into_iter().flatten() {
        let method = request["method"].as_str().unwrap_or_default();
        let needed = needed(declared, method, &request["params"]);
        let missing = needed.into_iter().filter(|needed| declared.pointer(needed).is_none());
        problems.extend(missing.map(|missing| format!("26M-3: `{name}` needs {missing}")));
        let others = request.as_object().into_iter().flatten().map(|(key, _)| key);
        let others = others.filter(|key| !matches!(key.as_str(), "method" | "params"));
        problems.extend(others.map(|key| format!("26M-2: `{name}` has `{key}`")));
        if request["params"].get("elicitationId").is_some() {
            problems.push(format!("26M-8: `{name}` has an id"));
        }
        if request["params"]["_meta"].get(RELATED_TASK).is_some() {
            problems.push(format!("26T-14: `{name}` names a task"));
        }
    }
    problems
}

fn of_created(result: &Value, meta: &Value) -> Vec<String> {
    let mut problems = of_flat_task(result);
    if !meta[key::CAPABILITIES]["extensions"][TASKS].is_object() {
        problems.push("26T-2: the request did not declare the extension".to_owned());
    }
    let foreign = ["task", "result", "error", "inputRequests", "requestState"];
    let foreign = foreign.into_iter().filter(|key| result.get(*key).is_some());
    problems.extend(foreign.map(|key| format!("26T-9: what creates a task has no `{key}`")));
    problems
}

fn of_flat_task(task: &Value) -> Vec<String> {
    let mut problems = of_task(task);
    let old = ["ttl", "pollInterval"].into_iter().filter(|key| task.get(*key).is_some());
    problems.extend(old.map(|key| format!("26T-8: `{key}` is an old name")));
    problems
}

/// The problems of a task with its outcome, for a request with this `_meta`.
pub(super) fn of_detailed_task(schema: &Schema, task: &Value, meta: &Value) -> Vec<String> {
    let mut problems = of_flat_task(task);
    let payload = match task["status"].as_str().unwrap_or_default() {
        "completed" => "result",
        "failed" => "error",
        "input_required" => "inputRequests",
        _ => "",
    };
    for key in ["result", "error", "inputRequests", "requestState", "task"] {
        if (key == payload) != task.get(key).is_some() {
            problems.push(format!("26T-14: `{key}` of a task that is {}", task["status"]));
        }
    }
    match payload {
        "result" => {
            problems.extend(schema.stateless.problems("CallToolResult", &task["result"]));
            if task["result"]["resultType"] != "complete" {
                problems.push("26T-14: the inlined result is not complete".to_owned());
            }
            if task["result"]["_meta"].get(RELATED_TASK).is_some() {
                problems.push("26T-14: the inlined result names its task".to_owned());
            }
        }
        "error" => problems.extend(errors::of_any(&task["error"])),
        "inputRequests" => {
            if task["inputRequests"].as_object().is_none_or(serde_json::Map::is_empty) {
                problems.push("26T-14: nothing is asked".to_owned());
            }
            problems.extend(of_input_requests(&task["inputRequests"], meta));
        }
        _ => {}
    }
    problems
}
