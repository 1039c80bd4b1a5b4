//! The draft `wasi:logging`: if a component without the toolyard contract logs through it, the message
//! reaches the client like any other log message (G-*).

use serde_json::json;
use toolyard_tests::host::Setup;

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
