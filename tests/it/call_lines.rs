//! The log lines of calls, sessions and the host itself.

use serde_json::{Value, json};
use toolyard_tests::{Host, Setup, eventually, guests};

/// Waits until so many events of the log have one of these names.
async fn until(host: &Host, names: &[&str], count: usize) -> Vec<Value> {
    eventually(&format!("{count} of {names:?}"), || async {
        let log = host.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let found: Vec<_> = lines.filter(|line| names.iter().any(|name| line["event"] == *name)).collect();
        (found.len() >= count).then_some(found)
    })
    .await
}

#[tokio::test]
async fn each_finished_call_is_a_line_with_its_caller_its_outcome_and_its_times() {
    let setup = Setup::new().with(&[guests::plugin("probe")]).set("log.format", "json");
    let (host, session) = setup.open().await;
    let opened = until(&host, &["session.opened"], 1).await;
    assert_eq!(opened[0]["principal"], "anonymous", "{opened:?}");
    assert!(!host.log().contains(session.id()), "the id opens the session");

    session.call("echo", json!({"text": "a private text"})).await;
    session.call("fail", json!({"message": "a private message"})).await;
    let failed = json!({"name": "protocol_error", "arguments": {"code": -7, "message": "no"}});
    session.error("tools/call", failed).await;
    session.error("tools/call", json!({"name": "unknown\nforged"})).await;
    let task = session.complete("wait", json!({"ms": 1})).await;
    let lines = until(&host, &["call.ended", "call.refused"], 5).await;
    let shown: Vec<_> =
        lines.iter().map(|line| [&line["event"], &line["tool"], &line["outcome"], &line["code"]]).collect();
    let none = &Value::Null;
    assert_eq!(shown[0], [&json!("call.ended"), &json!("echo"), &json!("ok"), none]);
    assert_eq!(shown[1], [&json!("call.ended"), &json!("fail"), &json!("tool_error"), none]);
    assert_eq!(shown[2], [&json!("call.ended"), &json!("protocol_error"), &json!("error"), &json!(-7)]);
    assert_eq!(shown[3][..2], [&json!("call.refused"), &json!("unknown\nforged")]);
    assert!(lines[3]["reason"].as_str().is_some_and(|why| why.starts_with("Unknown tool")), "{}", lines[3]);
    assert_eq!((&lines[4]["outcome"], &lines[4]["task"]), (&json!("ok"), &json!(task)));
    for line in lines.iter().filter(|line| line["event"] == "call.ended") {
        assert!(line["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
        assert!(line["cpu_ms"].is_f64() && line["principal"] == "anonymous", "{line}");
    }
    assert!(!host.log().contains("a private"), "arguments and results stay out of the log");

    host.signal(rustix::process::Signal::TERM);
    let ends = until(&host, &["host.started", "shutdown.signal", "host.stopped"], 3).await;
    let names: Vec<_> = ends.iter().map(|line| line["event"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["host.started", "shutdown.signal", "host.stopped"]);
    assert_eq!(ends[1]["signal"], "SIGTERM");
}
