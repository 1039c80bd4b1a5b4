//! Compares the examples of all languages: the size of a component, the time to build and to load it, and the
//! time of the first call and of later ones.

use crate::Effort;
use crate::report::Section;
use crate::server::Server;
use crate::stats::{median, shown};
use hyper::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;
use toolyard_tests::guests;
use toolyard_tests::http::Connection;
use toolyard_tests::session::Session;

/// Warm calls of one component per start of a host.
const CALLS: usize = 200;

/// A component with a trivial call, because the measurement is about the overhead.
struct Example {
    language: &'static str,
    /// Its file below `target`, without the suffix.
    component: &'static str,
    tool: &'static str,
    arguments: Value,
}

fn examples() -> Vec<Example> {
    let stop = |name: &str| json!({"name": name, "latitude": 1, "longitude": 1});
    let of = |language, component, tool, arguments| Example { language, component, tool, arguments };
    let rows = json!({"columns": [{"name": "n", "type": "integer"}], "rows": [{"n": 1}]});
    let echo = json!({"text": "hello"});
    vec![
        of("rust", "examples/rust", "measure_route", json!({"stops": [stop("a"), stop("b")]})),
        of("c", "examples/c", "diff_lines", json!({"before": "a\n", "after": "b\n"})),
        of("javascript", "examples/javascript", "run_javascript", json!({"program": "1 + 1"})),
        of("typescript", "examples/typescript", "check_rows", rows),
        of("python", "examples/python", "calculate", json!({"lines": ["1 + 1"]})),
        of("go", "examples/go", "render_template", json!({"template": "{{.}}", "data": 1})),
        // The two engines for JavaScript, by one project.
        of("echo, QuickJS", "echo/echo-quickjs", "echo", echo.clone()),
        of("echo, StarlingMonkey", "echo/echo-starlingmonkey", "echo", echo),
    ]
}

/// Milliseconds, except for the warm call, which is in microseconds.
struct Figures {
    load: f64,
    first: f64,
    warm: f64,
}

/// Measures the examples that `make examples` has built.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let built = guests::root().join("target");
    let mut section = Section::new(
        "Languages",
        "One example in each language, alone in a host. Build: the commands of its project, with what they \
         keep from build to build. Load: from the start of the process to the listing, with nothing compiled before, \
         and with the machine code cached. First call: in a fresh process with that cache. Warm call: the median of \
         those behind it. Over HTTP, one after the other.",
        "language | component KiB | build s | cold load ms | warm load ms | first call ms | warm call µs",
    );
    let mut data = serde_json::Map::new();
    for example in examples() {
        let component = built.join(format!("{}.wasm", example.component));
        if !component.exists() {
            continue;
        }
        let folder = work.join(example.component);
        std::fs::create_dir_all(folder.join("plugins"))?;
        std::fs::copy(&component, folder.join("plugins/example.wasm"))?;
        // The first host compiles the component; all later ones find it compiled.
        let cold = start(&example, &folder).await?.load;
        let mut warm = Vec::new();
        for _ in 0..effort.starts.0 {
            warm.push(start(&example, &folder).await?);
        }
        let size = std::fs::metadata(&component)?.len() as f64 / 1024.0;
        let build = build_seconds(built.join(format!("{}.milliseconds", example.component)));
        let of = |figure: &dyn Fn(&Figures) -> f64| median(warm.iter().map(figure));
        let (load, first, call) = (of(&|of| of.load), of(&|of| of.first), of(&|of| of.warm));
        let mut row = vec![example.language.to_owned()];
        row.extend([size, build, cold, load, first, call].map(shown));
        section.row(row);
        data.insert(
            example.language.to_owned(),
            json!({
                "component_kib": size, "build_s": build, "cold_load_ms": cold, "warm_load_ms": load,
                "first_call_ms": first, "warm_call_us": call,
            }),
        );
    }
    anyhow::ensure!(!data.is_empty(), "no example is built: run `make examples`");
    section.data = json!({ "languages": data });
    Ok(section)
}

/// The duration of the last build in seconds; NaN if unknown.
fn build_seconds(file: PathBuf) -> f64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse::<f64>().map_or(f64::NAN, |milliseconds| milliseconds / 1e3)
}

async fn start(example: &Example, folder: &Path) -> anyhow::Result<Figures> {
    let began = Instant::now();
    // The listing must have the tools, however long they take to compile.
    let server = Server::toolyard_with(folder, &["plugins.start-wait=10min"]).await?;
    let session = Session::open(server.port()).await;
    let tools = session.result("tools/list", json!({})).await;
    let load = began.elapsed().as_secs_f64() * 1e3;
    let is_listed =
        tools["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == example.tool));
    anyhow::ensure!(is_listed, "{} is not listed:\n{}", example.tool, server.last_words());
    // One connection for all calls, as a client keeps it.
    let mut connection = Connection::open(server.port()).await;
    let mut calls = Vec::new();
    for id in 0..=CALLS {
        let params = json!({"name": example.tool, "arguments": example.arguments});
        let message =
            json!({"jsonrpc": "2.0", "id": format!("call-{id}"), "method": "tools/call", "params": params});
        let began = Instant::now();
        let answer = connection.send(Method::POST, "/mcp", &session.headers(), message.to_string()).await;
        let answer = answer.bytes().await;
        calls.push(began.elapsed().as_secs_f64());
        let text = String::from_utf8_lossy(&answer);
        anyhow::ensure!(text.contains(r#""isError":false"#), "{}: {text}", example.tool);
    }
    server.stop().await?;
    let warm = median(calls[1..].iter().copied()) * 1e6;
    Ok(Figures { load, first: calls[0] * 1e3, warm })
}
