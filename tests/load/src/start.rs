//! Starting with a hundred plugins: from the start of the process to the first
//! call answered, once the listing shows them all.

use crate::Effort;
use crate::report::{Aim, Section};
use crate::server::Server;
use crate::stats::{median, shown};
use serde_json::json;
use std::path::Path;
use std::time::Instant;
use toolyard_tests::guests;
use toolyard_tests::session::Session;

const PLUGINS: usize = 100;
/// With a warm cache, in milliseconds.
const AIM_MS: f64 = 500.0;

/// Milliseconds since the start of the process.
struct Start {
    listening: f64,
    listed: f64,
    called: f64,
    cpu: f64,
}

/// Measures it.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let folder = work.join("start");
    plugins(&folder.join("plugins"))?;
    let (warm, cold) = effort.starts;
    let mut rows = Vec::new();
    for _ in 0..cold {
        let data = folder.join("data");
        if data.exists() {
            std::fs::remove_dir_all(&data)?;
        }
        rows.push(("cold", start(&folder).await?));
    }
    for _ in 0..warm {
        rows.push(("warm", start(&folder).await?));
    }
    Ok(section(&rows))
}

/// The same component a hundred times, each with a digest and a name of its own.
fn plugins(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let component = std::fs::read(guests::fixture("add"))?;
    for number in 0..PLUGINS {
        let mut component = component.clone();
        component.extend(custom_section("toolyard-load", format!("{number:04}").as_bytes()));
        std::fs::write(folder.join(format!("add{number}.wasm")), component)?;
        std::fs::write(folder.join(format!("add{number}.toml")), format!("prefix = \"p{number}\"\n"))?;
    }
    Ok(())
}

/// A section that is ignored but counts for the digest. Lengths here are below
/// 128, so that one byte of LEB128 holds each.
fn custom_section(name: &str, payload: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u8::try_from(bytes).ok().filter(|byte| *byte < 128).expect("a short section");
    let mut section = vec![0, length(1 + name.len() + payload.len()), length(name.len())];
    section.extend_from_slice(name.as_bytes());
    section.extend_from_slice(payload);
    section
}

async fn start(folder: &Path) -> anyhow::Result<Start> {
    let began = Instant::now();
    let since = || began.elapsed().as_secs_f64() * 1e3;
    let server = Server::toolyard(folder).await?;
    let listening = since();
    let session = Session::open(server.port()).await;
    let tools = session.result("tools/list", json!({})).await;
    let shown = tools["tools"].as_array().map_or(0, Vec::len);
    anyhow::ensure!(shown == PLUGINS, "{shown} tools are listed:\n{}", server.last_words());
    let listed = since();
    let result = session.call(&format!("p{}_add", PLUGINS - 1), json!({"a": 19, "b": 23})).await;
    let called = since();
    anyhow::ensure!(result["content"][0]["text"] == "42", "not what was expected: {result}");
    let cpu = server.cpu()?;
    server.stop().await?;
    Ok(Start { listening, listed, called, cpu: (cpu.user + cpu.system + cpu.children).as_secs_f64() * 1e3 })
}

fn section(rows: &[(&str, Start)]) -> Section {
    let mut section = Section::new(
        "Start with 100 plugins",
        "From the start of the process; the folders' files are in the page cache. Median of the starts. \
         CPU includes the children that compile.",
        &["compile cache", "starts", "listening ms", "all listed ms", "first call answered ms", "CPU ms"],
    );
    let mut data = Vec::new();
    for cache in ["cold", "warm"] {
        let these = || rows.iter().filter(|(of, _)| *of == cache).map(|(_, start)| start);
        let of = |figure: &dyn Fn(&Start) -> f64| median(these().map(figure));
        let figures = [
            of(&|start| start.listening),
            of(&|start| start.listed),
            of(&|start| start.called),
            of(&|start| start.cpu),
        ];
        let mut row = vec![cache.to_owned(), these().count().to_string()];
        row.extend(figures.map(shown));
        section.row(row);
        data.push(json!({
            "cache": cache, "starts": these().count(), "listening_ms": figures[0], "listed_ms": figures[1],
            "called_ms": figures[2], "cpu_ms": figures[3],
            "each_called_ms": these().map(|start| start.called).collect::<Vec<_>>(),
        }));
        if cache == "warm" {
            section.aims.push(Aim {
                what: format!("warm start of {PLUGINS} plugins"),
                aim: format!("under {AIM_MS:.0} ms"),
                reached: format!("{} ms", shown(figures[2])),
                met: figures[2] < AIM_MS,
            });
        }
    }
    section.data = json!({ "start": data });
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_custom_section_has_its_lengths() {
        assert_eq!(custom_section("ab", b"cde"), [0, 6, 2, b'a', b'b', b'c', b'd', b'e']);
    }
}
