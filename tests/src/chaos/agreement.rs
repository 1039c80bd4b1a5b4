//! Whether both generations report the same about a task.

use serde_json::{Value, json};

/// Whether the answers of `tasks/get` in a session and without one describe the same task in the same state
/// (26B-8).
///
/// # Errors
/// The disagreement.
pub fn agreement(within: &Value, alone: &Value) -> Result<(), String> {
    for (old, new) in [
        ("taskId", "taskId"),
        ("createdAt", "createdAt"),
        ("lastUpdatedAt", "lastUpdatedAt"),
        ("ttl", "ttlMs"),
        ("pollInterval", "pollIntervalMs"),
    ] {
        if within[old] != alone[new] {
            return Err(format!("`{old}` is not `{new}`"));
        }
    }
    // T-18 and 26T-13: if the tool failed, a session reports a failed task, and 2026-07-28 a completed one.
    let expected = match (&alone["status"], &alone["result"]["isError"]) {
        (status, Value::Bool(true)) if *status == "completed" => json!("failed"),
        (status, _) => status.clone(),
    };
    (within["status"] == expected).then_some(()).ok_or_else(|| format!("it should be {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_agree_is_named() {
        let within = |status: &str| {
            json!({"taskId": "t", "createdAt": "1", "lastUpdatedAt": "2", "ttl": 5, "pollInterval": 1,
                "status": status})
        };
        let alone = |status: &str, is_error: bool| {
            json!({
                "taskId": "t", "createdAt": "1", "lastUpdatedAt": "2", "ttlMs": 5, "pollIntervalMs": 1,
                "status": status, "result": {"isError": is_error},
            })
        };
        assert_eq!(agreement(&within("completed"), &alone("completed", false)), Ok(()));
        assert_eq!(agreement(&within("failed"), &alone("completed", true)), Ok(()));
        assert_eq!(agreement(&within("cancelled"), &alone("cancelled", false)), Ok(()));
        for (old, new) in [
            (within("completed"), alone("completed", true)),
            (within("failed"), alone("completed", false)),
            (within("working"), alone("cancelled", false)),
        ] {
            assert!(agreement(&old, &new).is_err(), "{old} {new}");
        }
        for key in ["taskId", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"] {
            let mut other = alone("completed", false);
            other[key] = json!("other");
            assert!(agreement(&within("completed"), &other).is_err(), "{key}");
        }
    }
}
