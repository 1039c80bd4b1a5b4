//! The draft `wasi:logging`: if a component without the toolyard contract logs through it, the message
//! reaches the client like any other log message (G-*). And the log of the host itself: its lines about calls, sessions
//! and traps, and what becomes of it if it cannot be written.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Stdio;
use tokio::net::TcpStream;
use toolyard_tests::host::{command, run};
use toolyard_tests::{Host, Session, Setup, eventually, process, succeeds};

/// A component that logs through this interface: at each level, then without a context.
fn logs_by(interface: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
             (import "{interface}" (instance $logging
               (type $enum (enum "trace" "debug" "info" "warn" "error" "critical"))
               (export "level" (type $level (eq $enum)))
               (export "log" (func (param "level" $level) (param "context" string) (param "message" string)))))
             (core module $memory (memory (export "memory") 1) (data (i32.const 0) "diskalmost full"))
             (core instance $memory (instantiate $memory))
             (alias export $logging "log" (func $log))
             (core func $log (canon lower (func $log) (memory (core memory $memory "memory"))))
             (core module $guest
               (import "logging" "log" (func $log (param i32 i32 i32 i32 i32)))
               (func (export "run") (local $level i32)
                 (loop $each
                   (call $log (local.get $level) (i32.const 0) (i32.const 4) (i32.const 4) (i32.const 11))
                   (local.set $level (i32.add (local.get $level) (i32.const 1)))
                   (br_if $each (i32.lt_u (local.get $level) (i32.const 6))))
                 (call $log (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 6))))
             (core instance $guest
               (instantiate $guest (with "logging" (instance (export "log" (func $log))))))
             (func $run (canon lift (core func $guest "run")))
             (export "run" (func $run)))"#
    );
    wat::parse_str(text).expect("parses")
}

#[tokio::test]
async fn g_1_what_a_component_logs_by_wasi_logging_reaches_the_client() {
    for interface in ["wasi:logging/logging", "wasi:logging/logging@0.1.0-draft"] {
        let setup = Setup::new();
        std::fs::write(setup.plugins().join("logger.wasm"), logs_by(interface)).expect("written");
        let (_host, session) = setup.open().await;
        session.result("logging/setLevel", json!({"level": "debug"})).await;
        let params = json!({"name": "run", "arguments": {}});
        let (answer, messages) = session.request_and_notices("tools/call", params).await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        let logged: Vec<_> = messages.iter().map(|message| &message["params"]).collect();
        let full = |level: &str| json!({"level": level, "logger": "disk", "data": "almost full"});
        let expected = ["debug", "debug", "info", "warning", "error", "critical"].map(full);
        assert_eq!(logged[..6], expected.iter().collect::<Vec<_>>()[..], "{interface}");
        assert_eq!(*logged[6], json!({"level": "info", "data": "almost"}), "no logger of an empty name");
        assert_eq!(logged.len(), 7);
    }
}

/// A full disk under standard error, and a reader that does not read it: R6 of the review of tasks that resume.
#[tokio::test]
async fn a_log_that_cannot_be_written_loses_lines_and_stops_nothing() {
    let (_unread, mut stuck) = std::io::pipe().expect("a pipe");
    // Full before the host says anything.
    stuck.write_all(&[b'\n'; 1 << 16]).expect("a pipe has room for this");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    for stderr in [Stdio::from(full), Stdio::from(stuck)] {
        let free = || std::net::TcpListener::bind("127.0.0.1:0").expect("free").local_addr().expect("bound");
        let (listen, admin) = (free(), free());
        let args = [format!("--set=listen={listen}"), format!("--set=admin.listen={admin}")];
        let setup = Setup::probe();
        let mut host = command("serve", setup.folder(), &args).stderr(stderr).spawn().expect("starts");
        eventually("it listens", || async { TcpStream::connect(listen).await.ok() }).await;
        let session = Session::open(listen.port()).await;
        // Each task logs two lines.
        for _ in 0..20 {
            session.complete("count", json!({"steps": 1, "ms": 1})).await;
        }
        let said = succeeds(&run("status", setup.folder(), &args).await);
        let lost = said.lines().find_map(|line| line.strip_prefix("log ")).expect("a line about the log");
        assert!(lost.contains("lines could not be written"), "{said}");
        process::signal(&host, Signal::TERM);
        assert!(process::ended(&mut host).await.success());
    }
}

const TRAPS: &str = r#"(component
  (core module $m
    (func $innermost unreachable)
    (func $outer (export "crash") call $innermost)
    (func $around (export "spin") (loop $l (br $l))))
  (core instance $i (instantiate $m))
  (func (export "crash") (canon lift (core func $i "crash")))
  (func (export "spin") (canon lift (core func $i "spin"))))"#;

#[tokio::test]
async fn the_log_names_the_functions_in_which_a_guest_trapped_or_spent_its_time() {
    let setup = Setup::new().manifest("traps", "[limits]\ncpu = \"100ms\"");
    std::fs::write(setup.plugins().join("traps.wasm"), wat::parse_str(TRAPS).expect("parses"))
        .expect("written");
    let (host, session) = setup.open().await;
    let crash = session.call("crash", json!({})).await;
    assert!(
        crash["isError"] == true && !crash.to_string().contains("innermost"),
        "no client's business: {crash}"
    );
    session.call("spin", json!({})).await;
    for name in ["at innermost", "at outer", "at around"] {
        host.logs(name).await;
    }
}

/// Waits until so many events of the log have one of these names.
async fn events(host: &Host, names: &[&str], count: usize) -> Vec<Value> {
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
    let (host, session) = Setup::probe().set("log.format", "json").open().await;
    let opened = events(&host, &["session.opened"], 1).await;
    assert_eq!(opened[0]["principal"], "anonymous", "{opened:?}");
    assert!(!host.log().contains(session.id()), "the id opens the session");

    session.call("echo", json!({"text": "a private text"})).await;
    session.call("fail", json!({"message": "a private message"})).await;
    let failed = json!({"name": "protocol_error", "arguments": {"code": -7, "message": "no"}});
    session.error("tools/call", failed).await;
    session.error("tools/call", json!({"name": "unknown\nforged"})).await;
    let task = session.complete("wait", json!({"ms": 1})).await;
    let lines = events(&host, &["call.ended", "call.refused"], 5).await;
    let shown = |line: &Value| json!([line["event"], line["tool"], line["outcome"], line["code"]]);
    assert_eq!(shown(&lines[0]), json!(["call.ended", "echo", "ok", null]));
    assert_eq!(shown(&lines[1]), json!(["call.ended", "fail", "tool_error", null]));
    assert_eq!(shown(&lines[2]), json!(["call.ended", "protocol_error", "error", -7]));
    assert!(lines[3]["event"] == "call.refused" && lines[3]["tool"] == "unknown\nforged", "{}", lines[3]);
    assert!(lines[3]["reason"].as_str().is_some_and(|why| why.starts_with("Unknown tool")), "{}", lines[3]);
    assert_eq!((&lines[4]["outcome"], &lines[4]["task"]), (&json!("ok"), &json!(task)));
    for line in lines.iter().filter(|line| line["event"] == "call.ended") {
        assert!(line["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
        assert!(line["cpu_ms"].is_f64() && line["principal"] == "anonymous", "{line}");
    }
    assert!(!host.log().contains("a private"), "arguments and results stay out of the log");

    host.signal(rustix::process::Signal::TERM);
    let names = ["host.started", "shutdown.signal", "host.stopped"];
    let ends = events(&host, &names, 3).await;
    assert_eq!([0, 1, 2].map(|index| &ends[index]["event"]), names);
    assert_eq!(ends[1]["signal"], "SIGTERM");
}
