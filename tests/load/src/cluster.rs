//! Hosts that share a PostgreSQL database, on one machine: how many tasks they complete together, and how
//! soon a client of one host learns of the end of another host's task.

use crate::Effort;
use crate::load::{Client as _, Measured, drive_all};
use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::{Latencies, median, shown};
use crate::tasks::creators;
use crate::wire::{Template, Wire, task_id};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use toolyard_tests::guests;
use toolyard_tests::postgres::{Flushing, Server as Database};
use toolyard_tests::session::Session;

const CLIENTS: usize = 64;
/// The number of clients that create tasks while waits are measured.
const MEANWHILE: usize = 16;
/// The aim for a wait on another host, without other load.
const AIM_IDLE_MS: f64 = 50.0;
/// The aim if every hint is lost: hosts poll once a second.
const AIM_LOST_MS: f64 = 1_100.0;
/// A wait reaches its host within this time; otherwise it is answered at once, which the measurements would
/// show.
const BEGINS: Duration = Duration::from_millis(30);
/// Selects the connections on which hosts receive hints.
const LISTENING: &str = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '% listens'";

/// Where tasks are created, and where clients wait for them.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// The number of hosts; 0 means one with its tasks in SQLite.
    hosts: usize,
    /// Whether clients wait on another host than the one that created the task.
    across: bool,
}

const WAYS: [Way; 6] = [
    Way { hosts: 0, across: false },
    Way { hosts: 1, across: false },
    Way { hosts: 2, across: false },
    Way { hosts: 2, across: true },
    Way { hosts: 3, across: false },
    Way { hosts: 3, across: true },
];

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Vec<Section>> {
    let database = Database::start(Flushing::On).context("PostgreSQL is not installed")?;
    let mut rounds: Vec<Vec<Measured>> = WAYS.iter().map(|_| Vec::new()).collect();
    for _ in 0..effort.rounds {
        for (measured, way) in rounds.iter_mut().zip(WAYS) {
            let hosts = start(&database, work, way.hosts).await?;
            measured.push(tasks(&hosts, way, effort).await?);
            stop(hosts).await?;
        }
    }
    let hosts = start(&database, work, 3).await?;
    let wakes = Wakes {
        idle: wakes(&hosts, effort.wakes.0).await?,
        loaded: {
            let mut load = JoinSet::new();
            let ports: Vec<_> = hosts.iter().map(|host| (host.port(), None)).collect();
            for mut creator in creators(&ports, &Session::open(hosts[0].port()).await, MEANWHILE).await? {
                load.spawn(async move { while creator.once().await.is_ok() {} });
            }
            wakes(&hosts, effort.wakes.0).await?
        },
        unhinted: wakes_unhinted(&database, &hosts, effort.wakes.1).await?,
    };
    stop(hosts).await?;
    Ok(vec![throughput(&rounds), wakes.section()])
}

/// Starts hosts on a separate schema, with `add` and `probe`.
async fn start(database: &Database, work: &Path, hosts: usize) -> anyhow::Result<Vec<Server>> {
    let plugins = [guests::fixture("add"), guests::plugin("probe")];
    if hosts == 0 {
        return Ok(vec![Server::toolyard(&folder(work, "cluster-sqlite", &plugins)?).await?]);
    }
    let schema = format!("cluster.schema={}", database.schema());
    let mut started = Vec::new();
    for number in 0..hosts {
        let folder = folder(work, &format!("cluster-{number}"), &plugins)?;
        started.push(Server::toolyard_on(&database.address(), &folder, &[&schema]).await?);
    }
    Ok(started)
}

async fn stop(hosts: Vec<Server>) -> anyhow::Result<()> {
    for host in hosts {
        host.stop().await?;
    }
    Ok(())
}

async fn tasks(hosts: &[Server], way: Way, effort: Effort) -> anyhow::Result<Measured> {
    let session = Session::open(hosts[0].port()).await;
    let port = |number: usize| hosts[number % hosts.len()].port();
    let ports: Vec<_> =
        (0..hosts.len()).map(|number| (port(number), way.across.then(|| port(number + 1)))).collect();
    drive_all(hosts, creators(&ports, &session, CLIENTS).await?, effort).await
}

/// How long a wait on another host takes after the end of a task.
struct Woken {
    /// Measured from the acknowledgement of the end.
    acknowledged: Latencies,
    /// Measured from the request for it.
    requested: Latencies,
}

struct Wakes {
    idle: Woken,
    loaded: Woken,
    unhinted: Woken,
}

/// A client that ends tasks on one host while it waits for them on another.
struct Waker {
    here: Wire,
    there: Wire,
    create: Template,
    cancel: Template,
    result: Template,
}

impl Waker {
    async fn open(hosts: &[Server]) -> anyhow::Result<Self> {
        let [here, .., there] = hosts else { anyhow::bail!("two hosts are needed") };
        let session = Session::open(here.port()).await;
        let headers = session.headers();
        let create = r#"{"name":"wait","arguments":{"ms":3600000},"task":{"ttl":3600000}}"#;
        Ok(Self {
            here: Wire::open(here.port()).await?,
            there: Wire::open(there.port()).await?,
            create: Template::new(&headers, "tools/call", create).for_connection(0),
            cancel: Template::about_task(&headers, "tasks/cancel").for_connection(1),
            result: Template::about_task(&headers, "tasks/result").for_connection(2),
        })
    }

    /// Ends one task. Returns the times of the request, of the acknowledgement, and of the end of the wait.
    async fn once(&mut self) -> anyhow::Result<[Instant; 3]> {
        let id = task_id(self.here.ask(&mut self.create).await?)?.to_vec();
        self.cancel.set_task(&id)?;
        self.result.set_task(&id)?;
        let waits = async {
            self.there.ask(&mut self.result).await?;
            anyhow::Ok(Instant::now())
        };
        let ends = async {
            tokio::time::sleep(BEGINS).await;
            let asked = Instant::now();
            self.here.ask(&mut self.cancel).await?;
            anyhow::Ok((asked, Instant::now()))
        };
        let (heard, (asked, acknowledged)) = tokio::try_join!(waits, ends)?;
        anyhow::ensure!(heard > asked, "a wait ended before its task");
        Ok([asked, acknowledged, heard])
    }
}

impl Woken {
    fn none() -> Self {
        Self { acknowledged: Latencies::new(), requested: Latencies::new() }
    }

    fn record(&mut self, [asked, acknowledged, heard]: [Instant; 3]) {
        self.acknowledged.record(heard.saturating_duration_since(acknowledged));
        self.requested.record(heard - asked);
    }
}

async fn wakes(hosts: &[Server], count: usize) -> anyhow::Result<Woken> {
    let mut waker = Waker::open(hosts).await?;
    let mut woken = Woken::none();
    for number in 0..count + count / 10 {
        let once = waker.once().await?;
        // The first ones open connections to the database.
        if number >= count / 10 {
            woken.record(once);
        }
    }
    Ok(woken)
}

/// The same while the database processes that carry hints are stopped. After a while hosts notice, and
/// reconnect; measurements from that time do not count.
async fn wakes_unhinted(database: &Database, hosts: &[Server], count: usize) -> anyhow::Result<Woken> {
    let mut waker = Waker::open(hosts).await?;
    let mut woken = Woken::none();
    let mut stopped = Stopped(Vec::new());
    for _ in 0..count * 10 {
        stopped.stop_new(database)?;
        let once = waker.once().await?;
        if stopped.stop_new(database)? == 0 {
            woken.record(once);
        }
        if woken.requested.count() == count as u64 {
            return Ok(woken);
        }
    }
    anyhow::bail!("hosts reconnected in every attempt")
}

/// Stopped processes, which continue when this is dropped.
struct Stopped(Vec<String>);

impl Stopped {
    /// Stops the listening processes that still run, and returns their number.
    fn stop_new(&mut self, database: &Database) -> anyhow::Result<usize> {
        let mut new = 0;
        for pid in database.ask(LISTENING).lines().filter(|line| !line.is_empty()) {
            if self.0.iter().all(|known| known != pid) {
                signal("-STOP", pid)?;
                self.0.push(pid.to_owned());
                new += 1;
            }
        }
        Ok(new)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for pid in &self.0 {
            // It may have ended with its connection.
            drop(signal("-CONT", pid));
        }
    }
}

fn signal(signal: &str, pid: &str) -> anyhow::Result<()> {
    anyhow::ensure!(Command::new("kill").args([signal, pid]).status()?.success(), "kill {signal} {pid}");
    Ok(())
}

fn throughput(rounds: &[Vec<Measured>]) -> Section {
    let mut section = Section::new(
        "Tasks of several hosts",
        "64 clients, each of which creates a task of `add` and waits in `tasks/result`, spread over hosts that share one \
         PostgreSQL with its flushes on. Hosts, database and clients share the cores of this machine. Median of the rounds.",
        "hosts | waits | per s | of one host | created p50 ms | p99 ms | completed p50 ms | p99 ms | CPU µs a task, hosts",
    );
    let rate = |measured: &[Measured]| median(measured.iter().map(|round| round.per_second));
    let one = rounds.iter().zip(WAYS).find(|(_, way)| way.hosts == 1).map(|(measured, _)| rate(measured));
    let one = one.unwrap_or(f64::NAN);
    let mut data = Vec::new();
    for (measured, way) in rounds.iter().zip(WAYS) {
        let of = |figure: &dyn Fn(&Measured) -> f64| median(measured.iter().map(figure));
        let figures = [
            rate(measured),
            rate(measured) / one,
            of(&|round| round.first.ms(0.5)),
            of(&|round| round.first.ms(0.99)),
            of(&|round| round.whole.ms(0.5)),
            of(&|round| round.whole.ms(0.99)),
            of(&Measured::cpu_us),
        ];
        let hosts = if way.hosts == 0 { "1, SQLite".to_owned() } else { way.hosts.to_string() };
        let waits = if way.across { "on another" } else { "on the same" };
        let mut row = vec![hosts, waits.to_owned()];
        row.extend(figures.map(shown));
        section.row(row);
        data.push(json!({
            "hosts": way.hosts.max(1), "store": if way.hosts == 0 { "sqlite" } else { "postgres" },
            "across": way.across, "per_second": figures[0], "created_p50_ms": figures[2], "created_p99_ms": figures[3],
            "completed_p50_ms": figures[4], "completed_p99_ms": figures[5], "cpu_us": figures[6],
        }));
    }
    section.data = json!({"cluster_tasks": data});
    section
}

impl Wakes {
    fn section(&self) -> Section {
        let mut section = Section::new(
            "Waking a wait on another host",
            "A task of one of three hosts is cancelled there, while its client waits for it in `tasks/result` on another: from \
             the acknowledgement of the end (0 if the wait ended before), and from the request for it, to the answer of the \
             wait. Alone; beside 16 clients that create tasks on all hosts; and with every hint between the hosts lost.",
            " | waits | p50 ms | p99 ms | most ms | from the request: p50 ms | p99 ms | most ms",
        );
        let mut data = serde_json::Map::new();
        for (what, key, woken) in [
            ("alone", "idle", &self.idle),
            ("beside 16 clients", "loaded", &self.loaded),
            ("every hint lost", "unhinted", &self.unhinted),
        ] {
            let Woken { acknowledged, requested } = woken;
            let figures = [acknowledged, requested]
                .map(|latencies| [latencies.ms(0.5), latencies.ms(0.99), latencies.max_ms()])
                .concat();
            let mut row = vec![what.to_owned(), requested.count().to_string()];
            row.extend(figures.iter().copied().map(shown));
            section.row(row);
            let value: Value = json!({"waits": requested.count(), "p50_ms": figures[0], "p99_ms": figures[1],
                "most_ms": figures[2], "requested_p50_ms": figures[3], "requested_p99_ms": figures[4]});
            data.insert(key.to_owned(), value);
        }
        for (what, latencies, aim) in [
            ("a wait on another host, alone, p99", &self.idle.acknowledged, AIM_IDLE_MS),
            ("the same with every hint lost", &self.unhinted.acknowledged, AIM_LOST_MS),
        ] {
            let reached = latencies.ms(0.99);
            section.aims.push(Aim {
                what: what.to_owned(),
                aim: format!("under {} ms", shown(aim)),
                reached: format!("{} ms", shown(reached)),
                met: reached < aim,
            });
        }
        section.data = json!({"wakes_elsewhere": data});
        section
    }
}
