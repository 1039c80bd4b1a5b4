//! `toolyard dev`: builds, serves, reloads, and prints the events in their order.

use serde_json::json;
use toolyard_tests::project::{COPY, Dev};
use toolyard_tests::{Project, Session, guests, text};

async fn started(project: &Project) -> (Dev, Session) {
    let mut dev = project.dev();
    let port = dev.port().await;
    (dev, Session::open_as(port, "2025-11-25", json!({"elicitation": {}})).await.session)
}

#[tokio::test]
async fn a_call_is_shown_from_its_arguments_to_its_result_or_its_end_by_ctrl_c() {
    let project = Project::of(&guests::plugin("probe"));
    let (mut dev, session) = started(&project).await;
    let kinds: Vec<&str> = dev.seen().iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(kinds, ["build", "command", "built", "loaded", "serving"]);
    session.call("count", json!({"steps": 2, "ms": 1})).await;
    let call = dev.event("call").await;
    assert_eq!((&call["tool"], &call["arguments"]), (&"count".into(), &json!({"steps": 2, "ms": 1})));
    assert_eq!(call["caller"], "anonymous");
    for step in 1..=2 {
        let progress = dev.event("progress").await;
        assert_eq!((&progress["progress"], &progress["total"]), (&json!(f64::from(step)), &json!(2.0)));
        assert_eq!(progress["call"], call["call"]);
    }
    let result = dev.event("result").await;
    assert_eq!(result["call"], call["call"]);
    assert!(result["ms"].is_u64() && result["result"]["content"][0]["text"].is_string(), "{result}");

    session.call("fail", json!({"message": "no luck"})).await;
    let failed = dev.event("failed").await;
    assert_eq!(failed["result"]["content"][0]["text"], "no luck");
    let odd = json!({"name": "protocol_error", "arguments": {"code": -5, "message": "odd"}});
    session.error("tools/call", odd).await;
    assert_eq!(dev.event("error").await["code"], -5);
    session.error("tools/call", json!({"name": "nothing", "arguments": {}})).await;
    assert_eq!(dev.event("refused").await["tool"], "nothing");
    session.call("count", json!({})).await;
    let misfit = dev.event("failed").await;
    assert!(text(&misfit["result"]).contains("steps"), "{misfit}");

    // Ctrl-C ends a call and the program.
    let _call = session.begin("tools/call", json!({"name": "spin", "arguments": {"ms": 600_000}})).await;
    dev.event("call").await;
    assert_eq!(dev.interrupt().await.code(), Some(0));
}

#[tokio::test]
async fn questions_tasks_logs_and_lines_are_shown() {
    let project = Project::of(&guests::plugin("probe"));
    let (mut dev, session) = started(&project).await;
    let mut call =
        session.begin("tools/call", json!({"name": "ask", "arguments": {"question": "who?"}})).await;
    let request = call.message().await;
    session.respond(&request, json!({"action": "accept", "content": {"answer": "Ada"}})).await;
    let asked = dev.event("asked").await;
    assert_eq!((&asked["key"], &asked["method"]), (&"answer".into(), &"elicitation/create".into()));
    assert_eq!(asked["params"]["message"], "who?");
    assert_eq!(dev.event("answered").await["answer"]["content"]["answer"], "Ada");
    dev.event("result").await;
    let task = session.create("spin", json!({"ms": 600_000})).await;
    assert_eq!(dev.event("task").await["task"], task);
    session.result("tasks/cancel", json!({"taskId": task})).await;
    assert_eq!(dev.event("stopped").await["task"], task);

    let project = Project::of(&guests::fixture("stdout"));
    let (mut dev, session) = started(&project).await;
    session.call("print", json!({"lines": 1})).await;
    for (stream, holds) in [("stdout", "stdout line 0"), ("stderr", "stderr line 0")] {
        let line = dev.event_where("guest", |event| event["stream"] == stream).await;
        assert!(line["line"].as_str().is_some_and(|line| line.contains(holds)), "{line}");
    }
}

#[tokio::test]
async fn what_is_changed_is_built_and_served_and_a_failure_leaves_what_was() {
    let project = Project::of(&guests::plugin("probe"));
    let (mut dev, session) = started(&project).await;
    project.replace(&guests::fixture("stdout"));
    assert_eq!(dev.event("built").await["changed"], true);
    let loaded = dev.event("loaded").await;
    assert_eq!(loaded["added"], json!(["print"]));
    assert!(loaded["removed"].as_array().is_some_and(|removed| removed.contains(&"echo".into())), "{loaded}");
    session.call("print", json!({"lines": 0})).await;

    project.builds_by("echo error: no semicolon >&2; exit 3");
    assert_eq!(dev.event("output").await["line"], "error: no semicolon");
    let failed = dev.event("failed").await;
    assert!(failed["why"].as_str().is_some_and(|why| why.contains("exit status: 3")), "{failed}");
    session.call("print", json!({"lines": 0})).await;
    project.write("project.toml", "name = \"sample\"\nbuidl = []");
    let failed = dev.event("failed").await;
    assert!(failed["why"].as_str().is_some_and(|why| why.contains("did you mean `build`?")), "{failed}");
    project.builds_by(COPY);
    assert_eq!(dev.event("built").await["changed"], false, "nothing else had changed");

    project.builds_by("echo no component > made.wasm");
    let refused = dev.event("refused").await;
    assert_eq!((&refused["file"], &refused["former"]), (&"sample.wasm".into(), &true.into()), "{refused}");
    session.call("print", json!({"lines": 0})).await;
    project.builds_by(COPY);
    dev.event("loaded").await;

    // The grants are unknown now, so the host serves nothing.
    project.write("plugin/sample.toml", "prefix = 3");
    let refused = dev.event("refused").await;
    assert_eq!(refused["former"], false, "{refused}");
    assert!(refused["why"].as_str().is_some_and(|why| why.contains("`prefix`")), "{refused}");
    project.write("plugin/sample.toml", "prefix = \"my\"");
    assert_eq!(dev.event("loaded").await["tools"], json!(["my_print"]));
}

#[tokio::test]
async fn a_first_build_that_fails_is_mended_and_a_change_during_a_build_starts_another_after_it() {
    let project = Project::of(&guests::fixture("stdout"));
    project.builds_by("false");
    let (mut dev, session) = started(&project).await;
    assert!(dev.seen().iter().any(|event| event["event"] == "failed"));
    assert_eq!(session.result("tools/list", json!({})).await["tools"], json!([]));
    project.builds_by(COPY);
    assert_eq!(dev.event("loaded").await["tools"], json!(["print"]));
    session.call("print", json!({"lines": 0})).await;
    // The build has read its source before the test lets it continue.
    project.builds_by(&format!("{COPY}; echo read; while [ ! -e go ]; do sleep 0.02; done"));
    dev.event_where("output", |event| event["line"] == "read").await;
    project.replace(&guests::plugin("probe"));
    project.write("go", "");
    assert_eq!(dev.event("built").await["changed"], false, "what was read at the start");
    assert_eq!(dev.event("built").await["changed"], true, "what came meanwhile");
}
