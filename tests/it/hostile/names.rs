//! Plugins that list the name of another plugin's tool, to intercept its calls or to displace it.

use super::stage::Stage;
use serde_json::json;
use std::collections::BTreeSet;
use toolyard_tests::host::{Setup, install, install_bytes};
use toolyard_tests::{Host, Session, eventually, guests};

#[tokio::test]
async fn names() {
    let stage = Stage::open(Setup::new()).await;
    attacks!(stage;
        take_a_name_at_a_restart, take_a_name_by_a_new_version, take_the_name_of_one_that_is_broken,
    );
    stage.at_rest().await;
}

/// Installs a plugin that lists `echo`, which is a tool of `probe`, and `other`.
fn impostor(host: &Host, name: &str) {
    install_bytes(host.plugins(), name, &super::loading::chosen(18));
}

/// The names of all tools.
async fn served(host: &Host) -> BTreeSet<String> {
    Session::open(host.port()).await.tool_names().await.into_iter().collect()
}

async fn echoes(host: &Host) -> String {
    let session = Session::open(host.port()).await;
    let result = session.call("echo", json!({"text": "mine"})).await;
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

/// The names of `probe` when it is the only plugin.
async fn of_probe() -> Vec<String> {
    served(&Host::with_probe().await).await.into_iter().collect()
}

async fn has_all_of_probe(host: &Host) {
    let served = served(host).await;
    for name in of_probe().await {
        assert!(served.contains(&name), "{name} is gone: {served:?}");
    }
    assert_eq!(echoes(host).await, "mine", "echo is that of probe");
}

async fn take_a_name_at_a_restart(_: &Stage) {
    let mut host = Host::with_probe().await;
    impostor(&host, "aecho.wasm");
    eventually("the newcomer", || async { served(&host).await.contains("other").then_some(()) }).await;
    has_all_of_probe(&host).await;
    assert!(host.log().contains("event=\"plugin.name_left_out\""), "{}", host.log());
    for _ in 0..2 {
        host.kill().await;
        host = host.another().await;
        has_all_of_probe(&host).await;
        assert!(served(&host).await.contains("other"), "only the one tool is left out");
        assert!(host.log().contains("offered by both probe.wasm and aecho.wasm"), "{}", host.log());
        let told = host.command(&["tools"]).await;
        assert!(!told.status.success());
        let told = String::from_utf8(told.stderr).expect("text");
        assert!(told.contains("left out: aecho.wasm: the tool `echo`"), "{told}");
    }
    // While the file is gone, another plugin may serve the name, but must give it back afterwards.
    std::fs::remove_file(host.plugins().join("probe.wasm")).expect("it is there");
    eventually("the name to be free", || async {
        let served = served(&host).await;
        (served.contains("echo") && !served.contains("wait")).then_some(())
    })
    .await;
    assert_eq!(echoes(&host).await, "echo ran");
    install(&guests::plugin("probe"), &host.plugins());
    eventually("probe", || async { served(&host).await.contains("wait").then_some(()) }).await;
    has_all_of_probe(&host).await;
    // After a start without the file, the name belongs to the other plugin, and nothing else does.
    std::fs::remove_file(host.plugins().join("probe.wasm")).expect("it is there");
    let host = host.killed_and_restarted().await;
    install(&guests::plugin("probe"), &host.plugins());
    eventually("probe", || async { served(&host).await.contains("wait").then_some(()) }).await;
    assert_eq!(echoes(&host).await, "echo ran");
}

async fn take_a_name_by_a_new_version(_: &Stage) {
    let setup = Setup::probe();
    install_bytes(setup.plugins(), "aecho.wasm", &super::loading::chosen(0));
    let mut host = setup.start().await;
    assert!(served(&host).await.contains("honest"));
    impostor(&host, "aecho.wasm");
    eventually("the new version", || async { served(&host).await.contains("other").then_some(()) }).await;
    has_all_of_probe(&host).await;
    host.kill().await;
    has_all_of_probe(&host.another().await).await;
}

async fn take_the_name_of_one_that_is_broken(_: &Stage) {
    let mut host = Host::with_probe().await;
    host.kill().await;
    // The broken file is a truncated copy or a manifest with a mistake, for example.
    for broken in [true, false] {
        let file = if broken { "probe.wasm" } else { "probe.toml" };
        install_bytes(host.plugins(), file, b"this is neither");
        impostor(&host, "aecho.wasm");
        host = host.another().await;
        let now = served(&host).await;
        assert!(now.contains("other") && !now.contains("echo"), "{now:?}");
        install(&guests::plugin("probe"), &host.plugins());
        drop(std::fs::remove_file(host.plugins().join("probe.toml")));
        eventually("probe", || async { served(&host).await.contains("echo").then_some(()) }).await;
        has_all_of_probe(&host).await;
        host.kill().await;
    }
}
