//! Compares calls of different sizes and forms: long arguments, a streamed answer, and an ordinary typed
//! function instead of the tools interface.

use crate::Effort;
use crate::calls::{Caller, template};
use crate::load::{CALLS, Measured, drive, row};
use crate::peers::Mode;
use crate::report::Section;
use crate::server::{Server, folder};
use serde_json::{Value, json};
use std::path::Path;
use toolyard_tests::guests;

const CONNECTIONS: usize = 64;
/// One principal sends a body of 1 MiB on each connection; the default limit is 64 MiB.
const BODIES: &str = "wire.body-bytes-per-principal=128MiB";

/// A call.
struct Shape {
    what: &'static str,
    params: Value,
    expected: &'static [u8],
}

fn shapes() -> Vec<Shape> {
    let echo = |what, length: usize| Shape {
        what,
        params: json!({"name": "echo", "arguments": {"text": "a".repeat(length)}}),
        expected: b"\"text\":\"aaaa",
    };
    let contract = |what, name: &str, arguments: Value, expected| Shape {
        what,
        params: json!({"name": name, "arguments": arguments}),
        expected,
    };
    vec![
        contract("`add`, contract", "add", json!({"a": 19, "b": 23}), b"\"text\":\"42\""),
        contract("`greet`, typed function", "t_greet", json!({"name": "you"}), b"you"),
        contract("`sum`, typed function", "t_math_sum", json!({"numbers": [19, 23]}), b"42"),
        contract("`count` 1, JSON answer", "count", json!({"steps": 1, "ms": 0}), b"\"result\":"),
        Shape {
            what: "`count` 1, progress and answer as a stream",
            params: json!({"name": "count", "arguments": {"steps": 1, "ms": 0}, "_meta": {"progressToken": "p"}}),
            expected: b"\"progressToken\":\"p\"",
        },
        echo("`echo`, 100 B", 100),
        echo("`echo`, 10 KiB", 10 << 10),
        echo("`echo`, 1 MiB", 1 << 20),
    ]
}

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let components = [guests::fixture("add"), guests::fixture("typed"), guests::plugin("probe")];
    let folder = folder(work, "shapes", &components)?;
    // Both have a tool named `spin`.
    std::fs::write(folder.join("plugins/typed.toml"), "prefix = \"t\"\n")?;
    let toolyard = Server::toolyard_with(&folder, &[BODIES]).await?;
    let shapes = shapes();
    let mut rounds: Vec<(&str, Measured)> = Vec::new();
    for _ in 0..effort.rounds {
        for Shape { what, params, expected } in &shapes {
            let template = template(toolyard.port(), Mode::Session, "tools/call", params).await;
            let callers = Caller::some(toolyard.port(), &template, expected, CONNECTIONS).await?;
            rounds.push((what, drive(&toolyard, callers, effort).await?));
        }
    }
    toolyard.stop().await?;
    let mut section = Section::new(
        "Calls of other sizes and forms",
        "64 connections in one session, the closed loop, taking turns. Median of the rounds.",
        "call | per s | p50 ms | p99 ms | CPU µs a call",
    );
    for Shape { what, .. } in shapes {
        let these = rounds.iter().filter(|(of, _)| *of == what).map(|(_, measured)| measured);
        section.row(row([what.to_owned()], these, &CALLS));
    }
    Ok(section)
}
