//! Ten thousand clients, each of which polls a task once a second, and the load that this puts on the disk.

use crate::Effort;
use crate::calls::Caller;
use crate::load::{Client as _, Measured, drive_open};
use crate::overload::raise_descriptor_limit;
use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::{median, shown};
use crate::wire::Template;
use serde_json::json;
use std::path::Path;
use toolyard_tests::guests;
use toolyard_tests::session::Session;

const CLIENTS: usize = 10_000;
/// Each client polls as often as the host's poll interval allows.
const PER_SECOND: f64 = 10_000.0;
/// Descriptors for other connections and files.
const SPARE: u64 = 200;
/// The number of polled tasks; each has several clients.
const TASKS: usize = 1_000;

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    // The host uses half of its descriptors for clients.
    let descriptors = raise_descriptor_limit(2 * (CLIENTS as u64 + SPARE))?;
    let clients = CLIENTS.min(usize::try_from(descriptors / 2 - SPARE)?);
    let folder = folder(work, "polls", &[guests::plugin("probe")])?;
    let settings = [
        format!("wire.connections={}", clients as u64 + SPARE / 2),
        format!("calls.running={TASKS}"),
        format!("calls.running-per-principal={TASKS}"),
        // All connections belong to one session.
        format!("wire.requests-per-session={clients}"),
        "rates.local=false".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let toolyard = Server::toolyard_with(&folder, &settings).await?;
    let session = Session::open(toolyard.port()).await;
    let mut templates = Vec::new();
    for _ in 0..TASKS {
        let task = session.create("wait", json!({"ms": 3_600_000})).await;
        let mut template = Template::about_task(&session.headers(), "tasks/get");
        template.set_task(task.as_bytes())?;
        templates.push(template);
    }
    let mut callers = Vec::new();
    for (number, template) in (0..clients).zip(templates.iter().cycle()) {
        let template = template.for_client(number);
        let mut caller = Caller::new(toolyard.port(), template, b"\"status\":\"working\"").await?;
        // One after the other: the kernel delays connections by a second if they arrive faster than the host
        // accepts them, and the host closes connections that stay silent.
        caller.once().await?;
        callers.push(caller);
    }
    let (mut rounds, mut written) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let before = toolyard.written()?;
        // The same connections each time: there is no room for others.
        let (measured, back) = drive_open(&toolyard, callers, PER_SECOND, effort).await?;
        written.push((toolyard.written()? - before) as f64);
        rounds.push(measured);
        callers = back;
    }
    // The end is not measured, and an orderly one would handle each task.
    drop(toolyard);
    Ok(section(clients, &rounds, &written))
}

fn section(clients: usize, rounds: &[Measured], written: &[f64]) -> Section {
    let mut section = Section::new(
        "Polling",
        "10,000 connections, or as many as descriptors allow, each of which asks about once a second for the state of one of 1,000 tasks that wait (`tasks/get`), at \
         times fixed before; latencies count from those times. Median of the rounds. Written is what the host gave to the disk \
         meanwhile.",
        "clients | asked per s | answered per s | p50 ms | p99 ms | most ms | CPU µs a poll | KiB written",
    );
    let of = |figure: &dyn Fn(&Measured) -> f64| median(rounds.iter().map(figure));
    let figures = [
        of(&|measured| measured.per_second),
        of(&|measured| measured.whole.ms(0.5)),
        of(&|measured| measured.whole.ms(0.99)),
        of(&|measured| measured.whole.max_ms()),
        of(&Measured::cpu_us),
        median(written.iter().copied()) / 1_024.0,
    ];
    let mut row = vec![clients.to_string(), shown(PER_SECOND)];
    row.extend(figures.map(shown));
    section.row(row);
    section.aims.push(Aim {
        what: format!("polls by {clients} clients, written to the disk"),
        aim: "nothing".to_owned(),
        reached: format!("{} KiB", shown(figures[5])),
        met: figures[5] == 0.0,
    });
    section.data = json!({ "polls": {
        "clients": clients, "asked_per_second": PER_SECOND, "per_second": figures[0], "p50_ms": figures[1],
        "p99_ms": figures[2], "max_ms": figures[3], "cpu_us": figures[4], "written_kib": figures[5],
    } });
    section
}
