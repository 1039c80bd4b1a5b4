//! Builds and runs the examples of the README and `examples/`, so that the pages stay true.

mod cluster;

use serde_json::{Value, json};
use std::path::Path;
use tokio::process::Command;
use toolyard_tests::Setup;
use toolyard_tests::guests::root;
use toolyard_tests::host::install;

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_book_shows_a_plugin_without_a_library_as_it_is() {
    let code = text("examples/plugins/rust-raw/src/lib.rs");
    let page = "host/docs/guides/write-tools/by-hand.md";
    assert!(text(page).contains(&format!("```rust\n{code}```")), "{page} is behind the example");
}

#[tokio::test]
async fn a_plugin_without_a_library_builds_is_served_and_greets() {
    let folder = root().join("examples/plugins/rust-raw");
    let flags = Command::new(root().join("plugins/wasip2-target.sh")).output().await.expect("it runs");
    assert!(flags.status.success(), "{}", String::from_utf8_lossy(&flags.stderr));
    let target = root().join("target/guests");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--target", "wasm32-wasip2", "--target-dir"]).arg(&target);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", String::from_utf8(flags.stdout).expect("text"));
    let built = cargo.current_dir(&folder).output().await.expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let (host, session) = Setup::new().with(&[]).open().await;
    let mut listening = session.listen().await;
    listening.next().await.expect("the stream opens");
    install(&target.join("wasm32-wasip2/release/greeter.wasm"), Path::new(&host.plugins()));
    listening.message().await.expect("word of the new tool");
    let greeting = session.call("greet", json!({"name": "world"})).await;
    assert_eq!(greeting["content"][0]["text"], "Hello, world!");
    session.complete("greet", json!({"name": "world"})).await;
}

#[test]
fn the_client_configurations_lead_to_a_server() {
    let http: Value = serde_json::from_str(&text("examples/clients/http.json")).expect("JSON");
    let server = &http["mcpServers"]["toolyard"];
    assert_eq!(
        (server["type"].as_str(), server["url"].as_str()),
        (Some("http"), Some("http://127.0.0.1:7420/mcp"))
    );
    let stdio: Value = serde_json::from_str(&text("examples/clients/stdio.json")).expect("JSON");
    let server = &stdio["mcpServers"]["toolyard"];
    assert_eq!(server["command"], "toolyard");
    assert_eq!(server["args"], json!(["stdio", "--plugins", "./plugins/dist"]));
}
