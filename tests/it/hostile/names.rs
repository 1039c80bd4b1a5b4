//! Plugins that list the name of another plugin's tool, to intercept its calls or to displace it.

use super::stage::Stage;
use serde_json::json;
use std::collections::BTreeSet;
use toolyard_tests::host::install_bytes;
use toolyard_tests::{Host, Session, Setup, guests, until};

#[tokio::test]
async fn names() {
    let stage = Stage::open(Setup::new()).await;
    attacks!(stage; take_a_name_at_a_restart);
    stage.at_rest().await;
}

/// The names of all tools.
async fn served(host: &Host) -> BTreeSet<String> {
    Session::open(host.port()).await.tool_names().await.into_iter().collect()
}

async fn has_all(host: &Host, of_probe: &BTreeSet<String>) {
    let served = served(host).await;
    assert!(served.is_superset(of_probe), "{served:?}");
    let result = Session::open(host.port()).await.call("echo", json!({"text": "mine"})).await;
    assert_eq!(result["content"][0]["text"], "mine", "echo is that of probe");
}

async fn take_a_name_at_a_restart(_: &Stage) {
    let mut host = Host::with_probe().await;
    let of_probe = served(&host).await;
    // A plugin that lists `echo`, which is a tool of `probe`, and `other`.
    install_bytes(host.plugins(), "aecho.wasm", &guests::hostile_lists(3));
    until("the newcomer", || async { served(&host).await.contains("other") }).await;
    has_all(&host, &of_probe).await;
    assert!(host.log().contains("event=\"plugin.name_left_out\""), "{}", host.log());
    host.kill().await;
    let host = host.another().await;
    has_all(&host, &of_probe).await;
    assert!(served(&host).await.contains("other"), "only the one tool is left out");
    assert!(host.log().contains("offered by both probe.wasm and aecho.wasm"), "{}", host.log());
    let told = host.command(&["tools"]).await;
    assert!(!told.status.success());
    let told = String::from_utf8(told.stderr).expect("text");
    assert!(told.contains("left out: aecho.wasm: the tool `echo`"), "{told}");
}
