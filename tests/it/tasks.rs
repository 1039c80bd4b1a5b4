//! Tasks over HTTP, clause by clause (T-*).

use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::{Host, Session, eventually, guests};

const RELATED: &str = "io.modelcontextprotocol/related-task";

async fn probe() -> (Host, Session) {
    let host = Host::with_probe().await;
    let session = Session::open(host.port()).await;
    (host, session)
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
    let setup = Setup::new().with(&[guests::plugin("probe")]);
    let host = setup.set("tasks.ttl-default", "5min").set("tasks.ttl-cap", "10min").start().await;
    let session = Session::open(host.port()).await;
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
    for task in
        [json!(null), json!(5), json!([]), json!({"ttl": 0}), json!({"ttl": -5}), json!({"ttl": "1h"})]
    {
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
    let batch = session.create("batch", json!({"steps": 2, "ms": 1})).await;
    session.until(&batch, "completed").await;
    let plain = session.call("wait", json!({"ms": 1})).await;
    assert_eq!(plain["isError"], false, "T-5");
    let task = session.create("wait", json!({"ms": 1})).await;
    session.until(&task, "completed").await;
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
async fn t_20_a_task_never_looks_younger_than_before() {
    let (_host, session) = probe().await;
    let id = session.create("count", json!({"steps": 8, "ms": 100})).await;
    let mut last = String::new();
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let task = session.task(&id).await;
        let updated = task["lastUpdatedAt"].as_str().expect("a time").to_owned();
        assert!(updated >= last);
        last = updated;
        seen.extend(task["statusMessage"].as_str().map(str::to_owned));
        if task["status"] == "completed" {
            break;
        }
    }
    assert!(seen.iter().any(|message| message.contains("of 8")), "the guest's status is shown: {seen:?}");
}

#[tokio::test]
async fn t_22_t_23_get_is_flat_and_foreign_and_unknown_ids_read_alike() {
    let (host, session) = probe().await;
    let id = session.create("wait", json!({"ms": 600_000})).await;
    let task = session.task(&id).await;
    assert!(task.get("task").is_none() && task.get("_meta").is_none(), "{task}");
    let stranger = Session::open(host.port()).await;
    let mut told = Vec::new();
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        told.push(stranger.error(method, json!({"taskId": id})).await);
        told.push(stranger.error(method, json!({"taskId": "786512e2-9e0d-44bd-8f29-789f320fe840"})).await);
        told.push(stranger.error(method, json!({"taskId": id.to_uppercase()})).await);
        told.push(stranger.error(method, json!({"taskId": "../../etc/passwd"})).await);
    }
    assert!(told.iter().all(|error| *error == told[0] && error["code"] == -32602), "{told:?}");
    for params in [json!({}), json!({"taskId": 5}), json!({"taskId": null})] {
        assert_eq!(session.error("tasks/get", params).await["code"], -32602);
    }
    assert_eq!(session.task(&id).await["status"], "working", "the stranger did no harm");
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
    let host = Host::with(&[guests::plugin("probe"), guests::plugin("jq")]).await;
    let session = Session::open(host.port()).await;
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
    let done = session.create("wait", json!({"ms": 1})).await;
    session.until(&done, "completed").await;
    assert_eq!(session.error("tasks/cancel", json!({"taskId": done})).await["code"], -32602, "T-35");
    assert_eq!(session.task(&done).await["status"], "completed");
    idle(&host).await;
}

/// T-36: no guest computes any more.
async fn idle(host: &Host) {
    let pid = host.pid().as_raw_nonzero();
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the host runs");
        let after = stat.rsplit_once(')').expect("a name").1;
        let fields: Vec<&str> = after.split_whitespace().collect();
        fields[11].parse::<u64>().expect("ticks") + fields[12].parse::<u64>().expect("ticks")
    };
    eventually("the host to be idle", || async {
        let before = ticks();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        (ticks() - before < 10).then_some(())
    })
    .await;
}

#[tokio::test]
async fn t_36_a_cancel_that_races_with_the_end_is_never_undone() {
    let (_host, session) = probe().await;
    let mut cancelled = 0;
    for n in 0..60 {
        // For small `n` the end comes first and for large `n` the cancel does, on any machine.
        let id = session.create("wait", json!({"ms": n * n})).await;
        let answer = session.request("tasks/cancel", json!({"taskId": id})).await;
        let expected = if answer.get("result").is_some() { "cancelled" } else { "completed" };
        cancelled += usize::from(expected == "cancelled");
        for _ in 0..3 {
            assert_eq!(session.task(&id).await["status"], expected, "{answer}");
        }
    }
    assert!(cancelled > 0, "some cancels came in time");
}

#[tokio::test]
async fn t_30_to_t_33_the_list_has_ones_own_tasks_in_stable_pages() {
    let host = Setup::new().with(&[guests::plugin("probe")]).set("lists.page", "3").start().await;
    let session = Session::open(host.port()).await;
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
        // T-33: a row that changes its state moves no page.
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
async fn t_38_t_39_progress_of_a_task_keeps_its_token_names_the_task_and_takes_one_stream() {
    let (_host, session) = probe().await;
    let mut listening = session.listen().await;
    listening.next().await.expect("the stream opens");
    let params = json!({
        "name": "count", "arguments": {"steps": 20, "ms": 60}, "task": {}, "_meta": {"progressToken": 0},
    });
    let id = session.result("tools/call", params).await["task"]["taskId"].as_str().expect("an id").to_owned();
    // While no client waits for the result, the notifications come on the GET stream.
    let created = listening.message().await.expect("its status");
    assert_eq!(created["method"], "notifications/tasks/status", "T-37");
    let first = listening.message().await.expect("progress");
    assert_eq!(first["method"], "notifications/progress");
    assert_eq!(first["params"]["progressToken"], 0);
    assert_eq!(first["params"]["_meta"][RELATED]["taskId"], id.as_str());
    assert_eq!(first["params"]["total"], 20.0);
    let (answer, notices) = session.request_and_notices("tasks/result", json!({"taskId": id})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "counted 20");
    let mut last = 0.0;
    for notice in notices.iter().filter(|notice| notice["method"] == "notifications/progress") {
        let progress = notice["params"]["progress"].as_f64().expect("progress");
        assert!(progress > last);
        last = progress;
    }
    assert_eq!(last, 20.0, "the last progress comes before the answer");
}

#[tokio::test]
async fn t_42_what_is_over_the_bounds_waits_its_turn_or_is_told_busy() {
    let setup = Setup::new().with(&[guests::plugin("probe")]);
    let host =
        setup.set("calls.running-per-principal", "2").set("tasks.waiting-per-principal", "3").start().await;
    let session = Session::open(host.port()).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(session.create("wait", json!({"ms": 600_000})).await);
    }
    for id in &ids[2..] {
        let task = session.task(id).await;
        assert_eq!(task["status"], "working");
        assert!(task["statusMessage"].as_str().expect("a message").contains("Waiting"), "{task}");
    }
    let error = session.error("tools/call", as_task("wait", json!({"ms": 1}), json!({}))).await;
    assert_eq!(error["code"], -32603, "T-44");
    assert!(error["data"]["limit"].is_string() && error["data"]["retryAfterMs"].is_number(), "{error}");
    let error = session.error("tools/call", json!({"name": "wait", "arguments": {"ms": 1}})).await;
    assert_eq!(error["data"]["limit"], "calls.running-per-principal");
    // Other sessions are not delayed.
    let other = Session::open(host.port()).await;
    assert_eq!(other.call("wait", json!({"ms": 1})).await["isError"], false);
    // A queued task can be cancelled, and the others start in order.
    session.result("tasks/cancel", json!({"taskId": ids[2]})).await;
    session.result("tasks/cancel", json!({"taskId": ids[0]})).await;
    eventually("the next task in the queue to start", || async {
        session.task(&ids[3]).await.get("statusMessage").is_none().then_some(())
    })
    .await;
    assert!(session.task(&ids[4]).await["statusMessage"].is_string());
}

#[tokio::test]
async fn a_stream_of_a_result_is_resumed_after_the_end() {
    let (_host, session) = probe().await;
    let id = session.create("wait", json!({"ms": 700})).await;
    let wait = json!({"jsonrpc": "2.0", "id": "r9", "method": "tasks/result", "params": {"taskId": id}});
    let mut events = session.post(&wait).await.events();
    let opening = events.next().await.expect("the stream opens").id.expect("an id");
    drop(events);
    session.until(&id, "completed").await;
    let mut resumed = session.get(Some(&opening)).await.events();
    let status = resumed.message().await.expect("the end of the task");
    assert_eq!(status["params"]["status"], "completed", "T-37");
    assert_eq!(resumed.message().await.expect("the answer")["id"], "r9");
}

#[tokio::test]
async fn questions_are_answered_for_a_client_that_cannot_be_asked() {
    let (_host, session) = probe().await;
    for tool in ["ask", "confirm"] {
        let plain = session.call(tool, json!({"question": "Why?"})).await;
        assert_eq!(plain["isError"], true, "{plain}");
        assert!(plain["content"][0]["text"].as_str().expect("text").contains("not supported"), "{plain}");
        let id = session.create(tool, json!({"question": "Why?"})).await;
        session.until(&id, "failed").await;
    }
}

#[tokio::test]
async fn t_15_t_13_the_manifest_says_what_the_model_is_told_and_how_often_to_ask() {
    let manifest = "[task]\npoll-interval = \"3s\"\nimmediate-response = \"Started; ask later.\"";
    let host = Setup::new().with(&[guests::plugin("probe")]).manifest("probe", manifest).start().await;
    let session = Session::open(host.port()).await;
    let created = session.result("tools/call", as_task("wait", json!({"ms": 1}), json!({}))).await;
    assert_eq!(created["_meta"]["io.modelcontextprotocol/model-immediate-response"], "Started; ask later.");
    assert_eq!(created["task"]["pollInterval"], 3000);
}

#[tokio::test]
async fn t_43_the_life_of_a_task_is_in_the_log_and_its_arguments_are_not() {
    let (host, session) = probe().await;
    let secret = "do-not-log-this";
    let id = session.create("fail", json!({"message": secret})).await;
    session.until(&id, "failed").await;
    let log = eventually("the log", || async {
        let log = host.log();
        (log.contains("event=\"task.created\"") && log.contains("event=\"task.ended\"")).then_some(log)
    })
    .await;
    assert!(log.contains(&id) && !log.contains(secret), "{log}");
}
