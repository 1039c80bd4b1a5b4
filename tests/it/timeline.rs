//! The timeline of a task, as an operator sees it at the command line.

use crate::command_line::{err, out};
use crate::questions::scripted;
use rusqlite::Connection;
use serde_json::{Value, json};
use toolyard_tests::{Host, Setup, Site, guests};

/// The events of a task.
async fn events(host: &Host, id: &str) -> Vec<Value> {
    let shown = host.command(&["tasks", "show", id, "--timeline", "--json"]).await;
    assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
    out(&shown).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn the_timeline_of_a_task_has_its_life_and_its_log_and_a_plain_call_has_none() {
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
    let logs = host.command(&["tasks", "logs", &id]).await;
    let lines: Vec<String> = out(&logs).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "a line end in a message starts no line: {lines:?}");
    assert!(lines[0].ends_with("warning disk: first"), "{lines:?}");
    assert!(!lines[1].contains('\u{1b}'));
    let shown = host.command(&["tasks", "show", &id, "--timeline"]).await;
    assert!(out(&shown).contains("created") && out(&shown).contains("on its way"), "{}", out(&shown));
    let file = Connection::open(host.data().join("toolyard.sqlite")).expect("opens");
    let runs: i64 = file.query_row("SELECT count(*) FROM run", [], |row| row.get(0)).expect("reads");
    assert_eq!(runs, 1, "a plain call is not stored");
    let unknown = host.command(&["tasks", "logs", "2ea458c9-6286-4e89-800b-6666c78e6bb0"]).await;
    assert_eq!(unknown.status.code(), Some(1));
}

#[tokio::test]
async fn logs_can_be_followed_until_the_task_ends() {
    let (host, session) = scripted().open().await;
    let log = |data: &str| json!({"log": {"level": "info", "data": data}});
    let id = session.create_script(json!([log("early"), {"sleep": 1_000}, log("late")])).await;
    let followed = host.command(&["tasks", "logs", &id, "--follow"]).await;
    assert_eq!(followed.status.code(), Some(0), "{}", err(&followed));
    let lines = out(&followed);
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
    let setup = Setup::new().with(&[guests::fixture("net_try")]).manifest("net_try", &manifest);
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
    let shown = host.command(&["tasks", "show", &requests, "--timeline"]).await;
    assert!(out(&shown).contains(&format!("GET http://localhost:{} 200", site.port())), "{}", out(&shown));
    for text in [json!(all).to_string(), json!(printed).to_string(), out(&shown)] {
        let tells = ["a-secret-value", "/page", "token"].iter().any(|word| text.contains(word));
        assert!(!tells, "{text}");
    }
}
