//! The host calls of a run: reported without paths, queries and secrets, and also if the run does not wait for
//! their end.

use crate::kit::{Recorder, engine, only, run, settings, start, tool};
use std::ffi::OsString;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::Settings;
use toolyard_task::host_call::{HostAction, HostCall, HttpRequest};
use toolyard_task::tool::Report;
use toolyard_task::wire::RawJson;

fn variable(_: &str) -> Option<OsString> {
    Some("s-3cr3t-enough".into())
}

/// Runs a tool, for this long at most, and returns its host calls.
async fn host_calls(
    guest: &str,
    manifest: &str,
    name: &str,
    arguments: &str,
    time: Duration,
) -> Vec<HostCall> {
    let catalog = only(&engine(&Settings { variable, ..settings() }), guest, manifest).await;
    let recorder = Arc::new(Recorder::default());
    let arguments = RawJson::parse(arguments.to_owned()).expect("JSON");
    let running = start(&tool(&catalog, name), arguments, recorder.clone());
    drop(tokio::time::timeout(time, running).await);
    let reports = recorder.reports.lock().expect("free");
    let calls = reports.iter().filter_map(|report| match report {
        Report::HostCall(call) => Some((**call).clone()),
        _ => None,
    });
    calls.collect()
}

fn the_request(calls: Vec<HostCall>) -> HttpRequest {
    match <[HostCall; 1]>::try_from(calls) {
        Ok([HostCall { what: HostAction::Http(request), .. }]) => request,
        other => panic!("{other:?}"),
    }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_request_is_reported_however_it_ends() {
    // It accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let manifest = format!("[http]\nallow = [\"127.0.0.1:{port}\"]\n[secrets]\nKEY = {{ env = \"KEY\" }}\n");
    let arguments =
        format!(r#"{{"url":"http://127.0.0.1:{port}/path?query","method":"POST","body":"12345"}}"#);
    let time = Duration::from_millis(700);
    let dropped = the_request(host_calls("net_try", &manifest, "request", &arguments, time).await);
    let expected = HttpRequest {
        method: "POST".to_owned(),
        scheme: "http",
        host: "127.0.0.1".to_owned(),
        port,
        error: Some("not-finished"),
        sent: 5,
        ..HttpRequest::default()
    };
    assert_eq!(dropped, expected, "the run ended first");
    let arguments = r#"{"url":"http://s-3cr3t-enough.example/","method":"s-3cr3t-enough"}"#;
    let denied = the_request(host_calls("net_try", &manifest, "request", arguments, LONG).await);
    assert_eq!((denied.status, denied.error), (None, Some("HTTP-request-denied")));
    assert_eq!((&*denied.method, &*denied.host), ("[secret KEY]", "[secret KEY].example"));
}

#[tokio::test]
async fn a_sleep_and_a_socket_are_reported() {
    let calls = host_calls("script", "", "script", r#"{"steps":[{"sleep":5},{"sleep":0}]}"#, LONG).await;
    assert!(
        matches!(&*calls, [HostCall { took, what: HostAction::Sleep }] if took.as_millis() >= 5),
        "{calls:?}"
    );
    let calls = host_calls("net_try", "", "tcp", r#"{"peer":"127.0.0.1:9","send":""}"#, LONG).await;
    assert!(calls.is_empty(), "without any grant there are no sockets: {calls:?}");
    let granted = "[sockets]\ntcp = [\"127.0.0.1:9\"]\n";
    for (peer, is_allowed) in [("127.0.0.1:9", true), ("127.0.0.1:10", false)] {
        let arguments = format!(r#"{{"peer":"{peer}","send":""}}"#);
        let calls = host_calls("net_try", granted, "tcp", &arguments, LONG).await;
        let what = HostAction::Socket { protocol: "tcp", peer: peer.to_owned(), is_allowed };
        assert_eq!(calls, [HostCall { took: Duration::ZERO, what }]);
    }
}

#[tokio::test]
async fn lines_are_reported_without_secrets() {
    let manifest = "[secrets]\nAPI_KEY = { env = \"API_KEY\" }\n";
    let catalog = only(&engine(&Settings { variable, ..settings() }), "net_try", manifest).await;
    let recorder = Arc::new(Recorder::default());
    run(tool(&catalog, "leak"), r#"{"how":"print"}"#, recorder.clone()).await;
    let reports = format!("{:?}", recorder.reports.lock().expect("free"));
    assert!(reports.contains("Stderr") && reports.contains("[secret API_KEY]"), "{reports}");
    assert!(!reports.contains("s-3cr3t"), "{reports}");
}
