//! The draft `wasi:logging`: if a component without the toolyard contract logs through it, the message
//! reaches the client like any other log message (G-*). And the log of the host itself, if it cannot be written.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::Write as _;
use std::process::Stdio;
use tokio::net::TcpStream;
use toolyard_tests::host::command;
use toolyard_tests::{PATIENCE, Session, Setup, eventually};

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
        let free =
            || std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
        let (listen, admin) = (free(), free());
        let setup = Setup::probe().set("listen", &listen.to_string()).set("admin.listen", &admin.to_string());
        let (folder, args) = setup.into_parts();
        let mut serve = command("serve", folder.path(), &args);
        let mut host = serve.stderr(stderr).spawn().expect("starts");
        eventually("it listens", || async { TcpStream::connect(listen).await.ok() }).await;
        let session = Session::open(listen.port()).await;
        // Each task logs two lines.
        for _ in 0..20 {
            session.complete("count", json!({"steps": 1, "ms": 1})).await;
        }
        let status = command("status", folder.path(), &args).output().await.expect("runs");
        let said = String::from_utf8_lossy(&status.stdout);
        let lost = said.lines().find_map(|line| line.strip_prefix("log ")).expect("a line about the log");
        assert!(status.status.success() && lost.contains("lines could not be written"), "{said}");
        let id = host.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it runs");
        kill_process(id, Signal::TERM).expect("it runs");
        let ended = tokio::time::timeout(PATIENCE, host.wait()).await.expect("it ends").expect("waits");
        assert!(ended.success(), "{ended}");
    }
}
