//! The Inspector's command line: one command, one request.

use crate::clients::second::beginning;
use crate::clients::{compile, expect_clean_since, finished, folder, tapped_stdio};
use serde_json::{Value, json};
use tokio::process::Command;
use toolyard_tests::host::Setup;
use toolyard_tests::tap::Proxy;
use toolyard_tests::{guests, schema};

const LAUNCHER: &str = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";

/// Whether the Inspector and its Node.js are installed; the conformance suites need that Node.js too. It is
/// optional on a developer's machine and required in CI.
fn is_installed() -> bool {
    let installed = folder().join("node_modules/.installed").exists() && node().exists();
    if !installed {
        schema::skipped("the Inspector is not installed: run `make clients`");
    }
    installed
}

fn node() -> std::path::PathBuf {
    guests::root().join("tests/conformance/node_modules/.bin/node")
}

/// The result that the Inspector prints.
async fn inspect(args: &[&str]) -> Value {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(node());
    // The Inspector keeps a catalog of servers in the home folder.
    command.arg(folder().join(LAUNCHER)).arg("--cli").args(args).env("HOME", home.path());
    let printed = finished(command, &format!("the Inspector: {args:?}")).await;
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// Values of `--protocol-era`, and whether the client then speaks the newer revision.
const ERAS: [(&str, bool); 3] = [("modern", true), ("auto", true), ("legacy", false)];

/// Calls a tool of `server` in this era.
async fn echoes(server: &[&str], era: &str, stateless: bool) {
    let call = ["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hello"];
    let echo = inspect(&[server, &["--protocol-era", era], &call].concat()).await;
    assert_eq!(echo["content"], json!([{"type": "text", "text": "hello"}]), "{era}");
    assert_eq!(echo.get("resultType").is_some(), stateless, "26J-4 and 26B-8 for {era}: {echo}");
    if stateless {
        // The client declares tasks, and polls this one until it ends.
        let call = ["--method", "tools/call", "--tool-name", "batch", "--tool-arg", "steps=2", "ms=5"];
        let batch = inspect(&[server, &["--protocol-era", era], &call].concat()).await;
        assert_eq!(batch["content"], json!([{"type": "text", "text": "counted 2"}]), "{era}");
    }
}

#[tokio::test]
#[ignore = "nightly: clients"]
async fn the_inspector_speaks_either_revision_over_http() {
    if !is_installed() {
        return;
    }
    let host = Setup::probe().start().await;
    let proxy = Proxy::before(host.port()).await;
    for (era, stateless) in ERAS {
        echoes(&[&proxy.url(), "--transport", "http"], era, stateless).await;
    }
    proxy.tap().expect_clean();
}

#[tokio::test]
#[ignore = "nightly: clients"]
async fn the_inspector_speaks_either_revision_over_stdio() {
    if !is_installed() {
        return;
    }
    for (era, stateless) in ERAS {
        let (folder, settings) = Setup::probe().into_parts();
        compile(folder.path(), &settings).await;
        let command = tapped_stdio(folder.path(), &settings);
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        echoes(&command, era, stateless).await;
        expect_clean_since(beginning(era), folder.path());
    }
}
