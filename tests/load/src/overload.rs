//! Overload: a hundred thousand queued tasks. Measures the memory of each, the memory that is returned, the answer
//! to a client over the limit, and the delay of all others.

use crate::Effort;
use crate::report::Section;
use crate::server::{Server, folder};
use crate::stats::{Latencies, shown};
use crate::wire::{Template, Wire, contains, text};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use toolyard_tests::guests;
use toolyard_tests::session::Session;

/// The numbers of queued tasks.
const QUEUED: [usize; 2] = [10_000, 100_000];
/// Sleeping guests, which fill the slots.
const ASLEEP: usize = 64;
/// The number of clients that create the tasks.
const CREATORS: usize = 32;
/// The aim for `tasks/get` while tasks are created and while they wait, at the 99th percentile.
const GET_AIM_MS: f64 = 50.0;
/// The aim for the memory of a queued task.
const QUEUED_AIM_KIB: f64 = 8.0;
/// The time between two requests at fixed times.
const PACE: Duration = Duration::from_millis(4);
/// How long the queue may take to become empty.
const PATIENCE: Duration = Duration::from_secs(600);

struct Queue {
    tasks: usize,
    created_per_second: f64,
    kib_each: f64,
    creating: Latencies,
    waiting: Latencies,
    refusal: String,
    drained_seconds: f64,
    left_mb: f64,
}

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let mut queues = Vec::new();
    for tasks in QUEUED {
        queues.push(queue(effort, &work.join(tasks.to_string()), tasks).await?);
    }
    Ok(section(&queues))
}

/// A client that creates queued tasks as fast as possible.
struct Creator {
    wire: Wire,
    create: Template,
    left: Arc<AtomicI64>,
}

impl Creator {
    async fn work(mut self) -> anyhow::Result<()> {
        while self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            let body = self.wire.ask(&mut self.create).await?;
            anyhow::ensure!(contains(body, b"\"taskId\""), "no task: {}", text(body));
        }
        Ok(())
    }
}

async fn queue(effort: Effort, work: &Path, tasks: usize) -> anyhow::Result<Queue> {
    let folder = folder(work, "queued", &[guests::plugin("probe")])?;
    let waiting = format!("tasks.waiting-per-principal={tasks}");
    let running = format!("calls.running-per-principal={ASLEEP}");
    let settings = [running.as_str(), waiting.as_str(), "tasks.live=1000000", "rates.local=false"];
    let toolyard = Server::toolyard_with(&folder, &settings).await?;
    let session = Session::open(toolyard.port()).await;
    let mut asleep = Vec::new();
    for _ in 0..ASLEEP {
        asleep.push(session.create("wait", json!({"ms": 3_600_000})).await);
    }
    let before = toolyard.resident_kib()?;
    let mut get = Template::about_task(&session.headers(), "tasks/get").for_connection(CREATORS);
    get.set_task(asleep[0].as_bytes())?;
    let create = r#"{"name":"wait","arguments":{"ms":0},"task":{"ttl":3600000}}"#;
    let create = Template::new(&session.headers(), "tools/call", create);
    let left = Arc::new(AtomicI64::new(i64::try_from(tasks)?));
    let mut creators = JoinSet::new();
    let began = Instant::now();
    for number in 0..CREATORS {
        let wire = Wire::open(toolyard.port()).await?;
        creators.spawn(Creator { wire, create: create.for_connection(number), left: left.clone() }.work());
    }
    let mut wire = Wire::open(toolyard.port()).await?;
    let mut creating = Latencies::new();
    let mut done = None;
    while done.is_none() {
        creating.add(&paced(&mut wire, &mut get, b"\"status\":\"working\"", 50).await?);
        while let Some(one) = creators.try_join_next() {
            one?.with_context(|| toolyard.last_words())?;
        }
        done = creators.is_empty().then(|| began.elapsed());
    }
    let seconds = done.unwrap_or_default().as_secs_f64();
    let full = toolyard.resident_kib()?;
    let waiting = paced(&mut wire, &mut get, b"\"status\":\"working\"", effort.samples * 2).await?;
    let one_more = json!({"name": "wait", "arguments": {"ms": 0}, "task": {}});
    let error: Value = session.error("tools/call", one_more).await;
    let refusal = error["data"]["limit"].as_str().context("a refusal names its limit")?.to_owned();
    anyhow::ensure!(error["data"]["retryAfterMs"].is_u64(), "a refusal says when to come back: {error}");
    // The sleeping guests make room, and the queue becomes empty.
    let began = Instant::now();
    for id in &asleep {
        session.result("tasks/cancel", json!({"taskId": id})).await;
    }
    let last = last_in_line(&session, &toolyard).await?;
    let mut get = get.for_connection(CREATORS + 1);
    get.set_task(last.as_bytes())?;
    while !contains(wire.ask(&mut get).await?, b"\"status\":\"completed\"") {
        anyhow::ensure!(began.elapsed() < PATIENCE, "the line does not come to its end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let drained_seconds = began.elapsed().as_secs_f64();
    let after = toolyard.resident_kib()?;
    toolyard.stop().await?;
    Ok(Queue {
        tasks,
        created_per_second: tasks as f64 / seconds,
        kib_each: full.saturating_sub(before) as f64 / tasks as f64,
        creating,
        waiting,
        refusal,
        drained_seconds,
        left_mb: after.saturating_sub(before) as f64 * 1_024.0 / 1e6,
    })
}

/// Creates a task at the end of the queue, once there is room.
async fn last_in_line(session: &Session, server: &Server) -> anyhow::Result<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let create = json!({"name": "wait", "arguments": {"ms": 0}, "task": {}});
        let answer = session.request("tools/call", create).await;
        if let Some(id) = answer["result"]["task"]["taskId"].as_str() {
            return Ok(id.to_owned());
        }
        anyhow::ensure!(Instant::now() < until, "no place: {answer}\n{}", server.last_words());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn section(rows: &[Queue]) -> Section {
    let mut section = Section::new(
        "Queued tasks",
        "Tasks of `wait` behind 64 guests that sleep, created by 32 clients as fast as that goes. Another asks for the \
         state of a task (`tasks/get`) every 4 ms, while they are created and while they wait. Then those who sleep \
         are cancelled, and the line comes to its end. Memory is what the process has beyond what it had before.",
        "tasks | created per s | KiB a task | get p50 ms, creating | p99 ms | get p50 ms, queued | p99 ms | answer to one more | all ended s | MB left",
    );
    for row in rows {
        let Queue { creating, waiting, .. } = row;
        let gets = [creating.ms(0.5), creating.ms(0.99), waiting.ms(0.5), waiting.ms(0.99)];
        let mut cells = vec![row.tasks.to_string(), shown(row.created_per_second), shown(row.kib_each)];
        cells.extend(gets.map(shown));
        cells.extend([format!("busy: {}", row.refusal), shown(row.drained_seconds), shown(row.left_mb)]);
        section.row(cells);
    }
    if let Some(Queue { tasks, creating, waiting, kib_each, .. }) = rows.last() {
        let what = |what: &str| format!("{what}, {tasks} queued tasks");
        let (creating, waiting) = (creating.ms(0.99), waiting.ms(0.99));
        section.at_most(what("`tasks/get` while they are created, p99"), creating, GET_AIM_MS, "ms");
        section.at_most(what("`tasks/get` while they wait, p99"), waiting, GET_AIM_MS, "ms");
        section.at_most(what("memory of a task"), *kib_each, QUEUED_AIM_KIB, "KiB");
    }
    section
}

/// Sends `samples` requests, each at its fixed time, and measures from that time.
async fn paced(
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
