//! The cost of tasks that wait in the host: thousands of sleeping guests, each with its instance, its memory
//! and its stack.

use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::shown;
use crate::wire::{Template, Wire, contains, text};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use toolyard_tests::guests;
use toolyard_tests::session::Session;

/// The numbers of tasks.
const TASKS: [usize; 2] = [1_000, 10_000];
/// The aim for each sleeping guest, including its page tables, in KiB.
const AIM_KIB: f64 = 70.0;
/// The kernel's default.
const DEFAULT_MAPPINGS: u64 = 65_530;

struct Row {
    tasks: usize,
    /// The number of sleeping guests; the other tasks wait in the queue.
    asleep: usize,
    seconds: f64,
    resident_mb: f64,
    /// The part of it that belongs to no file.
    own_mb: f64,
    tables_mb: f64,
    mappings: f64,
    /// The refusal of a plain call beyond the limit.
    refusal: Option<String>,
}

impl Row {
    fn kib_each(&self) -> f64 {
        (self.own_mb + self.tables_mb) * 1e6 / 1_024.0 / self.asleep.max(1) as f64
    }
}

/// Runs the measurement.
pub async fn measure(work: &Path) -> anyhow::Result<Section> {
    let mut rows = Vec::new();
    for tasks in TASKS {
        rows.push(row(&work.join(tasks.to_string()), tasks).await?);
    }
    Ok(section(&rows))
}

async fn row(work: &Path, tasks: usize) -> anyhow::Result<Row> {
    let folder = folder(work, "suspended", &[guests::plugin("probe")])?;
    let settings =
        ["calls.running=10000", "calls.running-per-principal=20000", "tasks.waiting-per-principal=20000"];
    let toolyard = Server::toolyard_with(&folder, &[&settings[..], &["rates.local=false"]].concat()).await?;
    let session = Session::open(toolyard.port()).await;
    // The cost of the first run does not belong to the tasks.
    session.create("wait", json!({"ms": 1})).await;
    let before = toolyard.memory()?;
    let create = r#"{"name":"wait","arguments":{"ms":3600000},"task":{"ttl":3600000}}"#;
    let mut create = Template::new(&session.headers(), "tools/call", create).for_connection(0);
    let mut wire = Wire::open(toolyard.port()).await?;
    let began = Instant::now();
    let mut asleep = 0;
    for _ in 0..tasks {
        let body = wire.ask(&mut create).await.with_context(|| toolyard.last_words())?;
        anyhow::ensure!(contains(body, b"\"taskId\""), "no task: {}", text(body));
        asleep += usize::from(!contains(body, b"Waiting for its turn"));
    }
    let seconds = began.elapsed().as_secs_f64();
    let after = toolyard.memory()?;
    let refusal = if asleep < tasks { Some(refusal(&session).await?) } else { None };
    // The end is not measured, and an orderly one would handle each task.
    drop(toolyard);
    Ok(Row {
        tasks,
        asleep,
        seconds,
        own_mb: (after.anonymous_kib.saturating_sub(before.anonymous_kib)) as f64 * 1_024.0 / 1e6,
        resident_mb: (after.resident_kib.saturating_sub(before.resident_kib)) as f64 * 1_024.0 / 1e6,
        tables_mb: (after.page_tables_kib.saturating_sub(before.page_tables_kib)) as f64 * 1_024.0 / 1e6,
        mappings: after.mappings.saturating_sub(before.mappings) as f64 / asleep.max(1) as f64,
        refusal,
    })
}

/// The refusal of a plain call when there is no room for it.
async fn refusal(session: &Session) -> anyhow::Result<String> {
    let error: Value = session.error("tools/call", json!({"name": "wait", "arguments": {"ms": 1}})).await;
    let limit = error["data"]["limit"].as_str().context("a refusal names its limit")?;
    anyhow::ensure!(error["data"]["retryAfterMs"].is_u64(), "a refusal says when to come back: {error}");
    Ok(limit.to_owned())
}

/// The number of guests that the kernel's limit on mappings allows at least.
fn possible() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let mappings = text.trim().parse().unwrap_or(DEFAULT_MAPPINGS);
    usize::try_from(mappings.saturating_sub(5_000) / 7).unwrap_or(usize::MAX)
}

fn section(rows: &[Row]) -> Section {
    let mut section = Section::new(
        "Suspended tasks",
        "Tasks of `wait`, created one after the other by one client. Each that has room is a guest that sleeps in \
         the host; the others wait for room. Memory is what the process has beyond what it had before; what a guest has is that \
         of no file, and its page tables: pages of the component's image are there once for all guests, though the process \
         counts them once for each.",
        "tasks | asleep | seconds | resident MB | of it of no file | page tables MB | KiB a guest | mappings a guest | answer to one more",
    );
    let mut data = Vec::new();
    for row in rows {
        section.row([
            row.tasks.to_string(),
            row.asleep.to_string(),
            shown(row.seconds),
            shown(row.resident_mb),
            shown(row.own_mb),
            shown(row.tables_mb),
            shown(row.kib_each()),
            shown(row.mappings),
            row.refusal.clone().map_or_else(|| "—".to_owned(), |limit| format!("busy: {limit}")),
        ]);
        data.push(json!({
            "tasks": row.tasks, "asleep": row.asleep, "seconds": row.seconds, "resident_mb": row.resident_mb, "anonymous_mb": row.own_mb,
            "page_tables_mb": row.tables_mb, "mappings": row.mappings, "refusal": row.refusal,
        }));
    }
    if let Some(most) = rows.last() {
        let wanted = most.tasks.min(possible());
        section.aims.push(Aim {
            what: format!("{} suspended tasks, guests asleep", most.tasks),
            aim: format!("at least {wanted}"),
            reached: most.asleep.to_string(),
            met: most.asleep >= wanted,
        });
        section.aims.push(Aim {
            what: format!("{} suspended tasks, memory each, page tables included", most.tasks),
            aim: format!("at most {AIM_KIB} KiB"),
            reached: format!("{} KiB", shown(most.kib_each())),
            met: most.kib_each() <= AIM_KIB,
        });
    }
    section.data = json!({ "suspended": data });
    section
}
