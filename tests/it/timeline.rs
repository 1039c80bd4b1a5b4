//! The timeline of a task, as an operator sees it at the command line.

use crate::questions::scripted;
use rusqlite::Connection;
use serde_json::{Value, json};
use toolyard_tests::{Host, Setup, Site};

/// The events of a task.
async fn events(host: &Host, id: &str) -> Vec<Value> {
    host.lines(&["tasks", "show", id, "--timeline", "--json"]).await
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn the_timeline_of_a_task_has_its_life_and_its_log_which_can_be_followed_and_a_plain_call_has_none() {
    let (host, session) = scripted().open().await;
    let log = |data: &str| json!({"log": {"level": "warning", "logger": "disk", "data": data}});
    let progress =
        |number: u32| json!({"progress": {"progress": number, "total": 9, "message": "on its way"}});
    session.call("script", json!({"steps": [log("plain")]})).await;
    let steps = json!([log("first"), progress(1), progress(2), progress(3), log("a\r\nFAKE\u{1b}[2J")]);
    let id = session.create_script(steps).await;
    session.until(&id, "completed").await;
    let all = events(&host, &id).await;
    let expected = ["created", "started", "log", "progress", "log", "progress", "ended"];
    assert_eq!(kinds(&all), expected, "progress is stored once a second, and the last at the end: {all:?}");
    assert_eq!(all[2]["details"], json!({"level": "warning", "logger": "disk", "data": "first"}));
    assert_eq!(all[3]["details"]["progress"].as_f64(), Some(1.0));
    assert_eq!(all[5]["details"]["progress"].as_f64(), Some(3.0));
    assert_eq!(all[6]["details"]["status"], "completed");
    let logs = host.prints(&["tasks", "logs", &id]).await;
    let lines: Vec<&str> = logs.lines().collect();
    assert_eq!(lines.len(), 2, "a line end in a message starts no line: {lines:?}");
    assert!(lines[0].ends_with("warning disk: first") && !lines[1].contains('\u{1b}'), "{lines:?}");
    let shown = host.prints(&["tasks", "show", &id, "--timeline"]).await;
    assert!(shown.contains("created") && shown.contains("on its way"), "{shown}");
    let file = Connection::open(host.data().join("toolyard.sqlite")).expect("opens");
    let runs: i64 = file.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).expect("reads");
    assert_eq!(runs, 1, "a plain call is not stored");
    host.refuses(&["tasks", "logs", "2ea458c9-6286-4e89-800b-6666c78e6bb0"], 1, "").await;
    // Logs can be followed until the task ends.
    let id = session.create_script(json!([log("early"), {"sleep": 1_000}, log("late")])).await;
    let lines = host.prints(&["tasks", "logs", &id, "--follow"]).await;
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.contains("early") && lines.contains("late"), "{lines}");
    assert_eq!(session.task(&id).await["status"], "completed");
}

/// A timeline has no secret and no path.
#[tokio::test]
async fn a_timeline_has_the_requests_and_the_output_of_the_guest() {
    let site = Site::start().await;
    let manifest = format!(
        "[http]\nallow = [\"localhost:{}\"]\n[secrets]\nAPI_KEY = {{ file = \"./api.key\" }}\n",
        site.port()
    );
    let setup = Setup::fixture("net_try", &manifest);
    std::fs::write(setup.plugins().join("api.key"), "a-secret-value").expect("writes");
    let (host, session) = setup.open().await;
    let url = format!("{}?token=a-secret-value", site.url("/page"));
    let requests = session.complete("request", json!({"url": url, "times": 2})).await;
    let prints = session.complete("leak", json!({"how": "print"})).await;
    let all = events(&host, &requests).await;
    assert_eq!(kinds(&all), ["created", "started", "host_call", "host_call", "ended"], "{all:?}");
    let printed = events(&host, &prints).await;
    for stream in ["stdout", "stderr"] {
        let texts = printed.iter().filter(|event| event["event"] == stream);
        let texts: String = texts.filter_map(|event| event["details"]["text"].as_str()).collect();
        assert!(texts.contains("[secret API_KEY]"), "{stream}: {printed:?}");
    }
    let shown = host.prints(&["tasks", "show", &requests, "--timeline"]).await;
    assert!(shown.contains(&format!("GET http://localhost:{} 200", site.port())), "{shown}");
    for text in [json!(all).to_string(), json!(printed).to_string(), shown] {
        let tells = ["a-secret-value", "/page", "token"].iter().any(|word| text.contains(word));
        assert!(!tells, "{text}");
    }
}
