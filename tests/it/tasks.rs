//! Tasks over HTTP, clause by clause (T-*).

use serde_json::{Value, json};
use std::time::Duration;
use toolyard_tests::{Host, Setup, text, until};

fn as_task(tool: &str, arguments: Value, task: Value) -> Value {
    json!({"name": tool, "arguments": arguments, "task": task})
}

#[tokio::test]
async fn t_9_to_t_16_creation_answers_at_once_as_settings_manifest_and_client_want() {
    let manifest = "[task]\npoll-interval = \"3s\"\nimmediate-response = \"Started; ask later.\"";
    let setup = Setup::probe().manifest("probe", manifest);
    let (_host, session) = setup.set("tasks.ttl-default", "5min").set("tasks.ttl-cap", "10min").open().await;
    for (task, ttl) in [
        (json!({}), 300_000),
        (json!({"ttl": null}), 600_000),
        (json!({"ttl": 60_000}), 60_000),
        (json!({"ttl": 1e15}), 600_000),
        // the host accepts a fraction, and returns an integer.
        (json!({"ttl": 60_000.75}), 60_000),
    ] {
        // T-11: the task is working at first, also if there is no work.
        let created = session.result("tools/call", as_task("wait", json!({"ms": 0}), task.clone())).await;
        let model = &created["_meta"]["io.modelcontextprotocol/model-immediate-response"];
        assert_eq!(model, "Started; ask later.", "T-15");
        let created = &created["task"];
        assert_eq!((&created["status"], &created["ttl"]), (&json!("working"), &json!(ttl)), "{task}");
        assert_eq!(created["pollInterval"], 3000);
        assert!(created.get("statusMessage").is_none(), "omitted, never null: {created}");
        let id = created["taskId"].as_str().expect("an id");
        assert!(id.len() == 36 && id.as_bytes()[14] == b'4', "T-10: a random UUID: {id}");
        let time = created["createdAt"].as_str().expect("a time");
        assert!(time.ends_with('Z') && time.len() == 24, "T-12: RFC 3339 in UTC: {time}");
        assert_eq!(created["createdAt"], created["lastUpdatedAt"], "X-6: it has not changed yet");
        assert_eq!(session.task(id).await["taskId"], id, "T-16: it exists at once");
    }
}

#[tokio::test]
async fn t_24_t_27_h_18_c_4_results_are_awaited_by_many_who_may_stop_and_read_again() {
    let (_host, session) = Setup::probe().open().await;
    let id = session.create("count", json!({"steps": 3, "ms": 200})).await;
    let ask = || session.result("tasks/result", json!({"taskId": id}));
    // The waiting clients must be woken: the periodic check of the wait comes only after half a minute.
    let all = async { tokio::join!(ask(), ask(), ask()) };
    let all = tokio::time::timeout(Duration::from_secs(20), all).await;
    let (first, second, third) = all.expect("all three are woken");
    assert_eq!(text(&first), "counted 3");
    assert_eq!([&second, &third], [&first; 2]);
    assert_eq!(session.task(&id).await["status"], "completed", "an answer means that the task has ended");
    assert_eq!(ask().await, first, "reading takes nothing away");

    // H-18, T-27, C-4: a wait is a stream, and ending it ends nothing else.
    let id = session.create("wait", json!({"ms": 600_000})).await;
    let wait = session.begin("tasks/result", json!({"taskId": id})).await;
    session.notify("notifications/cancelled", json!({"requestId": wait.id})).await;
    assert_eq!(wait.rest().await, [Value::Null; 0], "C-1: not answered");
    assert_eq!(session.task(&id).await["status"], "working");
    // T-29: nor does a dropped stream end the task.
    drop(session.begin("tasks/result", json!({"taskId": id})).await);
    assert_eq!(session.task(&id).await["status"], "working");
    // C-3: nor does a cancellation of the request that created the task.
    let creation = session.next_id() + 1;
    let made = session.create("wait", json!({"ms": 600_000})).await;
    session.notify("notifications/cancelled", json!({"requestId": creation})).await;
    assert_eq!(session.task(&made).await["status"], "working");
}

/// T-36: no guest computes any more.
async fn idle(host: &Host) {
    until("the host to be idle", || async {
        let before = host.usage().ticks;
        tokio::time::sleep(Duration::from_millis(300)).await;
        host.usage().ticks - before < 10
    })
    .await;
}

#[tokio::test]
async fn t_21_a_task_that_outlives_its_ttl_is_failed_and_an_ended_one_is_collected() {
    let (host, session) = Setup::probe().open().await;
    let create = async |tool: &str, ms: u32, ttl: u32| {
        let call = as_task(tool, json!({"ms": ms}), json!({"ttl": ttl}));
        session.result("tools/call", call).await["task"]["taskId"].as_str().expect("an id").to_owned()
    };
    let (live, done) = (create("spin", 600_000, 400).await, create("wait", 1, 1500).await);
    let error = session.error("tasks/result", json!({"taskId": live})).await;
    assert_eq!(error["code"], -32603);
    assert_eq!(error["data"]["status"], "failed");
    let task = session.task(&live).await;
    assert_eq!(task["status"], "failed");
    // 26T-16: 2026-07-28 shows the same.
    assert!(task["statusMessage"].as_str().expect("a message").contains("ttl"), "{task}");
    idle(&host).await;
    until("the ended task to be collected", || async {
        let answer = session.request("tasks/get", json!({"taskId": done})).await;
        answer["error"]["code"] == -32602
    })
    .await;
    assert_eq!(session.task(&live).await["status"], "failed", "kept a minute longer");
    let listed = session.result("tasks/list", json!({})).await;
    assert_eq!(listed["tasks"].as_array().expect("tasks").len(), 1);
}
