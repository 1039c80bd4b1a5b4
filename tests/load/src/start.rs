//! Starts with one plugin, a hundred and a thousand. Measures the time from the start of the process to the
//! first answered call after the listing is complete, and the memory of the process then.

use crate::Effort;
use crate::report::Section;
use crate::server::Server;
use crate::stats::{median, shown};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use toolyard_tests::guests;
use toolyard_tests::session::Session;

/// The numbers of plugins, each with the aim for the first answered call with a warm cache, in milliseconds.
const PLUGINS: [(usize, Option<f64>); 3] = [(1, None), (100, Some(100.0)), (1_000, Some(1_000.0))];
/// The longest time for a cold start.
const PATIENCE: Duration = Duration::from_secs(600);
/// The figure with the aims.
const CALLED: usize = 2;

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "Start",
        "From the start of the process; the folders' files are in the page cache. Median of the starts. \
         CPU includes the children that compile; memory is that after the first call.",
        "plugins | compile cache | starts | listening ms | all listed ms | first call answered ms | CPU ms | resident MB",
    );
    for (plugins, aim) in PLUGINS {
        let folder = work.join(format!("start-{plugins}"));
        write_plugins(&folder.join("plugins"), plugins)?;
        let (warm, cold) = effort.starts;
        // A thousand plugins take a minute or more.
        let cold = if plugins > 100 { 1 } else { cold };
        for (cache, count) in [("cold", cold), ("warm", warm)] {
            let mut starts = Vec::new();
            for _ in 0..count {
                let data = folder.join("data");
                if cache == "cold" && data.exists() {
                    std::fs::remove_dir_all(data)?;
                }
                starts.push(start(&folder, plugins).await?);
            }
            let medians: [f64; 5] = std::array::from_fn(|of| median(starts.iter().map(|start| start[of])));
            let mut cells = vec![plugins.to_string(), cache.to_owned(), count.to_string()];
            cells.extend(medians.map(shown));
            section.row(cells);
            if let Some(most) = aim.filter(|_| cache == "warm") {
                section.at_most(format!("warm start of {plugins} plugins"), medians[CALLED], most, "ms");
            }
        }
    }
    let binary_mb = std::fs::metadata(guests::binary())?.len() as f64 / 1e6;
    let mut cells = vec![format!("the binary: {} MB", shown(binary_mb))];
    cells.resize(8, "—".to_owned());
    section.row(cells);
    Ok(section)
}

/// Writes `count` plugins that add two numbers, each with a prefix for its tool: `p0`, `p1` and so on. Their
/// components differ in an ignored custom section, so that each is compiled.
fn write_plugins(folder: &Path, count: usize) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let component = std::fs::read(guests::fixture("add"))?;
    for number in 0..count {
        let mut variant = component.clone();
        // The kind of the section, its length, the length of its name, and the name.
        variant.extend([0, 9, 8]);
        variant.extend(format!("{number:08}").bytes());
        std::fs::write(folder.join(format!("add{number}.wasm")), variant)?;
        std::fs::write(folder.join(format!("add{number}.toml")), format!("prefix = \"p{number}\"\n"))?;
    }
    Ok(())
}

/// Milliseconds since the start of the process until it listens, until it lists all tools, until it has answered a
/// call, and of its processors; and its resident memory in megabytes.
async fn start(folder: &Path, plugins: usize) -> anyhow::Result<[f64; 5]> {
    let began = Instant::now();
    let since = || began.elapsed().as_secs_f64() * 1e3;
    let server = Server::toolyard(folder).await?;
    let listening = since();
    let session = Session::open(server.port()).await;
    // A cold start of many plugins continues after the host listens.
    let mut listed_tools = count(&session).await;
    while listed_tools < plugins && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
        listed_tools = count(&session).await;
    }
    anyhow::ensure!(listed_tools == plugins, "{listed_tools} tools are listed:\n{}", server.last_words());
    let listed = since();
    let result = session.call(&format!("p{}_add", plugins - 1), json!({"a": 19, "b": 23})).await;
    let called = since();
    anyhow::ensure!(result["content"][0]["text"] == "42", "not what was expected: {result}");
    let (cpu, memory) = (server.cpu()?, server.resident_kib()?);
    server.stop().await?;
    let cpu = (cpu.own + cpu.children).as_secs_f64() * 1e3;
    Ok([listening, listed, called, cpu, memory as f64 * 1_024.0 / 1e6])
}

/// The number of listed tools of plugins on all pages. The host's own tools have no prefix.
async fn count(session: &Session) -> usize {
    let (mut count, mut params) = (0, json!({}));
    loop {
        let page = session.result("tools/list", params).await;
        let names = page["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str());
        count += names.filter(|name| name.ends_with("_add")).count();
        match &page["nextCursor"] {
            Value::String(cursor) => params = json!({"cursor": cursor}),
            _ => return count,
        }
    }
}
