//! The bridge: a long plain call of a client without tasks becomes a task before the client gives up, and the
//! client collects the result with `task_wait`. Runs and timeouts take a tenth of the time of those of real clients.
//! `make bridge-full` takes the real ones.

mod clients;
mod keeping;
mod questions;
mod surviving;

use crate::clients::{Client, finished};
use serde_json::{Value, json};
use toolyard_tests::tap::Proxy;
use toolyard_tests::{Host, Setup, Sink, guests};

/// Whether tests take the times of real clients.
fn is_full() -> bool {
    std::env::var_os("BRIDGE_FULL").is_some()
}

/// A real time in milliseconds, or a tenth of it.
fn scaled(ms: u64) -> u64 {
    if is_full() { ms } else { ms / 10 }
}

/// `bridge.after` and `bridge.wait` in milliseconds: the defaults, or times that leave a client whose timeout is
/// six seconds three of them, because a machine that runs many tests at once is slow.
fn bridge_times() -> (u64, u64) {
    if is_full() { (45_000, 50_000) } else { (3_000, 3_000) }
}

/// A host with the bridge and its [`bridge_times`].
fn with_scaled_times(setup: Setup) -> Setup {
    let (after, wait) = bridge_times();
    let setup = setup.set("bridge.enabled", "true").set("bridge.after", &format!("{after}ms"));
    setup.set("bridge.wait", &format!("{wait}ms"))
}

/// A host with the plugin `probe` and the fixture `effects`.
fn setup(sink: &Sink) -> Setup {
    let setup = Setup::new().with(&[guests::plugin("probe"), guests::fixture("effects")]);
    let setup = setup.manifest("effects", &sink.manifest()).set("admin.listen", "127.0.0.1:0");
    setup.set("bridge.enabled", "true")
}

/// The arguments of a call of `slow` that runs for this long and sends its effects to the sink.
pub fn order(sink: &Sink, key: &str, ms: u64) -> Value {
    json!({"key": key, "sink": sink.authority(), "ms": ms})
}

/// Runs the driver of a client; returns the summary that it prints last.
async fn drive(client: &Client, host: &Host, mode: &[&str], params: &Value, token: Option<&str>) -> Value {
    let proxy = Proxy::before(host.port()).await;
    let (params, url) = (params.to_string(), proxy.url());
    let mut command = client.command(&[mode, &[params.as_str(), "http", url.as_str()]].concat());
    command.envs(token.map(|token| ("TOKEN", token)));
    let printed = finished(command, &format!("{} {mode:?}", client.name)).await;
    proxy.tap().expect_clean();
    let summary = printed.lines().last().expect("a summary");
    serde_json::from_str(summary).unwrap_or_else(|error| panic!("{error}: {summary}"))
}
