//! Starts with one plugin, a hundred and a thousand. Measures the time from the start of the process to the
//! first answered call after the listing is complete, the memory of the process then, and whether a call
//! among many plugins costs more than among few.

use crate::Effort;
use crate::calls::{Caller, template};
use crate::load::{Measured, drive};
use crate::peers::{self, Mode};
use crate::report::{Aim, Section};
use crate::server::Server;
use crate::stats::{median, shown};
use crate::variants;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use toolyard_tests::guests;
use toolyard_tests::session::Session;
use toolyard_trust::Digest;
use toolyard_trust::key::PrivateKey;
use toolyard_trust::lock::{Entry, Lock, Signer};
use toolyard_trust::provenance::Provenance;
use toolyard_trust::signature::sign_blob;

const PLUGINS: [usize; 3] = [1, 100, 1_000];
/// The aims with a warm cache, in milliseconds, for each number of plugins.
const AIMS_MS: [(usize, f64); 2] = [(100, 100.0), (1_000, 1_000.0)];
/// Plugins beside a lock file.
const LOCKED: usize = 100;
/// The largest ratio of a warm start with a lock file to one without.
const AIM_LOCKED: f64 = 1.1;
const CONNECTIONS: usize = 64;
/// The longest time for a cold start.
const PATIENCE: Duration = Duration::from_secs(600);
/// The largest ratio of a call's CPU time among the most plugins to that among one.
const AIM_FLAT: f64 = 1.1;

/// Milliseconds since the start of the process, except for the memory.
struct Start {
    plugins: usize,
    cache: &'static str,
    listening: f64,
    listed: f64,
    called: f64,
    cpu: f64,
    resident_mb: f64,
}

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Vec<Section>> {
    let (mut starts, mut calls) = (Vec::new(), Vec::new());
    for plugins in PLUGINS {
        let folder = work.join(format!("start-{plugins}"));
        variants::plugins(&folder.join("plugins"), &guests::fixture("add"), plugins)?;
        let (warm, cold) = effort.starts;
        // A thousand plugins take a minute or more.
        for _ in 0..if plugins > 100 { 1 } else { cold } {
            let data = folder.join("data");
            if data.exists() {
                std::fs::remove_dir_all(&data)?;
            }
            starts.push(start(&folder, plugins, "cold").await?);
        }
        for _ in 0..warm {
            starts.push(start(&folder, plugins, "warm").await?);
        }
    }
    let mut servers = Vec::new();
    for plugins in PLUGINS {
        servers.push((plugins, Server::toolyard(&work.join(format!("start-{plugins}"))).await?));
    }
    for _ in 0..effort.rounds {
        for (plugins, server) in &servers {
            let headers = peers::headers(server.port(), Mode::Session).await?;
            let params = json!({"name": format!("p{}_add", plugins - 1), "arguments": {"a": 19, "b": 23}});
            let template = template(&headers, "tools/call", &params);
            let callers = Caller::some(server.port(), &template, b"\"text\":\"42\"", CONNECTIONS).await?;
            calls.push((*plugins, drive(server, callers, effort).await?));
        }
    }
    for (_, server) in servers {
        server.stop().await?;
    }
    let binary = std::fs::metadata(guests::binary())?.len() as f64 / 1e6;
    Ok(vec![start_section(&starts, binary), calls_section(&calls), beside_lock(effort, work).await?])
}

/// Starts with plugins that a lock file lists with their signers, beside starts without a lock file.
async fn beside_lock(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let folders =
        [("no lock file", work.join("start-plain")), ("locked and signed", work.join("start-locked"))];
    for (_, folder) in &folders {
        variants::plugins(&folder.join("plugins"), &guests::fixture("add"), LOCKED)?;
    }
    write_lock(&folders[1].1.join("plugins"))?;
    let (warm, cold) = effort.starts;
    let mut starts = Vec::new();
    for round in 0..cold + warm {
        let cache = if round < cold { "cold" } else { "warm" };
        for (name, folder) in &folders {
            let data = folder.join("data");
            if cache == "cold" && data.exists() {
                std::fs::remove_dir_all(&data)?;
            }
            starts.push((*name, start(folder, LOCKED, cache).await?));
        }
    }
    let mut section = Section::new(
        "Start with a lock file",
        "100 plugins, each with its entry, its signature and its key, beside 100 without; the hosts take turns. Median of \
         the starts, to the first answered call.",
        "compile cache | no lock file ms | locked and signed ms | ratio",
    );
    let mut data = Vec::new();
    for cache in ["cold", "warm"] {
        let of = |name: &str| {
            median(
                starts
                    .iter()
                    .filter(|(of, start)| *of == name && start.cache == cache)
                    .map(|(_, start)| start.called),
            )
        };
        let (plain, locked) = (of(folders[0].0), of(folders[1].0));
        let ratio = locked / plain;
        section.row(vec![cache.to_owned(), shown(plain), shown(locked), format!("{ratio:.2}")]);
        data.push(json!({"cache": cache, "plain_ms": plain, "locked_ms": locked, "ratio": ratio}));
        if cache == "warm" {
            section.aims.push(Aim {
                what: "warm start of 100 locked, signed plugins, of one of 100 without a lock file"
                    .to_owned(),
                aim: format!("at most {AIM_LOCKED} times"),
                reached: format!("{ratio:.2}"),
                met: ratio <= AIM_LOCKED,
            });
        }
    }
    section.data = json!({ "locked_start": data });
    Ok(section)
}

/// Pins all components of a folder, each signed by one key.
fn write_lock(folder: &Path) -> anyhow::Result<()> {
    let key = PrivateKey::generate();
    let mut lock = Lock::empty();
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".wasm") {
            continue;
        }
        let component = std::fs::read(&path)?;
        let provenance = Provenance {
            manifest: None,
            signatures: vec![sign_blob(&key, &component)],
            keys: vec![key.public()],
        };
        std::fs::write(folder.join(format!("{name}.provenance.json")), provenance.to_json())?;
        lock.set(Entry {
            source: format!("https://plugins.example/{name}"),
            file: name,
            manifest: None,
            digest: Digest::of(&component),
            signer: Signer::Key { fingerprint: key.public().fingerprint(), file: None },
            grants: Vec::new(),
            settings: None,
            definitions: Vec::new(),
        });
    }
    std::fs::write(folder.join("toolyard.lock"), lock.to_text())?;
    Ok(())
}

async fn start(folder: &Path, plugins: usize, cache: &'static str) -> anyhow::Result<Start> {
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
    Ok(Start {
        plugins,
        cache,
        listening,
        listed,
        called,
        cpu: (cpu.user + cpu.system + cpu.children).as_secs_f64() * 1e3,
        resident_mb: memory as f64 * 1_024.0 / 1e6,
    })
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

fn start_section(starts: &[Start], binary_mb: f64) -> Section {
    let mut section = Section::new(
        "Start",
        "From the start of the process; the folders' files are in the page cache. Median of the starts. \
         CPU includes the children that compile; memory is that after the first call.",
        "plugins | compile cache | starts | listening ms | all listed ms | first call answered ms | CPU ms | resident MB",
    );
    let mut data = Vec::new();
    for (plugins, cache) in PLUGINS.into_iter().flat_map(|plugins| [(plugins, "cold"), (plugins, "warm")]) {
        let these = || starts.iter().filter(|start| start.plugins == plugins && start.cache == cache);
        let of = |figure: &dyn Fn(&Start) -> f64| median(these().map(figure));
        let figures = [
            of(&|start| start.listening),
            of(&|start| start.listed),
            of(&|start| start.called),
            of(&|start| start.cpu),
            of(&|start| start.resident_mb),
        ];
        let mut row = vec![plugins.to_string(), cache.to_owned(), these().count().to_string()];
        row.extend(figures.map(shown));
        section.row(row);
        data.push(json!({
            "plugins": plugins, "cache": cache, "starts": these().count(), "listening_ms": figures[0],
            "listed_ms": figures[1], "called_ms": figures[2], "cpu_ms": figures[3], "resident_mb": figures[4],
            "each_called_ms": these().map(|start| start.called).collect::<Vec<_>>(),
        }));
        for (_, most) in AIMS_MS.into_iter().filter(|(of, _)| cache == "warm" && *of == plugins) {
            section.aims.push(Aim {
                what: format!("warm start of {plugins} plugins"),
                aim: format!("at most {most:.0} ms"),
                reached: format!("{} ms", shown(figures[2])),
                met: figures[2] <= most,
            });
        }
    }
    let mut row = vec![format!("the binary: {} MB", shown(binary_mb))];
    row.resize(8, "—".to_owned());
    section.row(row);
    section.data = json!({ "start": data, "binary_mb": binary_mb });
    section
}

fn calls_section(calls: &[(usize, Measured)]) -> Section {
    let mut section = Section::new(
        "Calls among many plugins",
        "The last of so many plugins, 64 connections in the closed loop, the hosts taking turns. Median of the rounds.",
        "plugins | per s | p50 ms | p99 ms | CPU µs a call",
    );
    let mut data = Vec::new();
    for plugins in PLUGINS {
        let these = || calls.iter().filter(|(of, _)| *of == plugins).map(|(_, measured)| measured);
        let of = |figure: &dyn Fn(&Measured) -> f64| median(these().map(figure));
        let figures = [
            of(&|measured| measured.per_second),
            of(&|measured| measured.whole.ms(0.5)),
            of(&|measured| measured.whole.ms(0.99)),
            of(&Measured::cpu_us),
        ];
        let mut row = vec![plugins.to_string()];
        row.extend(figures.map(shown));
        section.row(row);
        data.push(json!({
            "plugins": plugins, "per_second": figures[0], "p50_ms": figures[1], "p99_ms": figures[2], "cpu_us": figures[3],
        }));
    }
    let cpu = |row: Option<&Value>| row.and_then(|row| row["cpu_us"].as_f64()).unwrap_or(f64::NAN);
    let times = cpu(data.last()) / cpu(data.first());
    section.aims.push(Aim {
        what: "CPU of a call among 1,000 plugins, of one among 1".to_owned(),
        aim: format!("at most {AIM_FLAT} times"),
        reached: format!("{times:.2}"),
        met: times <= AIM_FLAT,
    });
    section.data = json!({ "calls_among_plugins": data });
    section
}
