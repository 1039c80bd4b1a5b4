//! The Inspector's command line: one command, one request.

use crate::clients::{finished, folder};
use serde_json::{Value, json};
use tokio::process::Command;
use toolyard_tests::tap::Proxy;
use toolyard_tests::{Setup, guests, schema};

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

#[tokio::test]
#[ignore = "nightly: clients"]
async fn the_inspector_speaks_either_revision_over_http() {
    if !is_installed() {
        return;
    }
    let host = Setup::probe().start().await;
    let proxy = Proxy::before(host.port()).await;
    let url = proxy.url();
    for (era, is_stateless) in [("modern", true), ("auto", true), ("legacy", false)] {
        let call = async |tool: &str, arguments: &[&str]| {
            let server = [&*url, "--transport", "http", "--protocol-era", era, "--method", "tools/call"];
            inspect(&[&server[..], &["--tool-name", tool, "--tool-arg"], arguments].concat()).await
        };
        let echo = call("echo", &["text=hello"]).await;
        assert_eq!(echo["content"], json!([{"type": "text", "text": "hello"}]), "{era}");
        assert_eq!(echo.get("resultType").is_some(), is_stateless, "26J-4 and 26B-8 for {era}: {echo}");
        if is_stateless {
            // The client declares tasks, and polls this one until it ends.
            let batch = call("batch", &["steps=2", "ms=5"]).await;
            assert_eq!(batch["content"], json!([{"type": "text", "text": "counted 2"}]), "{era}");
        }
    }
    proxy.tap().expect_clean();
}
