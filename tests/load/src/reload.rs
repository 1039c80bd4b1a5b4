//! New versions under load: a component is replaced again and again while clients call it at fixed times. No
//! call may fail, and the latencies of the calls show the cost of a replacement.

use crate::Effort;
use crate::calls::{Caller, template};
use crate::load::drive_open;
use crate::peers::{self, Mode};
use crate::report::Section;
use crate::server::{Server, folder};
use crate::stats::{Latencies, shown};
use crate::variants::variant;
use anyhow::Context as _;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use toolyard_tests::guests;
use toolyard_tests::session::Session;

const RELOADS: usize = 100;
const PER_SECOND: f64 = 2_000.0;
const CONNECTIONS: usize = 16;
/// The most time from one replacement to a call that runs the new version.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which calls check for the new version.
const LOOK: Duration = Duration::from_millis(5);

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let folder = folder(work, "reload", &[])?;
    let plugin = folder.join("plugins/versioned.wasm");
    std::fs::copy(guests::fixture("versioned_v1"), &plugin)?;
    let toolyard = Server::toolyard(&folder).await?;
    let headers = peers::headers(toolyard.port(), Mode::Session).await?;
    let template = template(&headers, "tools/call", &json!({"name": "version", "arguments": {}}));
    let callers = || Caller::some(toolyard.port(), &template, b"\"text\":\"v", CONNECTIONS);
    let (calm, _) = drive_open(&toolyard, callers().await?, PER_SECOND, effort).await?;
    // Measures in short turns until all replacements are done.
    let replacing = tokio::spawn(replace(plugin, toolyard.port()));
    let mut beside = Latencies::new();
    while !replacing.is_finished() {
        let piece = Effort { warm_up: Duration::ZERO, ..effort };
        let (measured, _) = drive_open(&toolyard, callers().await?, PER_SECOND, piece).await?;
        beside.add(&measured.whole);
    }
    let took = replacing.await?.with_context(|| toolyard.last_words())?;
    toolyard.stop().await?;
    Ok(section(&calm.whole, &beside, &took))
}

/// Replaces the component repeatedly, and waits each time until a call runs the new version.
async fn replace(plugin: PathBuf, port: u16) -> anyhow::Result<Latencies> {
    let session = Session::open(port).await;
    let mut took = Latencies::new();
    for number in 0..RELOADS {
        let version = if number % 2 == 0 { "v2" } else { "v1" };
        let component = std::fs::read(guests::fixture(&format!("versioned_{version}")))?;
        let new = plugin.with_extension("new");
        std::fs::write(&new, variant(&component, number))?;
        let began = Instant::now();
        std::fs::rename(&new, &plugin)?;
        while session.call("version", json!({})).await["content"][0]["text"] != version {
            anyhow::ensure!(began.elapsed() < PATIENCE, "replacement {number} was not taken up");
            tokio::time::sleep(LOOK).await;
        }
        took.record(began.elapsed());
    }
    Ok(took)
}

fn section(calm: &Latencies, beside: &Latencies, took: &Latencies) -> Section {
    let mut section = Section::new(
        "Reloading under load",
        "2,000 calls a second at times fixed before, 16 connections, of a component that is replaced 100 times by one that was \
         never compiled before; latencies count from the times fixed. Every call is answered by one version or the other.",
        "what | how many | p50 ms | p99 ms | p99.9 ms | most ms",
    );
    let mut data = Vec::new();
    for (what, of) in [
        ("calls, nothing replaced", calm),
        ("calls meanwhile", beside),
        ("file in place to the new version called", took),
    ] {
        let figures = [of.ms(0.5), of.ms(0.99), of.ms(0.999), of.max_ms()];
        let mut row = vec![what.to_owned(), of.count().to_string()];
        row.extend(figures.map(shown));
        section.row(row);
        data.push(json!({
            "what": what, "count": of.count(), "p50_ms": figures[0], "p99_ms": figures[1], "p999_ms": figures[2],
            "max_ms": figures[3],
        }));
    }
    section.data = json!({ "reload": data });
    section
}
