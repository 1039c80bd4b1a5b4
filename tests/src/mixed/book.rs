//! The observations of a principal about its tasks, and which of them must not change.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The observations about the tasks of one principal.
#[derive(Default)]
pub(super) struct Book {
    tasks: BTreeMap<String, Seen>,
    /// The ids in the order of their creation.
    order: Vec<String>,
}

/// A finished task, as each generation reported it.
#[derive(Default)]
struct Seen {
    within: Option<Value>,
    alone: Option<Value>,
}

fn is_over(task: &Value) -> bool {
    matches!(task["status"].as_str(), Some("completed" | "failed" | "cancelled"))
}

impl Book {
    /// Records that a task was created.
    pub fn created(&mut self, id: &str) {
        self.tasks.entry(id.to_owned()).or_default();
        self.order.push(id.to_owned());
    }

    /// The ids of all tasks.
    pub fn ids(&self) -> Vec<String> {
        self.tasks.keys().cloned().collect()
    }

    /// The number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// The `n`th of the last `last` ids, modulo their number.
    pub fn nth(&self, n: u64, last: usize) -> Option<String> {
        let from = &self.order[self.order.len().saturating_sub(last)..];
        from.get(n as usize % from.len().max(1)).cloned()
    }

    /// Records the report of a session about a task.
    ///
    /// # Panics
    /// If the task had ended before, and the report differs.
    pub fn saw_within(&mut self, task: &Value) {
        let seen = self.of(task);
        settle(&mut seen.within, task);
    }

    /// Records the report of a self-contained request about a task.
    ///
    /// # Panics
    /// If the task had ended before, and the report differs.
    pub fn saw_alone(&mut self, task: &Value) {
        let seen = self.of(task);
        settle(&mut seen.alone, task);
        if let (Some(old), Some(new)) = (&seen.within, &seen.alone) {
            agreement(old, new).unwrap_or_else(|what| panic!("{what}: {old} and {new}"));
        }
    }

    fn of(&mut self, task: &Value) -> &mut Seen {
        self.tasks.entry(task["taskId"].as_str().expect("an id").to_owned()).or_default()
    }
}

/// A finished task does not change.
fn settle(known: &mut Option<Value>, task: &Value) {
    match known {
        Some(known) => assert_eq!(known, task, "it was over"),
        None if is_over(task) => *known = Some(task.clone()),
        None => {}
    }
}

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
            json!({
                "taskId": "t", "createdAt": "1", "lastUpdatedAt": "2", "ttl": 5, "pollInterval": 1,
                "status": status,
            })
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

    #[test]
    fn what_is_over_does_not_change() {
        let task =
            |status: &str, updated: &str| json!({"taskId": "t", "status": status, "lastUpdatedAt": updated});
        let mut book = Book::default();
        book.saw_within(&task("working", "1"));
        book.saw_within(&task("failed", "2"));
        book.saw_within(&task("failed", "2"));
        for other in [task("failed", "3"), task("working", "2"), task("completed", "2")] {
            let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| book.saw_within(&other)));
            assert!(changed.is_err(), "{other}");
        }
    }
}
