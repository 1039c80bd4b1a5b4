//! Promotion: a long call becomes a task while it runs, and is not started again (26T-3, 26T-10).

use super::{idle, scripted_as, steps, stored};
use crate::questions::scripted;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use toolyard_tests::exchange::outcome;
use toolyard_tests::host::Setup;
use toolyard_tests::stateless::{Client, everything};
use toolyard_tests::{Host, Session, eventually, guests};

/// A step that writes a line to the host's log.
fn mark(text: &str) -> Value {
    json!({"log": {"level": "error", "data": text}})
}

#[tokio::test]
async fn t_26t_3_a_call_that_takes_long_becomes_a_task_and_is_not_started_again() {
    let host = scripted().set("tasks.inline-for", "200ms").start().await;
    let client = Client::with_tasks(host.port());
    let work = steps(json!([mark("began once"), {"info": null}, {"sleep": 1500}, {"info": null}]));
    let created = client.result("tools/call", work.clone()).await;
    assert_eq!(created["resultType"], "task", "{created}");
    assert_eq!(created["status"], "working");
    let id = created["taskId"].as_str().expect("an id");
    let task = client.until(id, "completed").await;
    let came = outcome(&task["result"]);
    assert!(came[1].get("taskId").is_none(), "it began as a plain call: {came}");
    assert_eq!(came[3]["taskId"], id, "and ended as this task");
    assert_eq!((&came[1]["attempt"], &came[3]["attempt"]), (&json!(1), &json!(1)));
    assert_eq!(host.log().matches("began once").count(), 1);
    // A client without tasks waits for the result.
    let bare = Client::new(host.port());
    assert_eq!(bare.result("tools/call", work).await["resultType"], "complete");
    // A session decides for itself (26B-10).
    let session = Session::open(host.port()).await;
    let result = session.call("script", json!({"steps": [{"sleep": 400}]})).await;
    assert_eq!(result["isError"], false);
}

#[tokio::test]
async fn t_26t_3_what_ends_in_time_is_answered_in_line_and_leaves_no_task() {
    let host = scripted().set("tasks.inline-for", "10min").start().await;
    let client = Client::with_tasks(host.port());
    let result = client.result("tools/call", steps(json!([{"sleep": 600}, {"info": null}]))).await;
    assert_eq!(result["resultType"], "complete");
    assert!(outcome(&result)[1].get("taskId").is_none(), "{result}");
    assert!(stored(host.folder()).await.is_empty());
}

#[tokio::test]
async fn t_26t_3_how_long_is_the_plugins_to_say_and_a_guest_may_say_now() {
    let setup = scripted_as(Setup::new(), "atonce", "[task]\ninline-for = \"0s\"\n");
    let setup = scripted_as(
        setup,
        "patient",
        "[task]\ninline-for = \"0s\"\n[tools.script]\ninline-for = \"10min\"\n",
    );
    let host = setup.set("tasks.inline-for", "10min").with(&[guests::fixture("script")]).start().await;
    let client = Client::with_tasks(host.port());
    for (tool, work, kind) in [
        ("atonce_script", json!([]), "task"),
        ("patient_script", json!([{"sleep": 400}]), "complete"),
        ("script", json!([{"sleep": 400}]), "complete"),
        ("script", json!([{"begin": null}]), "task"),
        ("patient_script", json!([{"sleep": 50}, {"begin": null}, {"begin": null}]), "task"),
    ] {
        let result = client.call(tool, json!({"steps": work})).await;
        assert_eq!(result["resultType"], kind, "{tool} {work}");
        if kind == "task" {
            let id = result["taskId"].as_str().expect("an id");
            let task = client.until(id, "completed").await;
            assert_eq!(outcome(&task["result"]).as_array().map(Vec::len), work.as_array().map(Vec::len));
        }
    }
}

#[tokio::test]
async fn t_26t_13_the_end_of_a_call_that_became_a_task_is_that_of_the_call() {
    let setup = Setup::new().with(&[guests::plugin("probe"), guests::fixture("script")]);
    let host = setup.set("tasks.inline-for", "100ms").start().await;
    let client = Client::new(host.port()).declaring(everything());
    let sleep = json!({"sleep": 500});
    for (last, status) in [
        (json!({"fail": {"code": -7, "message": "odd"}}), "failed"),
        (json!({"missing": {"sampling": {}}}), "failed"),
        (json!({"no such step": null}), "completed"),
    ] {
        let id = client.create("script", json!({"steps": [sleep, last]})).await;
        let task = client.until(&id, status).await;
        match last.get("missing") {
            // 26R-4, in the task instead of the response.
            Some(_) => assert_eq!(task["error"]["code"], -32021, "{task}"),
            None if status == "failed" => assert_eq!(task["error"]["code"], -7),
            // The guest has crashed, which is a result.
            None => assert_eq!(task["result"]["isError"], true),
        }
    }
    // A cancel after the promotion.
    let id = client.create("spin", json!({"ms": 600_000})).await;
    client.cancel(&id).await;
    client.until(&id, "cancelled").await;
    // From then on, the task asks the guest's questions.
    let question = crate::questions::form("a");
    let id = client.create("script", json!({"steps": [sleep, {"ask": [question]}]})).await;
    let task = client.until(&id, "input_required").await;
    let key = task["inputRequests"].as_object().and_then(|all| all.keys().next()).expect("a key").clone();
    client.update(&id, json!({key: crate::questions::accepted()})).await;
    client.until(&id, "completed").await;
}

/// A host with one slot, whose calls become tasks soon.
async fn soon() -> (Host, Client) {
    let host = scripted().set("tasks.inline-for", "300ms").set("calls.running", "1").start().await;
    let client = Client::with_tasks(host.port());
    (host, client)
}

#[tokio::test]
async fn t_26t_10_a_task_whose_handle_cannot_be_handed_over_is_cancelled() {
    let (host, client) = soon().await;
    for number in 0..5 {
        let mark_of = format!("left alone {number}");
        let work = steps(json!([mark(&mark_of), {"sleep": 600_000}]));
        let request = client.request("tools/call", work);
        let mut socket = TcpStream::connect(("127.0.0.1", host.port())).await.expect("the host listens");
        socket.write_all(&request.bytes()).await.expect("the host reads");
        eventually("the guest to begin", || async { host.log().contains(&mark_of).then_some(()) }).await;
        // The disconnect comes before the promotion or after it: no task may be left running whose id no
        // client knows.
        if number % 2 == 1 {
            tokio::time::sleep(std::time::Duration::from_millis(60 * number)).await;
        }
        drop(socket);
        idle(&client).await;
    }
    for task in stored(host.folder()).await {
        assert_eq!(task["status"], "cancelled", "{task}");
    }
}

#[tokio::test]
async fn t_26t_10_a_task_whose_handle_was_read_goes_on_without_its_connection() {
    let (host, client) = soon().await;
    let work = steps(json!([{"sleep": 1200}, mark("went on to its end")]));
    let answer = client.send(&client.request("tools/call", work)).await;
    let mut events = answer.events();
    let created = events.message().await.expect("the handle");
    drop(events);
    let id = created["result"]["taskId"].as_str().expect("a task");
    assert_eq!(client.task(id).await["status"], "working");
    client.until(id, "completed").await;
    assert!(host.log().contains("went on to its end"));
}

#[tokio::test]
async fn t_26t_10_a_crash_between_the_call_and_its_handle_leaves_no_task_running() {
    let host = scripted().set("tasks.inline-for", "200ms").start().await;
    let client = Client::with_tasks(host.port());
    let id = client.create("script", json!({"steps": [{"sleep": 600_000}]})).await;
    let mut host = host;
    host.kill().await;
    let host = host.another().await;
    let client = client.at(host.port());
    let task = client.task(&id).await;
    assert_eq!(task["status"], "failed", "{task}");
    assert!(
        task["statusMessage"].as_str().is_some_and(|text| text.contains("may have had effects")),
        "{task}"
    );
}

#[tokio::test]
async fn t_26t_3_over_the_limit_of_tasks_a_call_goes_on_in_line() {
    let setup = scripted().set("tasks.inline-for", "100ms").set("tasks.live", "1");
    let host = setup.start().await;
    let client = Client::with_tasks(host.port());
    let first = client.create("script", json!({"steps": [{"sleep": 600_000}]})).await;
    // There is no room for another task; the call goes on nevertheless.
    let result = client.result("tools/call", steps(json!([{"sleep": 500}, {"begin": null}]))).await;
    assert_eq!(result["resultType"], "complete", "{result}");
    assert!(outcome(&result)[1]["failed"].is_string(), "the guest receives the error: {result}");
    assert_eq!(client.task(&first).await["status"], "working");
}
