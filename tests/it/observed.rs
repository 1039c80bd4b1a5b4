//! The operator's view of the host: liveness, readiness and metrics.

mod numbers;

use crate::command_line::out;
use hyper::Method;
use numbers::{Family, Numbers};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use toolyard_tests::admin::get;
use toolyard_tests::guests::{self, root};
use toolyard_tests::host::install_as;
use toolyard_tests::{Connection, Session, Setup, eventually, until};

fn observed() -> Setup {
    Setup::new().set("admin.listen", "127.0.0.1:0")
}

/// The status and the text at this path.
async fn look(port: u16, path: &str) -> (u16, String) {
    let answer = get(port, path).await;
    (answer.status.as_u16(), answer.text().await)
}

async fn numbers(port: u16) -> Numbers {
    let answer = get(port, "/metrics").await;
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type");
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    Numbers::read(&answer.text().await)
}

#[tokio::test]
async fn the_numbers_tell_what_has_happened() {
    let setup = observed()
        .with(&[guests::plugin("probe")])
        .manifest("probe", "[limits]\nconcurrency = 2")
        .set("wire.requests-per-session", "8");
    let host = setup.start().await;
    let session = host.open_as(json!({"elicitation": {}})).await;
    for text in ["a", "b", "c"] {
        session.call("echo", json!({"text": text})).await;
    }
    session.call("fail", json!({"message": "no"})).await;
    let error = json!({"name": "protocol_error", "arguments": {"code": -1, "message": "x"}});
    session.error("tools/call", error).await;
    // TL-9, TL-10: arguments that do not fit are a result, which the model can mend.
    assert_eq!(session.call("echo", json!({"text": 1})).await["isError"], true);
    session.error("tools/call", json!({"name": "nobody"})).await;
    session.error("no/such/method", json!({})).await;
    session.call("spin", json!({"ms": 60})).await;
    session.complete("count", json!({"steps": 1, "ms": 1})).await;
    let failed = session.create("trap", json!({})).await;
    session.until(&failed, "failed").await;
    // Both slots of the plugin are taken: a task waits, and a plain call is rejected.
    let asks = session.create("confirm", json!({"question": "Sure?"})).await;
    let works = session.create("wait", json!({"ms": 600_000})).await;
    session.until(&asks, "input_required").await;
    let waits = session.create("wait", json!({"ms": 600_000})).await;
    session.error("tools/call", json!({"name": "echo", "arguments": {"text": "x"}})).await;
    let listening = session.listen().await;
    let wrong = host.send(Method::PUT, "/mcp", &[], "").await;
    assert_eq!(wrong.status, 405);

    let read = numbers(host.admin()).await;
    let names = |text: &str| read.series.keys().any(|name| name.contains(text));
    assert!(!names("nobody") && !names("no/such"), "what clients name adds no series");
    for (series, value) in [
        (r#"toolyard_calls_total{outcome="ok",tool="echo"}"#, 3.0),
        (r#"toolyard_calls_total{outcome="invalid_arguments",tool="echo"}"#, 1.0),
        (r#"toolyard_calls_total{outcome="ok",tool="count"}"#, 1.0),
        (r#"toolyard_calls_total{outcome="tool_error",tool="fail"}"#, 1.0),
        (r#"toolyard_calls_total{outcome="tool_error",tool="trap"}"#, 1.0),
        (r#"toolyard_calls_total{outcome="error",tool="protocol_error"}"#, 1.0),
        (r#"toolyard_run_duration_seconds_count{tool="echo"}"#, 3.0),
        (r#"toolyard_tasks_created_total{}"#, 5.0),
        (r#"toolyard_tasks_ended_total{outcome="completed"}"#, 1.0),
        (r#"toolyard_tasks_ended_total{outcome="failed"}"#, 1.0),
        (r#"toolyard_tasks{state="asking"}"#, 1.0),
        (r#"toolyard_tasks{state="working"}"#, 1.0),
        (r#"toolyard_tasks{state="waiting"}"#, 1.0),
        (r#"toolyard_runs{}"#, 2.0),
        (r#"toolyard_refusals_total{limit="limits.concurrency",reason="busy"}"#, 1.0),
        (r#"toolyard_refusals_total{limit="",reason="unknown"}"#, 2.0),
        (r#"toolyard_refusals_total{limit="",reason="bad_request"}"#, 1.0),
        (r#"toolyard_requests_total{method="other"}"#, 1.0),
        (r#"toolyard_requests_total{method="initialize"}"#, 1.0),
        (r#"toolyard_sessions{}"#, 1.0),
        (r#"toolyard_sessions_opened_total{}"#, 1.0),
        (r#"toolyard_streams{}"#, 1.0),
        (r#"toolyard_plugins{state="serving"}"#, 1.0),
        (r#"toolyard_http_requests_total{method="other",status="4xx"}"#, 1.0),
        (r#"toolyard_store_failures_total{operation="commit"}"#, 0.0),
    ] {
        assert_eq!(read.get(series), value, "{series}");
    }
    assert!(read.get(r#"toolyard_guest_cpu_seconds_total{tool="spin"}"#) > 0.0);
    assert!(read.get(r#"toolyard_requests_total{method="tools/call"}"#) >= 14.0);
    assert!(read.get(r#"toolyard_connections{}"#) >= 1.0);
    assert!(read.get(r#"toolyard_store_duration_seconds_count{operation="commit"}"#) >= 5.0);
    assert!(read.get(r#"process_start_time_seconds{}"#) > 1_600_000_000.0);
    assert_eq!(read.get(&format!("toolyard_build_info{{version={:?}}}", guests::version())), 1.0);

    drop(listening);
    for task in [&waits, &works, &asks] {
        session.result("tasks/cancel", json!({"taskId": task})).await;
    }
    eventually("everything to be over", || async {
        let read = numbers(host.admin()).await;
        let over = read.get(r#"toolyard_runs{}"#) == 0.0 && read.get(r#"toolyard_streams{}"#) == 0.0;
        over.then(|| {
            assert_eq!(read.get(r#"toolyard_tasks_ended_total{outcome="cancelled"}"#), 3.0);
            // One never ran.
            assert_eq!(read.get(r#"toolyard_calls_total{outcome="stopped",tool="wait"}"#), 1.0);
            assert_eq!(read.get(r#"toolyard_questions_open{}"#), 0.0);
        })
    })
    .await;
}

#[tokio::test]
async fn a_tool_that_is_gone_leaves_no_series() {
    let (host, session) = observed().with(&[guests::plugin("probe"), guests::fixture("add")]).open().await;
    session.call("add", json!({"a": 1, "b": 2})).await;
    std::fs::remove_file(host.plugins().join("add.wasm")).expect("removed");
    install_as(&guests::fixture("stdout"), &host.plugins(), "other.wasm");
    until("the numbers of the tools to follow the folder", || async {
        let series = numbers(host.admin()).await.series;
        let named = |tool: &str| series.keys().any(|name| name.contains(&format!("tool=\"{tool}\"")));
        !named("add") && named("print")
    })
    .await;
}

#[tokio::test]
async fn a_host_whose_store_is_gone_or_that_drains_lives_and_is_not_ready() {
    let mut host = observed().with(&[guests::plugin("probe")]).set("shutdown.drain", "10min").start().await;
    let port = host.admin();
    let ready = (200, "{\"ready\":true,\"failed\":[]}\n".to_owned());
    assert_eq!(look(port, "/readyz").await, ready);
    let (file, away) = (host.data().join("toolyard.sqlite"), host.data().join("away"));
    std::fs::rename(&file, &away).expect("moved");
    assert_eq!(look(port, "/readyz").await, (503, "{\"ready\":false,\"failed\":[\"store\"]}\n".to_owned()));
    std::fs::write(&file, "another").expect("replaced");
    assert_eq!(look(port, "/readyz").await.0, 503, "it is another file");
    std::fs::rename(&away, &file).expect("moved back");
    assert_eq!(look(port, "/readyz").await, ready);

    let session = Session::open(host.port()).await;
    session.create("wait", json!({"ms": 600_000})).await;
    host.signal(Signal::TERM);
    until("it to be known", || async { look(port, "/readyz").await.0 == 503 }).await;
    assert_eq!(look(port, "/readyz").await.1, "{\"ready\":false,\"failed\":[\"stopping\"]}\n");
    assert_eq!(look(port, "/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(numbers(port).await.get(r#"toolyard_tasks{state="working"}"#), 1.0);
    host.signal(Signal::TERM);
    assert_eq!(host.ended().await.code(), Some(143));
}

#[tokio::test]
async fn h_3_the_admin_listener_takes_three_paths_and_names_of_this_machine() {
    let host = observed().start().await;
    let port = host.admin();
    for path in ["/", "/mcp", "/metrics/", "/healthz/x"] {
        assert_eq!(look(port, path).await.0, 404, "{path}");
    }
    let mut connection = Connection::open(port).await.not_mcp();
    let refused = connection.send(Method::GET, "/metrics", &[("host", "evil.example")], "").await;
    assert_eq!(refused.status, 403);
    let posted = Connection::open(port).await.not_mcp().send(Method::POST, "/metrics", &[], "").await;
    assert_eq!((posted.status.as_u16(), posted.header("allow")), (405, "GET, HEAD"));
    let head = Connection::open(port).await.not_mcp().send(Method::HEAD, "/healthz", &[], "").await;
    assert_eq!((head.status.as_u16(), head.text().await.as_str()), (200, ""));
    for path in ["/metrics", "/healthz", "/readyz"] {
        let main = host.send(Method::GET, path, &[], "").await;
        assert_eq!(main.status, 404, "the main listener does not serve {path}");
    }
}

/// The page lists every metric family correctly, and no other. The metric families and the label values in the alerts
/// of the example exist.
#[tokio::test]
async fn the_page_of_metrics_and_the_alerts_of_the_example_name_what_is_there() {
    let setup = observed().with(&[guests::plugin("probe")]).set("trace.endpoint", "http://127.0.0.1:1");
    let host = setup.start().await;
    look_at_what_there_is(&look(host.admin(), "/metrics").await.1);
    let read = numbers(host.admin()).await;
    let rows: Vec<String> = read
        .families
        .iter()
        .map(|(name, Family { kind, help, labels })| {
            let suffix = match kind.as_str() {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            format!("| `{name}{suffix}` | {kind} | {} | {help} |\n", labels.join(", "))
        })
        .collect();
    let file = root().join("host/docs/reference/metrics.md");
    let page = std::fs::read_to_string(&file).expect("the page");
    let (begin, end) = ("| family | type | labels | what it is |\n| --- | --- | --- | --- |\n", "\n## ");
    let start = page.find(begin).expect("a table") + begin.len();
    let stop = start + page[start..].find(end).expect("what follows the table");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!("{}{}{}", &page[..start], rows.concat(), &page[stop..]);
        std::fs::write(&file, page).expect("the page can be written");
        return;
    }
    assert_eq!(page[start..stop], rows.concat(), "UPDATE_DOCS=1 rewrites it");
}

/// The strict parser of Prometheus' own library accepts the metrics, after calls, rejections and a task; and
/// the files of the example are YAML.
#[tokio::test]
#[ignore = "nightly: clients"]
async fn the_official_parser_reads_the_numbers_strictly() {
    let (host, session) = observed().with(&[guests::plugin("probe")]).open().await;
    session.call("echo", json!({"text": "x"})).await;
    session.error("tools/call", json!({"name": "nobody", "arguments": {}})).await;
    session.complete("wait", json!({"ms": 1})).await;
    let text = look(host.admin(), "/metrics").await.1;
    let file = host.folder().join("metrics.txt");
    std::fs::write(&file, text).expect("a file");
    let example = root().join("examples/deployments/prometheus");
    let files = [file, example.join("prometheus.yml"), example.join("alerts.yml")];
    let Some(said) = crate::clients::python("python/metrics.py", &files).await else { return };
    assert!(said.starts_with("ok "), "{said}");
}

/// The alerts of the example name series in this text.
fn look_at_what_there_is(text: &str) {
    let folder = root().join("examples/deployments/prometheus");
    let alerts = std::fs::read_to_string(folder.join("alerts.yml")).expect("the alerts");
    let scrape = std::fs::read_to_string(folder.join("prometheus.yml")).expect("the configuration");
    assert!(scrape.contains("alerts.yml") && scrape.contains("127.0.0.1:7421"));
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut seen = BTreeSet::new();
    for (at, _) in alerts.match_indices("toolyard_") {
        let (name, rest) = alerts[at..].split_at(alerts[at..].find(|c| !word(c)).expect("it goes on"));
        assert!(text.lines().any(|line| line.starts_with(name)), "no series is called {name}");
        if let Some((matchers, _)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            let (label, values) = matchers.split_once('=').expect("a matcher");
            for value in values.trim_matches(['~', '"']).split('|') {
                let pair = format!("{label}=\"{value}\"");
                let has_it = |line: &str| line.starts_with(name) && line.contains(&pair);
                assert!(text.lines().any(has_it), "{name} {pair}");
            }
        }
        seen.insert(name);
    }
    assert!(seen.len() >= 5, "{seen:?}");
}

#[tokio::test]
async fn the_command_status_says_whether_the_host_is_ready_and_what_it_does() {
    let (mut host, session) = observed().with(&[guests::plugin("probe")]).open().await;
    let task = session.create("wait", json!({"ms": 600_000})).await;
    session.until(&task, "working").await;
    let (listen, admin) =
        (format!("listen=127.0.0.1:{}", host.port()), format!("admin.listen=127.0.0.1:{}", host.admin()));
    let status = ["status", "--set", &listen, "--set", &admin];
    let text = host.prints(&status).await;
    let parts = "/mcp (Toolyard |ready      yes|plugins    1 serving|runs       1 now|tasks      1 working";
    for part in parts.split('|') {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = host.prints(&[&status[..], &["--json"]].concat()).await;
    let state: Value = serde_json::from_str(&text).expect("JSON");
    assert!(state["ready"] == true && state["figures"]["plugins"]["serving"] == 1, "{text}");
    assert_eq!(state["tasks"], json!({"working": 1, "inputRequired": 0}));

    host.kill().await;
    let gone = host.command(&status).await;
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    let text = out(&gone);
    assert!(text.contains("host       no answer at 127.0.0.1:") && text.contains("ready      no"), "{text}");
}
