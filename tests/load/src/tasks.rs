//! Tasks from their creation to their result: two commits that are flushed before they are acknowledged.
//! Compared with a plain use of SQLite at the same time.

use crate::load::{Client, Figure, Measured, drive, row};
use crate::report::Section;
use crate::server::{Server, folder};
use crate::stats::{median, shown};
use crate::wire::{Template, Wire, contains, task_id, text};
use crate::{Effort, disk};
use std::path::Path;
use std::time::{Duration, Instant};
use toolyard_tests::guests;
use toolyard_tests::session::Session;

const CLIENTS: [usize; 4] = [1, 16, 64, 512];
/// The number of clients for the aims.
const MANY: usize = 64;
/// The aim for tasks completed per second.
const AIM: f64 = 3_000.0;
/// The aim as a multiple of the rate of commits one after the other.
const AIM_TIMES: f64 = 10.0;
const FIGURES: [Figure; 7] = [
    |tasks| tasks.per_second,
    transitions,
    |tasks| tasks.first.ms(0.5),
    |tasks| tasks.first.ms(0.99),
    |tasks| tasks.whole.ms(0.5),
    |tasks| tasks.whole.ms(0.99),
    |tasks| tasks.cpu_us,
];

/// A client that creates tasks and waits for each.
pub struct Creator {
    wire: Wire,
    create: Template,
    result: Template,
}

impl Client for Creator {
    async fn once(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let body = self.wire.ask(&mut self.create).await?;
        let acknowledged = began.elapsed();
        let id = task_id(body)?;
        self.result.set_task(id)?;
        let body = self.wire.ask(&mut self.result).await?;
        anyhow::ensure!(contains(body, b"\"text\":\"42\""), "not what was expected: {}", text(body));
        Ok(acknowledged)
    }
}

struct Round {
    clients: Vec<(usize, Measured)>,
    /// Commits of plain SQLite a second, one after the other.
    commits: f64,
}

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let toolyard = Server::toolyard(&folder(work, "tasks", &[guests::fixture("add")])?).await?;
    let mut rounds = Vec::new();
    for _ in 0..effort.rounds {
        let mut round = Round { clients: Vec::new(), commits: disk::commits(work, effort.measure / 4)? };
        for clients in CLIENTS {
            let session = Session::open(toolyard.port()).await;
            let creators = creators(toolyard.port(), &session, clients).await?;
            round.clients.push((clients, drive(&toolyard, creators, effort).await?));
        }
        rounds.push(round);
    }
    toolyard.stop().await?;
    Ok(section(&rounds))
}

/// Clients of a session.
pub async fn creators(port: u16, session: &Session, clients: usize) -> anyhow::Result<Vec<Creator>> {
    let headers = session.headers();
    let create = r#"{"name":"add","arguments":{"a":19,"b":23},"task":{"ttl":60000}}"#;
    let create = Template::new(&headers, "tools/call", create);
    let result = Template::about_task(&headers, "tasks/result");
    let mut creators = Vec::new();
    for number in 0..clients {
        creators.push(Creator {
            wire: Wire::open(port).await?,
            create: create.for_connection(number),
            result: result.for_connection(clients + number),
        });
    }
    Ok(creators)
}

fn section(rounds: &[Round]) -> Section {
    let mut section = Section::new(
        "Tasks, from creation to result",
        "Each client creates a task of `add` and waits in `tasks/result`: one durable creation and one durable end, \
         each acknowledged after its commit is on the disk: two transitions. Beside them what plain SQLite gives in the same \
         round, one commit after the other. Median of the rounds.",
        "what | clients | x one by one | per s | transitions/s | created p50 ms | p99 ms | completed p50 ms | p99 ms | CPU µs a task",
    );
    for clients in CLIENTS {
        let these = rounds.iter().flat_map(|round| {
            let these = round.clients.iter().filter(move |(with, _)| *with == clients);
            these.map(move |(_, measured)| (measured, round.commits))
        });
        let times = median(these.clone().map(|(tasks, commits)| transitions(tasks) / commits));
        let tasks = these.map(|(tasks, _)| tasks);
        let cells = ["toolyard, tasks completed".to_owned(), clients.to_string(), shown(times)];
        section.row(row(cells, tasks.clone(), &FIGURES));
        if clients == MANY {
            let completed = median(tasks.map(|tasks| tasks.per_second));
            section.at_least(format!("tasks completed, {MANY} clients"), completed, AIM, "a second");
            let what = format!("durable transitions, of one commit after the other, {MANY} clients");
            section.at_least(what, times, AIM_TIMES, "times");
        }
    }
    let commits = median(rounds.iter().map(|round| round.commits));
    let mut cells = ["plain SQLite: one row a commit, WAL, FULL", "1", "—"].map(str::to_owned).to_vec();
    cells.push(shown(commits));
    cells.resize(10, "—".to_owned());
    section.row(cells);
    section
}

/// The transitions per second: each task is created and ends.
fn transitions(tasks: &Measured) -> f64 {
    tasks.per_second * 2.0
}
