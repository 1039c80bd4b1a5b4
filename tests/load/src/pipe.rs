//! Plain `tools/call` over stdio, one after the other.

use crate::Effort;
use crate::report::Section;
use crate::stats::{Latencies, shown};
use serde_json::json;
use std::time::Instant;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;
use toolyard_tests::stdio::Stdio;

/// Runs the measurement.
pub async fn measure(effort: Effort) -> anyhow::Result<Section> {
    let mut stdio = Stdio::open(Setup::new().with(&[guests::fixture("add")])).await;
    let params = json!({"name": "add", "arguments": {"a": 19, "b": 23}});
    let mut latencies = Latencies::new();
    let from = Instant::now() + effort.warm_up;
    let until = from + effort.measure;
    loop {
        let began = Instant::now();
        if began >= until {
            break;
        }
        let answer = stdio.request("tools/call", params.clone()).await;
        anyhow::ensure!(answer["result"]["content"][0]["text"] == "42", "not what was expected: {answer}");
        if began >= from {
            latencies.record(began.elapsed());
        }
    }
    stdio.close().await;
    let rate = latencies.count() as f64 / effort.measure.as_secs_f64();
    let (p50, p99) = (latencies.ms(0.5), latencies.ms(0.99));
    let (note, columns) = ("One client, one call after the other.", "per s | p50 ms | p99 ms");
    let mut section = Section::new("Plain tools/call over stdio", note, columns);
    section.row([rate, p50, p99].map(shown));
    Ok(section)
}
