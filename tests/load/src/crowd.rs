//! How quickly the host responds while guests compute without pause: a fast call and a `tasks/get`, each
//! requested at fixed times, so that a delay counts in full.

use crate::Effort;
use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::{Latencies, shown};
use crate::wire::{Template, Wire, contains, text};
use anyhow::Context as _;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use toolyard_tests::guests;
use toolyard_tests::session::Session;

/// The numbers of guests that compute meanwhile.
const OTHERS: [usize; 3] = [0, 20, 100];
/// The time between two requests.
const PACE: Duration = Duration::from_millis(4);
/// The aim for `tasks/get` with the most other guests, at the 99th percentile.
const GET_AIM_MS: f64 = 5.0;
/// The aim for a fast call with the most other guests, at the median.
const CALL_AIM_MS: f64 = 2.0;

struct Row {
    others: usize,
    call: Latencies,
    get: Latencies,
}

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let folder = folder(work, "crowd", &[guests::fixture("add"), guests::plugin("probe")])?;
    // They must compute until the measurement ends.
    std::fs::write(folder.join("plugins/probe.toml"), "[limits]\ncpu = \"1h\"\nwall = \"1h\"\n")?;
    let toolyard = Server::toolyard_with(&folder, &["calls.running-per-principal=1000"]).await?;
    let crowd = Session::open(toolyard.port()).await;
    let session = Session::open(toolyard.port()).await;
    let polled = session.create("wait", json!({"ms": 3_600_000})).await;
    let mut spinning = 0;
    let mut rows = Vec::new();
    for others in OTHERS {
        while spinning < others {
            crowd.create("spin", json!({"ms": 3_600_000})).await;
            spinning += 1;
        }
        let headers = session.headers();
        let call = Template::new(&headers, "tools/call", r#"{"name":"add","arguments":{"a":19,"b":23}}"#);
        let mut get = Template::about_task(&headers, "tasks/get");
        get.set_task(polled.as_bytes())?;
        let number = others * 2;
        let (mut call, mut get) = (call.for_connection(number), get.for_connection(number + 1));
        let mut wire = Wire::open(toolyard.port()).await?;
        let samples = effort.cancels * 2;
        rows.push(Row {
            others,
            call: paced(&mut wire, &mut call, b"\"text\":\"42\"", samples).await?,
            get: paced(&mut wire, &mut get, b"\"status\":\"working\"", samples).await?,
        });
    }
    toolyard.stop().await.context("with guests that compute")?;
    Ok(section(&rows))
}

/// Sends `count` requests, each at its fixed time, and measures from that time.
pub async fn paced(
    wire: &mut Wire,
    template: &mut Template,
    expected: &[u8],
    samples: usize,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new();
    let warm_up = samples / 10;
    let mut due = Instant::now();
    for number in 0..samples + warm_up {
        due += PACE;
        tokio::time::sleep_until(due.into()).await;
        // A timer has its own tick, which does not belong to the server.
        let asked = due.max(Instant::now() - PACE);
        let late = Instant::now() - asked;
        let body = wire.ask(template).await?;
        anyhow::ensure!(contains(body, expected), "not what was expected: {}", text(body));
        if number >= warm_up {
            // A late wake-up of this process is not a delay of the server, unless the process was still
            // waiting for the previous answer.
            let took = asked.elapsed();
            latencies.record(if late < PACE / 2 { took - late } else { took });
        }
    }
    Ok(latencies)
}

fn section(rows: &[Row]) -> Section {
    let mut section = Section::new(
        "Beside guests that compute",
        "Tasks of `spin` compute without pause on the same cores, all of one client. Another client makes a fast \
         call (`add`) and asks for the state of a task, each every 4 ms.",
        "computing guests | asked | call p50 ms | p99 ms | most ms | tasks/get p50 ms | p99 ms | most ms",
    );
    let mut data = Vec::new();
    for Row { others, call, get } in rows {
        let figures = [call.ms(0.5), call.ms(0.99), call.max_ms(), get.ms(0.5), get.ms(0.99), get.max_ms()];
        let mut row = vec![others.to_string(), call.count().to_string()];
        row.extend(figures.map(shown));
        section.row(row);
        data.push(json!({
            "others": others, "call_p50_ms": figures[0], "call_p99_ms": figures[1], "call_max_ms": figures[2],
            "get_p50_ms": figures[3], "get_p99_ms": figures[4], "get_max_ms": figures[5],
        }));
        if Some(others) == OTHERS.last() {
            let mut aim = |what: &str, figure: f64, most: f64| {
                section.aims.push(Aim {
                    what: format!("{what}, {others} computing guests"),
                    aim: format!("under {most} ms"),
                    reached: format!("{} ms", shown(figure)),
                    met: figure < most,
                });
            };
            aim("fast call, p50", figures[0], CALL_AIM_MS);
            aim("tasks/get, p99", figures[4], GET_AIM_MS);
        }
    }
    section.data = json!({ "crowd": data });
    section
}
