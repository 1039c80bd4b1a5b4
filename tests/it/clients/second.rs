//! The official clients of the second generation. They speak 2026-07-28 and earlier revisions, and find out
//! which one the server speaks (26B). Their scenarios are in `tests/clients/v2/`; the Rust client, which
//! needs no other language, is in `rmcp.rs`.

use super::{Client, compile, expect_clean_since, finished, runs, tapped_stdio};
use std::path::Path;
use tokio::process::Command;
use toolyard_tests::tap::Proxy;
use toolyard_tests::{Setup, guests};

pub const TYPESCRIPT: Client = Client {
    name: "the second TypeScript client",
    interpreter: "node",
    script: "v2/typescript/scenario.mjs",
    installed: "v2/node_modules/.installed",
};

pub const PYTHON: Client = Client {
    name: "the second Python client",
    interpreter: "v2/.venv/bin/python",
    script: "v2/python/scenario.py",
    installed: "v2/.venv/.installed",
};

/// Long plain calls become tasks where the client supports tasks.
pub fn setup() -> Setup {
    let manifest = "[tools.wait]\ninline-for = \"0s\"\n\n[tools.fail]\ninline-for = \"0s\"\n\n\
                    [tools.protocol_error]\ninline-for = \"0s\"\n";
    let setup = Setup::probe().manifest("probe", manifest);
    setup.set("tasks.poll-interval", "100ms")
}

/// The schema type of the first answer, for a client in this `mode`.
pub fn beginning(mode: &str) -> &'static str {
    if mode == "legacy" { "InitializeResult" } else { "DiscoverResult" }
}

/// The client with its scenario; the scenario adds a component to `plugins` itself.
fn command(client: &Client, plugins: &Path, args: &[&str]) -> Command {
    let mut command = client.command(args);
    command.env("PLUGINS", plugins).env("NEWCOMER", guests::fixture("add"));
    command
}

async fn over_http(client: &Client, mode: &str) {
    let Some(client) = client.installed() else { return };
    let host = setup().start().await;
    let proxy = Proxy::before(host.port()).await;
    let command = command(client, &host.plugins(), &[mode, "http", &proxy.url()]);
    finished(command, &format!("{}, {mode}, over HTTP", client.name)).await;
    proxy.tap().expect_clean();
}

async fn over_stdio(client: &Client, mode: &str) {
    let Some(client) = client.installed() else { return };
    let (folder, settings) = setup().into_parts();
    compile(folder.path(), &settings).await;
    let host = tapped_stdio(folder.path(), &settings);
    let mut args = vec![mode, "stdio"];
    args.extend(host.iter().map(String::as_str));
    let command = command(client, &folder.path().join("plugins"), &args);
    finished(command, &format!("{}, {mode}, over stdio", client.name)).await;
    expect_clean_since(beginning(mode), folder.path());
}

runs! {
    /// 26B-12, 26B-13: its probe finds members that it looks for.
    #[ignore = "nightly: clients"]
    the_second_typescript_client_finds_out_over_http => over_http(&TYPESCRIPT, "auto");
    #[ignore = "nightly: clients"]
    the_second_typescript_client_finds_out_over_stdio => over_stdio(&TYPESCRIPT, "auto");
    #[ignore = "nightly: clients"]
    the_second_typescript_client_insists_over_http => over_http(&TYPESCRIPT, "pin");
    #[ignore = "nightly: clients"]
    the_second_typescript_client_insists_over_stdio => over_stdio(&TYPESCRIPT, "pin");
    /// 26B-11, 26B-14: the client with its default settings opens a session, and ends it.
    #[ignore = "nightly: clients"]
    the_second_typescript_client_shakes_hands_over_http => over_http(&TYPESCRIPT, "legacy");
    #[ignore = "nightly: clients"]
    the_second_typescript_client_shakes_hands_over_stdio => over_stdio(&TYPESCRIPT, "legacy");
    #[ignore = "nightly: clients"]
    the_second_python_client_finds_out_over_http => over_http(&PYTHON, "auto");
    the_second_python_client_finds_out_over_stdio => over_stdio(&PYTHON, "auto");
    #[ignore = "nightly: clients"]
    the_second_python_client_shakes_hands_over_http => over_http(&PYTHON, "legacy");
    #[ignore = "nightly: clients"]
    the_second_python_client_shakes_hands_over_stdio => over_stdio(&PYTHON, "legacy");
}
