//! The tasks extension (26T): which requests become tasks, the shape of a task, and the answers about it.

use super::{probe, scripted_as};
use serde_json::{Value, json};
use toolyard_tests::exchange::outcome;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;
use toolyard_tests::stateless::{Client, TASKS, key};

const NOBODY: &str = "786512e2-9e0d-44bd-8f29-789f320fe840";

fn extension() -> Value {
    json!({"extensions": {TASKS: {}}})
}

#[tokio::test]
async fn t_26t_1_t_26t_2_t_26t_3_the_server_decides_if_the_request_says_that_it_may() {
    let (host, client) = probe().await;
    let batch = json!({"name": "batch", "arguments": {"steps": 1, "ms": 1}});
    let created = client.result("tools/call", batch.clone()).await;
    assert_eq!(created["resultType"], "task");
    // 26T-4: without the extension, the host rejects a call that must be a task, and runs one that may be a
    // task as a plain call.
    for capabilities in [json!({}), json!({"tasks": {"requests": {"tools": {"call": {}}}}})] {
        let bare = Client::new(host.port()).declaring(capabilities.clone());
        let reply = bare.ask("tools/call", batch.clone()).await;
        assert_eq!(reply.refusal(), (400, -32021), "26B-10: {capabilities}");
        assert_eq!(reply.message["error"]["data"]["requiredCapabilities"], extension());
        let result = bare.call("count", json!({"steps": 2, "ms": 1})).await;
        assert_eq!(result["resultType"], "complete", "{capabilities}");
    }
    // 26R-6: just before, the same client declared the capability.
    let able = client
        .request("tools/call", batch)
        .meta(key::CAPABILITIES, json!({"extensions": {TASKS: {"later": 1}}}));
    assert_eq!(client.reply(&able).await.result()["resultType"], "task", "whatever members it has");
    // Fast work is answered at once, with or without the extension.
    assert_eq!(client.call("count", json!({"steps": 1, "ms": 1})).await["resultType"], "complete");
}

#[tokio::test]
async fn t_26t_4_t_26t_5_what_is_forbidden_or_no_tool_never_becomes_a_task() {
    let host = scripted_as(Setup::new(), "never", "[tools.script]\ntask-support = \"forbidden\"\n");
    let (_host, client) = host.set("tasks.inline-for", "0s").serve_client().await;
    let arguments = json!({"steps": [{"begin": null}, {"sleep": 400}, {"info": null}]});
    let result = client.call("never_script", arguments).await;
    assert_eq!(result["resultType"], "complete");
    assert!(outcome(&result)[2].get("taskId").is_none(), "{result}");
    let read = client.result("resources/read", json!({"uri": "script:ask"})).await;
    assert_eq!(read["resultType"], "complete");
}

#[tokio::test]
async fn t_26t_8_t_26t_9_t_26t_10_creation_answers_with_a_flat_task_that_is_there() {
    let setup = Setup::probe().set("tasks.inline-for", "0s");
    let setup =
        setup.manifest("probe", "[task]\npoll-interval = \"250ms\"\nimmediate-response = \"Later.\"\n");
    let (host, client) = setup.set("tasks.ttl-default", "5min").serve_client().await;
    let created = client.call("wait", json!({"ms": 600_000})).await;
    // 26X-3: no member `task`.
    let mut members: Vec<_> = created.as_object().expect("an object").keys().map(String::as_str).collect();
    members.sort_unstable();
    let expected =
        ["_meta", "createdAt", "lastUpdatedAt", "pollIntervalMs", "resultType", "status", "taskId", "ttlMs"];
    assert_eq!(members, expected);
    assert_eq!(created["status"], "working");
    assert_eq!((&created["ttlMs"], &created["pollIntervalMs"]), (&json!(300_000), &json!(250)));
    assert_eq!(created["_meta"]["io.modelcontextprotocol/model-immediate-response"], "Later.");
    let id = created["taskId"].as_str().expect("an id");
    assert!(id.len() == 36 && id.as_bytes()[14] == b'4', "26T-25: it cannot be guessed: {id}");
    let task = client.task(id).await;
    for member in ["taskId", "status", "createdAt", "ttlMs", "pollIntervalMs"] {
        assert_eq!(task[member], created[member], "{member}");
    }
    assert_eq!(task["resultType"], "complete", "26X-1");
    assert!(
        task.get("task").is_none() && task["_meta"].get("io.modelcontextprotocol/related-task").is_none()
    );
    // 26S-3: the task survives a crash, though its run does not.
    let host = host.killed_and_restarted().await;
    let task = client.at(host.port()).task(id).await;
    assert_eq!(task["status"], "failed", "{task}");
    assert_eq!(task["error"]["code"], -32603);
    assert!(
        task["statusMessage"].as_str().is_some_and(|text| text.contains("may have had effects")),
        "{task}"
    );
}

#[tokio::test]
async fn t_26t_12_t_26t_13_t_26t_14_what_a_task_came_to_is_in_it() {
    let setup = Setup::new().with(&[guests::plugin("probe"), guests::plugin("jq")]);
    let (host, client) = setup.set("tasks.inline-for", "0s").serve_client().await;
    let bare = Client::new(host.port());
    for (tool, arguments, status) in [
        ("wait", json!({"ms": 2}), "completed"),
        // The tool fails, but the call was carried out (the opposite of T-18).
        ("fail", json!({"message": "no \"luck\"\n"}), "completed"),
        ("jq", json!({"program": ".[]", "input": [1, {"a": "b"}]}), "completed"),
        ("trap", json!({}), "completed"),
        ("protocol_error", json!({"code": -5, "message": "odd"}), "failed"),
        ("protocol_error", json!({"code": -32050, "message": "odd"}), "failed"),
    ] {
        let id = client.create(tool, arguments.clone()).await;
        let task = client.until(&id, status).await;
        let mut plain = bare.ask("tools/call", json!({"name": tool, "arguments": arguments})).await.message;
        match status {
            "completed" => {
                // The task holds the result of the plain call without its `_meta`, which names the server:
                // the answer around the task has this `_meta`.
                let plain = &mut plain["result"];
                plain.as_object_mut().expect("an object").remove("_meta");
                assert_eq!(task["result"], *plain, "{tool}");
                assert_eq!(
                    task["result"]["resultType"], "complete",
                    "it is a result of this revision by itself"
                );
            }
            _ => {
                assert_eq!(task["error"], plain["error"], "{tool}: 26J-7 for it as well");
                assert!(task["statusMessage"].as_str().is_some_and(|text| text.contains("odd")), "{task}");
            }
        }
        assert_eq!(client.task(&id).await, task, "reading takes nothing away");
    }
}

#[tokio::test]
async fn t_26t_6_d_26d_7_without_the_extension_there_are_no_tasks_at_all() {
    let (host, client) = probe().await;
    let id = client.create("batch", json!({"steps": 1, "ms": 600_000})).await;
    for capabilities in [json!({}), json!({"tasks": {}}), json!({"tasks": {"list": {}, "cancel": {}}})] {
        let bare = Client::new(host.port()).declaring(capabilities.clone());
        // This check comes first, for existing tasks and for unknown ones.
        for id in [id.as_str(), NOBODY, "nonsense"] {
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                let reply = bare.ask(method, json!({"taskId": id, "inputResponses": {}})).await;
                assert_eq!(reply.refusal(), (400, -32021), "{method} {id} {capabilities}");
                assert_eq!(reply.message["error"]["data"]["requiredCapabilities"], extension());
            }
        }
        let listen = json!({"notifications": {"taskIds": [id]}});
        assert_eq!(bare.ask("subscriptions/listen", listen).await.refusal(), (400, -32021));
    }
    assert_eq!(client.task(&id).await["status"], "working");
    // A host that does not offer the extension does not have these methods.
    let off = Setup::probe().set("tasks.enabled", "false").start().await;
    let client = client.at(off.port());
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let reply = client.ask(method, json!({"taskId": id, "inputResponses": {}})).await;
        assert_eq!(reply.refusal(), (404, -32601), "{method}");
    }
    let result = client.call("batch", json!({"steps": 1, "ms": 1})).await;
    assert_eq!(result["resultType"], "complete", "it is a plain call on a host without tasks");
}

#[tokio::test]
async fn t_26t_20_a_cancel_is_acknowledged_however_often_and_whatever_it_finds() {
    let (_host, client) = probe().await;
    let id = client.create("spin", json!({"ms": 600_000})).await;
    for _ in 0..3 {
        let acknowledged = client.cancel(&id).await;
        assert_eq!(acknowledged["resultType"], "complete");
        assert!(acknowledged.get("status").is_none() && acknowledged.get("taskId").is_none());
    }
    client.until(&id, "cancelled").await;
    let done = client.create("batch", json!({"steps": 1, "ms": 1})).await;
    let completed = client.until(&done, "completed").await;
    // Unknown members have no effect (26X-7: nor does `_meta`).
    let params = json!({"taskId": done, "reason": "enough", "inputResponses": 5});
    assert_eq!(client.result("tasks/cancel", params).await["resultType"], "complete");
    assert_eq!(client.task(&done).await, completed, "a finished task does not change");
}

#[tokio::test]
async fn t_26t_16_a_task_is_there_until_its_time_is_over_and_says_how_it_ended() {
    let setup = Setup::probe().set("tasks.ttl-default", "1s");
    let (_host, client) = setup.serve_client().await;
    let created = client.call("batch", json!({"steps": 1, "ms": 600_000})).await;
    assert_eq!(created["ttlMs"], 1000);
    let id = created["taskId"].as_str().expect("an id");
    let task = client.until(id, "failed").await;
    assert_eq!(task["error"]["code"], -32603);
    let (created, ended) =
        (task["createdAt"].as_str().expect("a time"), task["lastUpdatedAt"].as_str().expect("a time"));
    // The timestamps have one format, so they sort as text; more than a second lies between them.
    assert!(ended > created, "{task}");
    assert_eq!(client.task(id).await["status"], "failed", "it does not vanish silently");
}
