//! The log has the backtrace of a trap; no client receives it.

use serde_json::json;
use toolyard_tests::Setup;

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
