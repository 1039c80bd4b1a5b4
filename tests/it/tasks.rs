//! Tasks over HTTP, clause by clause (T-*).

use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::{Host, Session, eventually, guests};

const RELATED: &str = "io.modelcontextprotocol/related-task";

async fn probe() -> (Host, Session) {
    Setup::probe().open().await
}

fn as_task(tool: &str, arguments: Value, task: Value) -> Value {
    json!({"name": tool, "arguments": arguments, "task": task})
}

#[tokio::test]
async fn t_9_to_t_13_creation_answers_at_once_with_a_working_task() {
    let (_host, session) = probe().await;
    let result =
        session.result("tools/call", as_task("wait", json!({"ms": 600_000}), json!({"ttl": 60_000}))).await;
    assert_eq!(result.as_object().expect("an object").keys().collect::<Vec<_>>(), ["task"]);
    let task = &result["task"];
    assert_eq!(task["status"], "working", "T-11");
    assert_eq!(task["ttl"], 60_000);
    assert_eq!(task["pollInterval"], 1000);
    assert!(task.get("statusMessage").is_none(), "omitted, never null: {task}");
    let id = task["taskId"].as_str().expect("an id");
    assert!(id.len() == 36 && id.as_bytes()[14] == b'4', "T-10: a random UUID: {id}");
    let time = task["createdAt"].as_str().expect("a time");
    assert!(time.ends_with('Z') && time.len() == 24, "T-12: RFC 3339 in UTC: {time}");
    assert_eq!(task["createdAt"], task["lastUpdatedAt"], "X-6: it has not changed yet");
    // T-16: the task exists at once.
    assert_eq!(session.task(id).await["taskId"], id);
    // T-11: also for a task without work.
    let idle = session.result("tools/call", as_task("wait", json!({"ms": 0}), json!({}))).await;
    assert_eq!(idle["task"]["status"], "working");
}

#[tokio::test]
async fn t_13_the_ttl_is_the_default_the_wish_or_the_cap() {
    let setup = Setup::probe();
    let (_host, session) = setup.set("tasks.ttl-default", "5min").set("tasks.ttl-cap", "10min").open().await;
    for (task, ttl) in [
        (json!({}), 300_000),
        (json!({"ttl": null}), 600_000),
        (json!({"ttl": 1000}), 1000),
        (json!({"ttl": 1e15}), 600_000),
        // the host accepts a fraction, and returns an integer.
        (json!({"ttl": 1000.75}), 1000),
    ] {
        let created = session.result("tools/call", as_task("wait", json!({"ms": 1}), task.clone())).await;
        assert_eq!(created["task"]["ttl"], ttl, "{task}");
    }
}

#[tokio::test]
async fn t_7_a_malformed_augmentation_is_refused() {
    let (_host, session) = probe().await;
    for task in [json!(null), json!({"ttl": -5})] {
        let error = session.error("tools/call", as_task("wait", json!({"ms": 1}), task.clone())).await;
        assert_eq!(error["code"], -32602, "{task}");
    }
    assert_eq!(
        session.result("tasks/list", json!({})).await["tasks"],
        json!([]),
        "T-14: no task was created"
    );
}

#[tokio::test]
async fn t_3_t_4_t_5_task_support_is_obeyed() {
    let (_host, session) = probe().await;
    let error = session.error("tools/call", as_task("echo", json!({"text": "x"}), json!({}))).await;
    assert_eq!(error["code"], -32601, "T-3: not ignored, since tasks are declared (X-2)");
    let error =
        session.error("tools/call", json!({"name": "batch", "arguments": {"steps": 1, "ms": 1}})).await;
    assert_eq!(error["code"], -32601, "T-4: not the -32600 that T-6 allows (X-1)");
    session.complete("batch", json!({"steps": 2, "ms": 1})).await;
    let plain = session.call("wait", json!({"ms": 1})).await;
    assert_eq!(plain["isError"], false, "T-5");
    session.complete("wait", json!({"ms": 1})).await;
}

#[tokio::test]
async fn t_14_what_is_wrong_with_a_call_is_said_before_a_task_exists() {
    let (_host, session) = probe().await;
    for params in [
        as_task("nope", json!({}), json!({})),
        as_task("wait", json!({}), json!({})),
        as_task("wait", json!({"ms": "long"}), json!({})),
        as_task("wait", json!([]), json!({})),
    ] {
        let error = session.error("tools/call", params.clone()).await;
        assert_eq!(error["code"], -32602, "{params}");
    }
    assert_eq!(session.result("tasks/list", json!({})).await["tasks"], json!([]));
}

#[tokio::test]
async fn t_17_t_18_t_19_ends_are_completed_or_failed_and_failures_say_why() {
    let (_host, session) = probe().await;
    for (tool, arguments, status, says) in [
        ("wait", json!({"ms": 1}), "completed", None),
        ("fail", json!({"message": "no luck"}), "failed", Some("no luck")),
        ("protocol_error", json!({"code": -32050, "message": "odd"}), "failed", Some("odd")),
        ("trap", json!({}), "failed", Some("unreachable")),
    ] {
        let id = session.create(tool, arguments).await;
        let task = session.until(&id, status).await;
        match says {
            Some(says) => {
                let message = task["statusMessage"].as_str().unwrap_or_default();
                assert!(message.contains(says), "{tool}: {task}");
            }
            None => assert!(task.get("statusMessage").is_none(), "{task}"),
        }
    }
}

#[tokio::test]
async fn t_22_a_task_is_given_flat() {
    let (_host, session) = probe().await;
    let id = session.create("wait", json!({"ms": 600_000})).await;
    let task = session.task(&id).await;
    assert!(task.get("task").is_none() && task.get("_meta").is_none(), "{task}");
}

#[tokio::test]
async fn t_24_t_27_results_are_awaited_by_many_and_read_again() {
    let (_host, session) = probe().await;
    let id = session.create("count", json!({"steps": 3, "ms": 200})).await;
    let ask = || session.result("tasks/result", json!({"taskId": id}));
    // The waiting clients must be woken: the periodic check of the wait comes only after half a minute.
    let woken =
        tokio::time::timeout(std::time::Duration::from_secs(20), async { tokio::join!(ask(), ask(), ask()) });
    let (first, second, third) = woken.await.expect("all three are woken");
    assert_eq!(first["content"][0]["text"], "counted 3");
    assert_eq!(first, second);
    assert_eq!(second, third);
    assert_eq!(session.task(&id).await["status"], "completed", "an answer means that the task has ended");
    assert_eq!(ask().await, first, "reading takes nothing away");
}

#[tokio::test]
async fn t_25_t_26_a_result_is_what_the_plain_call_gives_and_names_its_task() {
    let (_host, session) = Setup::new().with(&[guests::plugin("probe"), guests::plugin("jq")]).open().await;
    for (tool, arguments) in [
        ("wait", json!({"ms": 2})),
        ("fail", json!({"message": "no \"luck\"\n"})),
        ("trap", json!({})),
        ("jq", json!({"program": ".[]", "input": [1, {"a": "b"}]})),
    ] {
        let plain = session.call(tool, arguments.clone()).await;
        let id = session.create(tool, arguments).await;
        let mut result = session.result("tasks/result", json!({"taskId": id})).await;
        let meta = result["_meta"].as_object_mut().expect("meta");
        assert_eq!(meta.remove(RELATED), Some(json!({"taskId": id})), "{tool}");
        if meta.is_empty() {
            result.as_object_mut().expect("an object").remove("_meta");
        }
        assert_eq!(result, plain, "{tool}");
    }
    let arguments = json!({"code": -32050, "message": "odd"});
    let plain = session.error("tools/call", json!({"name": "protocol_error", "arguments": arguments})).await;
    let id = session.create("protocol_error", arguments).await;
    assert_eq!(
        session.error("tasks/result", json!({"taskId": id})).await,
        plain,
        "the same error, unchanged: it has no place to name its task (X-8)"
    );
}

#[tokio::test]
async fn h_18_t_27_c_4_a_wait_is_a_stream_and_ending_it_ends_nothing_else() {
    let (_host, session) = probe().await;
    let id = session.create("wait", json!({"ms": 600_000})).await;
    let wait = json!({"jsonrpc": "2.0", "id": "w", "method": "tasks/result", "params": {"taskId": id}});
    let mut events = session.post(&wait).await.events();
    events.next().await.expect("the stream opens");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "w"}});
    session.post(&cancel).await;
    assert_eq!(events.next().await, None, "C-1: not answered");
    assert_eq!(session.task(&id).await["status"], "working");
    // T-29: nor does a dropped stream end the task.
    let wait = json!({"jsonrpc": "2.0", "id": "w2", "method": "tasks/result", "params": {"taskId": id}});
    drop(session.post(&wait).await);
    assert_eq!(session.task(&id).await["status"], "working");
    // C-3: nor does a cancellation of the request that created the task.
    let create = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": as_task("wait", json!({"ms": 600_000}), json!({}))});
    let made = session.post(&create).await.json().await["result"]["task"]["taskId"].take();
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}});
    session.post(&cancel).await;
    assert_eq!(session.task(made.as_str().expect("an id")).await["status"], "working");
}

#[tokio::test]
async fn t_28_t_34_t_35_t_36_a_cancel_is_final_and_wakes_all_who_wait() {
    let (host, session) = probe().await;
    for tool in ["spin", "wait"] {
        let id = session.create(tool, json!({"ms": 600_000})).await;
        let wait = session.error("tasks/result", json!({"taskId": id}));
        let cancel = async {
            // The wait begins first, so that the cancel has to wake it.
            session.result("ping", json!({})).await;
            session.result("tasks/cancel", json!({"taskId": id})).await
        };
        let (woken, cancelled) = tokio::join!(wait, cancel);
        assert_eq!(cancelled["status"], "cancelled", "T-34");
        assert_eq!(cancelled["taskId"], id.as_str());
        assert_eq!(woken["code"], -32603, "T-28");
        assert_eq!(woken["data"], json!({"taskId": id, "status": "cancelled"}));
        assert_eq!(session.error("tasks/result", json!({"taskId": id})).await, woken);
        let error = session.error("tasks/cancel", json!({"taskId": id})).await;
        assert_eq!(error["code"], -32602, "T-35");
        assert!(error["message"].as_str().expect("text").contains("cancelled"));
        assert_eq!(session.task(&id).await["status"], "cancelled");
    }
    let done = session.complete("wait", json!({"ms": 1})).await;
    assert_eq!(session.error("tasks/cancel", json!({"taskId": done})).await["code"], -32602, "T-35");
    assert_eq!(session.task(&done).await["status"], "completed");
    idle(&host).await;
}

/// T-36: no guest computes any more.
async fn idle(host: &Host) {
    eventually("the host to be idle", || async {
        let before = host.usage().ticks;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        (host.usage().ticks - before < 10).then_some(())
    })
    .await;
}

#[tokio::test]
async fn t_30_to_t_33_the_list_has_ones_own_tasks_in_stable_pages() {
    let (host, session) = Setup::probe().set("lists.page", "3").open().await;
    // T-8, T-32: the host tells requestors apart by their sessions, and each one sees its own tasks.
    let stranger = Session::open(host.port()).await;
    stranger.create("wait", json!({"ms": 600_000})).await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(session.create("wait", json!({"ms": 600_000})).await);
    }
    let mut listed = Vec::new();
    let mut cursor: Option<String> = None;
    let mut pages = 0;
    loop {
        let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        let page = session.result("tasks/list", params).await;
        for task in page["tasks"].as_array().expect("tasks") {
            assert!(task.get("result").is_none() && task["ttl"].is_number(), "X-7: {task}");
            listed.push(task["taskId"].as_str().expect("an id").to_owned());
        }
        pages += 1;
        // T-33: a state change does not move a task to another page.
        session.result("tasks/cancel", json!({"taskId": ids[pages]})).await;
        match page.get("nextCursor") {
            Some(next) => cursor = Some(next.as_str().expect("text").to_owned()),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    // Ordered by creation; within one millisecond by id.
    let mut expected = Vec::new();
    for id in &ids {
        expected.push((session.task(id).await["createdAt"].as_str().expect("a time").to_owned(), id.clone()));
    }
    expected.sort();
    assert_eq!(listed, expected.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
    let first = session.result("tasks/list", json!({})).await;
    let theirs = first["nextCursor"].as_str().expect("a cursor");
    for bad in ["", "x", theirs.get(1..).expect("ASCII")] {
        assert_eq!(session.error("tasks/list", json!({"cursor": bad})).await["code"], -32602, "T-31");
    }
    assert_eq!(
        stranger.error("tasks/list", json!({"cursor": theirs})).await["code"],
        -32602,
        "bound to its owner"
    );
}

#[tokio::test]
async fn t_21_a_task_that_outlives_its_ttl_is_failed_and_an_ended_one_is_collected() {
    let (host, session) = probe().await;
    let live =
        session.result("tools/call", as_task("spin", json!({"ms": 600_000}), json!({"ttl": 400}))).await;
    let live = live["task"]["taskId"].as_str().expect("an id").to_owned();
    let done = session.result("tools/call", as_task("wait", json!({"ms": 1}), json!({"ttl": 1500}))).await;
    let done = done["task"]["taskId"].as_str().expect("an id").to_owned();
    let error = session.error("tasks/result", json!({"taskId": live})).await;
    assert_eq!(error["code"], -32603);
    assert_eq!(error["data"]["status"], "failed");
    let task = session.task(&live).await;
    assert_eq!(task["status"], "failed");
    assert!(task["statusMessage"].as_str().expect("a message").contains("ttl"), "{task}");
    idle(&host).await;
    eventually("the ended task to be collected", || async {
        let answer = session.request("tasks/get", json!({"taskId": done})).await;
        (answer["error"]["code"] == -32602).then_some(())
    })
    .await;
    assert_eq!(session.task(&live).await["status"], "failed", "kept a minute longer");
    let listed = session.result("tasks/list", json!({})).await;
    assert_eq!(listed["tasks"].as_array().expect("tasks").len(), 1);
}

#[tokio::test]
async fn t_15_t_13_the_manifest_says_what_the_model_is_told_and_how_often_to_ask() {
    let manifest = "[task]\npoll-interval = \"3s\"\nimmediate-response = \"Started; ask later.\"";
    let (_host, session) = Setup::probe().manifest("probe", manifest).open().await;
    let created = session.result("tools/call", as_task("wait", json!({"ms": 1}), json!({}))).await;
    assert_eq!(created["_meta"]["io.modelcontextprotocol/model-immediate-response"], "Started; ask later.");
    assert_eq!(created["task"]["pollInterval"], 3000);
}
