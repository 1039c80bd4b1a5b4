//! Tasks from their creation to their result: two commits that are flushed before they are acknowledged.
//! Compared with the disk and with a plain use of SQLite at the same time.

use crate::disk::Disk;
use crate::load::{Client, Measured, drive};
use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::{median, shown};
use crate::wire::{Template, Wire, contains, task_id, text};
use crate::{Effort, disk};
use serde_json::json;
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
    disk: Disk,
}

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Vec<Section>> {
    let toolyard = Server::toolyard(&folder(work, "tasks", &[guests::fixture("add")])?).await?;
    let mut rounds = Vec::new();
    for _ in 0..effort.rounds {
        let disk = disk::measure(work, effort.measure / 4)?;
        let mut round = Round { clients: Vec::new(), disk };
        for clients in CLIENTS {
            let session = Session::open(toolyard.port()).await;
            let creators = creators(toolyard.port(), &session, clients).await?;
            round.clients.push((clients, drive(&toolyard, creators, effort).await?));
        }
        rounds.push(round);
    }
    toolyard.stop().await?;
    Ok(vec![section(&rounds)])
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
         each acknowledged after its commit is on the disk: two transitions. Beside them what the disk and plain SQLite give \
         in the same round, one commit after the other. Median of the rounds.",
        "what | clients | per s | transitions/s | x one by one | created p50 ms | p99 ms | completed p50 ms | p99 ms | CPU µs a task",
    );
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let these = || rounds.iter().flat_map(|round| &round.clients).filter(|(with, _)| *with == clients);
        let of = |figure: &dyn Fn(&Measured) -> f64| median(these().map(|(_, measured)| figure(measured)));
        let times = median(rounds.iter().flat_map(|round| {
            let these = round.clients.iter().filter(|(with, _)| *with == clients);
            these.map(|(_, measured)| transitions(measured) / round.disk.commits)
        }));
        let figures = [
            of(&|measured| measured.per_second),
            of(&transitions),
            times,
            of(&|measured| measured.first.ms(0.5)),
            of(&|measured| measured.first.ms(0.99)),
            of(&|measured| measured.whole.ms(0.5)),
            of(&|measured| measured.whole.ms(0.99)),
            of(&Measured::cpu_us),
        ];
        let mut row = vec!["toolyard, tasks completed".to_owned(), clients.to_string()];
        row.extend(figures.map(shown));
        section.row(row);
        rows.push(json!({
            "clients": clients, "per_second": figures[0], "transitions_per_second": figures[1],
            "times_one_by_one": figures[2], "created_p50_ms": figures[3], "created_p99_ms": figures[4],
            "completed_p50_ms": figures[5], "completed_p99_ms": figures[6], "cpu_us": figures[7], "user_us": of(&|measured| measured.user_us),
            "system_us": of(&|measured| measured.system_us),
            "rounds_per_second": these().map(|(_, measured)| measured.per_second).collect::<Vec<_>>(),
        }));
    }
    if let Some(most) = rows.iter().find(|row| row["clients"] == MANY) {
        let mut aim = |what: &str, key: &str, least: f64| {
            let reached = most[key].as_f64().unwrap_or_default();
            section.aims.push(Aim {
                what: format!("{what}, {MANY} clients"),
                aim: format!("at least {}", shown(least)),
                reached: shown(reached),
                met: reached >= least,
            });
        };
        aim("tasks completed a second", "per_second", AIM);
        aim("durable transitions, of one commit after the other", "times_one_by_one", AIM_TIMES);
    }
    let of = |figure: &dyn Fn(&Disk) -> f64| median(rounds.iter().map(|round| figure(&round.disk)));
    let (appends, overwrites, commits) =
        (of(&|disk| disk.appends), of(&|disk| disk.overwrites), of(&|disk| disk.commits));
    for (what, rate) in [
        ("the disk: 4 KiB appended, fdatasync", appends),
        ("the disk: 4 KiB overwritten, fdatasync", overwrites),
        ("plain SQLite: one row a commit, WAL, FULL", commits),
    ] {
        let mut row = vec![what.to_owned(), "1".to_owned(), shown(rate)];
        row.resize(10, "—".to_owned());
        section.row(row);
    }
    section.data = json!({
        "tasks": rows, "fdatasync_appends_per_second": appends,
        "fdatasync_overwrites_per_second": overwrites, "sqlite_commits_per_second": commits,
    });
    section
}

/// The transitions per second: each task is created and ends.
fn transitions(tasks: &Measured) -> f64 {
    tasks.per_second * 2.0
}
