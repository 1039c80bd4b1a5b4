//! Requirements of the specification that its schema cannot express.

use serde_json::Value;

pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The problems of a result of a request with these params.
pub(super) fn of_result(definition: &str, params: &Value, result: &Value) -> Vec<String> {
    let foreign = ["resultType", "ttlMs", "cacheScope"].into_iter().filter(|key| result.get(*key).is_some());
    let mut problems: Vec<_> = foreign.map(|key| format!("J-9: `{key}` is of a later revision")).collect();
    match definition {
        "EmptyResult" => {
            let extra = result.as_object().into_iter().flatten().find(|(key, _)| *key != "_meta");
            problems.extend(extra.map(|(key, _)| format!("J-9: an empty result has no `{key}`")));
        }
        "CreateTaskResult" => problems.extend(of_task(&result["task"])),
        "GetTaskResult" | "CancelTaskResult" => {
            problems.extend(of_task(result));
            problems.extend(names_its_task_needlessly(result));
        }
        "ListTasksResult" => {
            result["tasks"].as_array().into_iter().flatten().for_each(|task| problems.extend(of_task(task)));
            problems.extend(names_its_task_needlessly(result));
        }
        // The result of `tasks/result`: a call has no task id.
        "CallToolResult" if result["_meta"][RELATED_TASK]["taskId"] != params["taskId"] => {
            problems.push("T-26: the result does not name its task".to_owned());
        }
        _ => {}
    }
    if result["nextCursor"] == "" {
        problems.push("N-1: an empty cursor".to_owned());
    }
    problems
}

/// The problems of a notification.
pub(super) fn of_notification(message: &Value) -> Vec<String> {
    if message["method"] != "notifications/tasks/status" {
        return Vec::new();
    }
    of_task(&message["params"]).into_iter().chain(names_its_task_needlessly(&message["params"])).collect()
}

/// The problem of an error, if any.
pub(super) fn of_error(message: &Value) -> Option<String> {
    // The definition admits any text, but an empty message helps no reader.
    (message["error"]["message"] == "").then(|| "J-4: an error without a message".to_owned())
}

pub(super) fn of_task(task: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let (created, updated) = (task["createdAt"].as_str(), task["lastUpdatedAt"].as_str());
    if let Some(time) = [created, updated].into_iter().flatten().find(|time| !is_utc(time)) {
        problems.push(format!("T-12: not an RFC 3339 time in UTC: {time}"));
    }
    // The timestamps have one format and one length, so they sort as text.
    if updated < created {
        problems.push("T-20: last updated before it was created".to_owned());
    }
    problems
}

/// Whether a time has the form `2025-11-25T10:30:00.123Z`.
fn is_utc(time: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000Z";
    time.len() == FORM.len()
        && time.bytes().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == *form,
        })
}

fn names_its_task_needlessly(holder: &Value) -> Option<String> {
    holder["_meta"].get(RELATED_TASK).map(|_| "T-38: related-task where the task is named already".to_owned())
}
