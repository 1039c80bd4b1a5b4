//! Races between the end of a task and its cancel, on one real host, or on two that share a database: the
//! first of the two decides, and an acknowledged state never changes.

use crate::chaos::{ClientConnection, Generation, NoAnswer, Response};
use crate::dice::Dice;
use crate::history::Status;
use crate::host::Setup;
use crate::postgres;
use crate::session::LATEST;
use crate::tap::stand_aside;
use crate::{Host, Session, Sink};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Concurrent clients.
const CLIENTS: u64 = 32;
/// Each run ends and each cancel comes at a random moment within this time.
const WITHIN_MS: u64 = 12;
/// The most by which a run is prolonged if ends come first too often.
const MOST_MORE_MS: u64 = 500;

/// The outcome of the races. It exists only if no acknowledged state changed.
#[derive(Debug)]
pub struct Report {
    /// The number of hosts.
    pub hosts: usize,
    /// The seed, which repeats the steps of the clients.
    pub seed: u64,
    /// Races in which the cancel was first.
    pub cancelled: usize,
    /// Races in which the end was first.
    pub ended: usize,
    took: Duration,
}

impl Report {
    /// Whether each order came often enough: in more than one race of a hundred.
    pub const fn is_mixed(&self) -> bool {
        let least = (self.cancelled + self.ended) / 100;
        self.cancelled > least && self.ended > least
    }

    /// The report, in the form of the documentation.
    pub fn text(&self) -> String {
        let Self { hosts, seed, cancelled, ended, took } = self;
        let (all, minutes) = (cancelled + ended, took.as_secs_f64() / 60.0);
        format!(
            "| what | figure |\n| --- | --- |\n\
             | races of a cancel with the end of its task; hosts | {all}; {hosts} |\n\
             | the cancel was first; the end was first | {cancelled}; {ended} |\n\
             | states that changed after they were acknowledged, before and after a kill -9 | 0 |\n\
             | seed; minutes | {seed}; {minutes:.1} |\n"
        )
    }
}

type Decided = Arc<Mutex<BTreeMap<String, (u64, Value)>>>;

/// Runs this many races on one host.
///
/// # Panics
/// If an acknowledged state changes.
pub async fn races(races: u64, seed: u64) -> Report {
    stand_aside();
    let sink = Sink::start().await;
    let host = setup(&sink).start().await;
    run(vec![host], races, seed).await
}

/// Runs this many races on two hosts: the clients create tasks on one host, where they run, and cancel and
/// read them on the other one. `None` if PostgreSQL is not installed.
///
/// # Panics
/// If an acknowledged state changes.
pub async fn races_between_hosts(races: u64, seed: u64) -> Option<Report> {
    stand_aside();
    let server = postgres::shared()?;
    let (sink, schema) = (Sink::start().await, server.schema());
    let mut hosts = Vec::new();
    for _ in 0..2 {
        // The lease is so long that no load makes a host lose it: lost hosts are not the subject here.
        let setup = setup(&sink)
            .variable("TOOLYARD_STORE", &server.address())
            .set("cluster.schema", &schema)
            .set("cluster.lease", "5m");
        hosts.push(setup.start().await);
    }
    Some(run(hosts, races, seed).await)
}

fn setup(sink: &Sink) -> Setup {
    Setup::fixture("effects", &sink.manifest()).set("tasks.ttl-default", "24h").without_rates()
}

async fn run(mut hosts: Vec<Host>, races: u64, seed: u64) -> Report {
    let began = Instant::now();
    let decided = Decided::default();
    let mut sessions = Vec::new();
    for client in 0..CLIENTS as usize {
        let home = hosts[client % hosts.len()].port();
        sessions.push(Session::open_as(home, LATEST, json!({})).await.session);
    }
    let mut dice = Dice(seed);
    let mut racing = JoinSet::new();
    for (client, session) in (0..).zip(&sessions) {
        // The next host, or the same one if there is only one.
        let other = hosts[(client as usize + 1) % hosts.len()].port();
        let lines = Lines { home: line(session, session.port()), away: line(session, other) };
        let share = races / CLIENTS + u64::from(client < races % CLIENTS);
        racing.spawn(race(lines, client, share, Dice(dice.below(u64::MAX)), decided.clone()));
    }
    while let Some(raced) = racing.join_next().await {
        raced.expect("nothing changes").expect("the host lives");
    }
    for host in &mut hosts {
        host.kill().await;
    }
    let decided = std::mem::take(&mut *decided.lock().unwrap_or_else(PoisonError::into_inner));
    for host in &mut hosts {
        *host = host.another().await;
        again(host, &sessions, &decided).await;
    }
    let cancelled = decided.values().filter(|(_, task)| task["status"] == "cancelled").count();
    let ended = decided.len() - cancelled;
    Report { hosts: hosts.len(), seed, cancelled, ended, took: began.elapsed() }
}

/// The connections of a client: to the host on which it creates tasks, and to the one that it asks about
/// them, which may be another one.
struct Lines {
    home: ClientConnection,
    away: ClientConnection,
}

fn line(session: &Session, port: u16) -> ClientConnection {
    ClientConnection::new(Generation::Session(session.at(port)))
}

async fn ask(line: &mut ClientConnection, method: &str, id: &str) -> Result<Response, NoAnswer> {
    line.ask(method, json!({"taskId": id}), |_| Value::Null).await
}

/// Creates tasks that end soon, and cancels each at about the same time.
async fn race(
    mut lines: Lines,
    client: u64,
    share: u64,
    mut dice: Dice,
    decided: Decided,
) -> Result<(), NoAnswer> {
    // The delay adapts so that both orders come about equally often on any machine.
    let mut more = 0_u64;
    for number in 0..share {
        let (ms, wait) = (more + dice.below(WITHIN_MS), dice.below(WITHIN_MS * 1_000));
        let arguments = json!({"key": format!("once-{client}-{number}"), "ms": ms});
        let call = json!({"name": "once", "arguments": arguments, "task": {}});
        let created = lines.home.ask("tools/call", call, |_| Value::Null).await?;
        let id = created.result()["task"]["taskId"].as_str();
        let id = id.unwrap_or_else(|| panic!("a task: {}", created.message)).to_owned();
        tokio::time::sleep(Duration::from_micros(wait)).await;
        let cancel = ask(&mut lines.away, "tasks/cancel", &id).await?;
        let task = ask(&mut lines.away, "tasks/get", &id).await?.result().clone();
        let at_home = ask(&mut lines.home, "tasks/get", &id).await?;
        assert_eq!(*at_home.result(), task, "it was decided");
        let status = task["status"].as_str().and_then(Status::named);
        match cancel.code() {
            None => {
                assert_eq!(cancel.result()["status"], "cancelled", "{}", cancel.message);
                assert_eq!(task["lastUpdatedAt"], cancel.result()["lastUpdatedAt"], "{task}");
                assert_eq!(status, Some(Status::Cancelled), "acknowledged: {task}");
            }
            Some(-32602) => assert_eq!(status, Some(Status::Completed), "it was over: {task}"),
            Some(_) => panic!("{}", cancel.message),
        }
        more = match status {
            Some(Status::Cancelled) => more - (more / 4 + 1).min(more),
            _ => MOST_MORE_MS.min(more + more / 4 + 1),
        };
        let result = ask(&mut lines.away, "tasks/result", &id).await?;
        assert_eq!(result.code().is_none(), status == Some(Status::Completed), "{task}: {}", result.message);
        decided.lock().unwrap_or_else(PoisonError::into_inner).insert(id, (client, task));
    }
    Ok(())
}

/// Checks every task once more.
async fn again(host: &Host, sessions: &[Session], decided: &BTreeMap<String, (u64, Value)>) {
    let mut looking = JoinSet::new();
    for (client, session) in (0..).zip(sessions) {
        let mut line = line(session, host.port());
        let of_this = decided.iter().filter(|(_, (of, _))| *of == client);
        let mine: Vec<_> = of_this.map(|(id, (_, task))| (id.clone(), task.clone())).collect();
        looking.spawn(async move {
            for (id, task) in mine {
                let now = ask(&mut line, "tasks/get", &id).await.expect("the host lives");
                assert_eq!(*now.result(), task, "it was decided");
            }
        });
    }
    looking.join_all().await;
}
