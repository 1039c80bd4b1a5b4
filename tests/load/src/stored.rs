//! Whether plain calls, tasks and polls cost more if a million tasks are stored; and pages of their listing,
//! over HTTP.

use crate::Effort;
use crate::calls::{Caller, template};
use crate::inside::SystemClock;
use crate::load::{Client, Measured, drive};
use crate::peers::{self, Mode};
use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::{median, shown};
use crate::tasks::creators;
use crate::wire::{Template, Wire, contains, find, text};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_dispatch::{Clock, Task, TaskId, Timestamp};
use toolyard_store::archive::Archive as _;
use toolyard_store::{SqliteOptions, SqliteStore};
use toolyard_tests::guests;
use toolyard_tests::session::Session;

const STORED: u32 = 1_000_000;
/// The number of tasks that one transaction writes.
const BATCH: u32 = 2_000;
/// The interval between the creation times of the tasks, which cover the last hours.
const APART_MS: i64 = 10;
/// How long they are kept: a day, in milliseconds.
const TTL_MS: u64 = 24 * 60 * 60 * 1_000;
const CALLERS: usize = 64;
/// The largest ratio to the CPU time without stored tasks.
const AIM_FLAT: f64 = 1.1;

/// The measured requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Call,
    Task,
    Get,
    List,
    Search,
}

impl What {
    const ALL: [Self; 5] = [Self::Call, Self::Task, Self::Get, Self::List, Self::Search];

    const fn name(self) -> &'static str {
        match self {
            Self::Call => "plain `tools/call`, 64 clients",
            Self::Task => "task, created to result, 64 clients",
            Self::Get => "`tasks/get`, 64 clients",
            Self::List => "`tasks/list`, page after page, 1 client",
            Self::Search => "the same with a filter by status, latest change first",
        }
    }
}

/// A host, a session, and a finished task of that session.
struct Host {
    server: Server,
    session: Session,
    task: String,
    data: PathBuf,
}

impl Host {
    async fn start(work: &Path, name: &str) -> anyhow::Result<Self> {
        let folder = folder(work, name, &[guests::fixture("add")])?;
        let server = Server::toolyard(&folder).await?;
        let session = Session::open(server.port()).await;
        let task = session.create("add", json!({"a": 19, "b": 23})).await;
        session.result("tasks/result", json!({"taskId": task})).await;
        Ok(Self { server, session, task, data: folder.join("data") })
    }
}

/// The measurements, each with its number of stored tasks.
type Figures = Vec<(What, u32, Measured)>;

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let few = Host::start(work, "stored-none").await?;
    let many = Host::start(work, "stored-many").await?;
    let began = Instant::now();
    fill(&many.data, &many.task).await?;
    let filled = began.elapsed();
    let mut figures = Vec::new();
    for _ in 0..effort.rounds {
        for what in What::ALL {
            for (stored, host) in [(0, &few), (STORED, &many)] {
                figures.push((what, stored, one(host, effort, what).await?));
            }
        }
    }
    few.server.stop().await?;
    many.server.stop().await?;
    Ok(section(&figures, filled))
}

/// Writes a million copies of this task while the host runs.
async fn fill(data: &Path, pattern: &str) -> anyhow::Result<()> {
    let store = SqliteStore::open(data, SqliteOptions::new(Arc::new(SystemClock)))?;
    let mut export = store.export().await?;
    let mut found = None;
    while found.is_none() {
        let tasks = export.next().await?;
        anyhow::ensure!(!tasks.is_empty(), "the pattern is stored");
        found = tasks.into_iter().flatten().find(|task| task.id.to_string() == pattern);
    }
    drop(export);
    let pattern = found.context("the pattern is stored")?;
    let now = SystemClock.now().0;
    for first in (0..STORED).step_by(BATCH as usize) {
        let tasks = (first..first + BATCH).map(|number| {
            let created = Timestamp(now - i64::from(STORED - number) * APART_MS);
            // In random order when sorted, and all different.
            let id = uuid::Uuid::from_u128(
                u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
            );
            Task {
                id: TaskId(uuid::Builder::from_random_bytes(id.into_bytes()).into_uuid()),
                created_at: created,
                updated_at: Timestamp(created.0 + 5),
                ttl_ms: TTL_MS,
                ..pattern.clone()
            }
        });
        let new = store.import(tasks.collect()).await?;
        anyhow::ensure!(new == BATCH, "{new} of {BATCH} tasks were new");
    }
    store.shut_down().await;
    Ok(())
}

async fn one(host: &Host, effort: Effort, what: What) -> anyhow::Result<Measured> {
    let Host { server, session, task, .. } = host;
    let port = server.port();
    match what {
        What::Call => {
            let add = json!({"name": "add", "arguments": {"a": 19, "b": 23}});
            let template = template(&peers::headers(port, Mode::Session).await?, "tools/call", &add);
            drive(server, Caller::some(port, &template, b"\"text\":\"42\"", CALLERS).await?, effort).await
        }
        What::Task => {
            let session = Session::open(port).await;
            drive(server, creators(&[(port, None)], &session, CALLERS).await?, effort).await
        }
        What::Get => {
            let mut template = Template::about_task(&session.headers(), "tasks/get");
            template.set_task(task.as_bytes())?;
            let callers = Caller::some(port, &template, b"\"status\":\"completed\"", CALLERS).await?;
            drive(server, callers, effort).await
        }
        What::List | What::Search => {
            let (wire, session) = (Wire::open(port).await?, session.at(port));
            let filter = (what == What::Search).then(|| json!({"status": ["completed"]}));
            drive(server, vec![Lister { wire, session, filter, cursor: None }], effort).await
        }
    }
}

/// Requests one page after the other, and starts again after the last.
struct Lister {
    wire: Wire,
    session: Session,
    filter: Option<Value>,
    cursor: Option<String>,
}

impl Client for Lister {
    async fn once(&mut self) -> anyhow::Result<Duration> {
        const NEXT: &[u8] = b"\"nextCursor\":\"";
        let mut params = json!({});
        if let Some(filter) = &self.filter {
            params["filter"] = filter.clone();
        }
        if let Some(cursor) = self.cursor.take() {
            params["cursor"] = cursor.into();
        }
        let mut request = Template::new(&self.session.headers(), "tasks/list", &params.to_string());
        let began = Instant::now();
        let body = self.wire.ask(&mut request).await?;
        let took = began.elapsed();
        anyhow::ensure!(contains(body, b"\"tasks\":["), "not what was expected: {}", text(body));
        self.cursor = find(body, NEXT).and_then(|at| {
            let rest = &body[at + NEXT.len()..];
            let end = find(rest, b"\"")?;
            String::from_utf8(rest[..end].to_vec()).ok()
        });
        Ok(took)
    }
}

fn section(figures: &Figures, filled: Duration) -> Section {
    let mut section = Section::new(
        "Among a million stored tasks",
        "Two hosts that take turns, of which one has 1,000,000 finished tasks of one session stored. Median of the rounds.",
        "what | stored | per s | p50 ms | p99 ms | CPU µs each",
    );
    let mut data = Vec::new();
    for what in What::ALL {
        let mut cpu = Vec::new();
        for stored in [0, STORED] {
            let of = |figure: &dyn Fn(&Measured) -> f64| {
                let these = figures.iter().filter(|(of, among, _)| *of == what && *among == stored);
                median(these.map(|(_, _, measured)| figure(measured)))
            };
            let shown_of = [
                of(&|measured| measured.per_second),
                of(&|measured| measured.whole.ms(0.5)),
                of(&|measured| measured.whole.ms(0.99)),
                of(&Measured::cpu_us),
            ];
            let mut row = vec![what.name().to_owned(), stored.to_string()];
            row.extend(shown_of.map(shown));
            section.row(row);
            cpu.push(shown_of[3]);
            data.push(json!({
                "what": what.name(), "stored": stored, "per_second": shown_of[0], "p50_ms": shown_of[1],
                "p99_ms": shown_of[2], "cpu_us": shown_of[3],
            }));
        }
        // Without stored tasks, a page of a listing or a search is empty.
        if !matches!(what, What::List | What::Search) {
            let times = cpu[1] / cpu[0];
            section.aims.push(Aim {
                what: format!("{}, CPU among 1,000,000 stored tasks, of that among none", what.name()),
                aim: format!("at most {AIM_FLAT} times"),
                reached: format!("{times:.2}"),
                met: times <= AIM_FLAT,
            });
        }
    }
    section.data = json!({ "among_stored_tasks": data, "stored_in_seconds": filled.as_secs_f64() });
    section
}
