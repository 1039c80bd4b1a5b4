//! Races between the end of a task and its cancel, at one real host, or at two that share a
//! database: whoever comes first has decided, and what was acknowledged is never anything
//! else.

use crate::chaos::{Era, Gone, Heard, Line};
use crate::dice::Dice;
use crate::history::Status;
use crate::host::Setup;
use crate::postgres;
use crate::session::LATEST;
use crate::tap::stand_aside;
use crate::{Host, Session, Sink, guests};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Clients that race at once.
const CLIENTS: u64 = 32;
/// A run and the cancel of its task each come at a moment within this time.
const WITHIN_MS: u64 = 12;
/// By so much more at most a run is made longer, where ends come first too often.
const MOST_MORE_MS: u64 = 500;

/// What came of the races. There is a report only if nothing changed that was
/// acknowledged.
#[derive(Debug)]
pub struct Report {
    /// How many hosts there were.
    pub hosts: usize,
    /// Repeats what the clients do.
    pub seed: u64,
    /// Races in which the cancel was first.
    pub cancelled: usize,
    /// Races in which the end was first.
    pub ended: usize,
    took: Duration,
}

impl Report {
    /// Whether both orders came often enough to have shown something.
    #[must_use]
    pub const fn is_mixed(&self) -> bool {
        let least = (self.cancelled + self.ended) / 100;
        self.cancelled > least && self.ended > least
    }

    /// The report, as it stands in the documentation.
    #[must_use]
    pub fn text(&self) -> String {
        let all = self.cancelled + self.ended;
        let mut out = String::from("| what | figure |\n| --- | --- |\n");
        for (what, figure) in [
            ("races of a cancel with the end of its task; hosts", format!("{all}; {}", self.hosts)),
            (
                "the cancel was first; the end was first",
                format!("{} ({} %); {}", self.cancelled, self.cancelled * 100 / all.max(1), self.ended),
            ),
            ("states that changed after they were acknowledged, before and after a kill -9", "0".to_owned()),
            ("seed; minutes", format!("{}; {:.1}", self.seed, self.took.as_secs_f64() / 60.0)),
        ] {
            writeln!(out, "| {what} | {figure} |").expect("writing to a String does not fail");
        }
        out
    }
}

type Decided = Arc<Mutex<BTreeMap<String, (u64, Value)>>>;

/// Runs so many races at one host.
///
/// # Panics
/// If anything changes that was acknowledged.
pub async fn races(races: u64, seed: u64) -> Report {
    stand_aside();
    let sink = Sink::start().await;
    let host = setup(&sink).start().await;
    run(vec![host], races, seed).await
}

/// Runs so many races at two hosts: tasks are made, and run, on one of them, and cancelled
/// and asked about on the other. None where PostgreSQL is not installed.
///
/// # Panics
/// If anything changes that was acknowledged.
pub async fn races_between_hosts(races: u64, seed: u64) -> Option<Report> {
    stand_aside();
    let server = postgres::shared()?;
    let (sink, schema) = (Sink::start().await, server.schema());
    let mut hosts = Vec::new();
    for _ in 0..2 {
        // A lease that no load takes: what is lost with a host is not what is looked at.
        let setup = setup(&sink)
            .variable("TOOLYARD_STORE", &server.address())
            .set("cluster.schema", &schema)
            .set("cluster.lease", "5m");
        hosts.push(setup.start().await);
    }
    Some(run(hosts, races, seed).await)
}

fn setup(sink: &Sink) -> Setup {
    let mut setup = Setup::new()
        .with(&[guests::fixture("effects")])
        .manifest("effects", &sink.manifest())
        .set("tasks.ttl-default", "24h");
    for rate in ["requests", "calls", "creation", "polling", "failed-lookups", "sessions"] {
        setup = setup.set(&format!("rates.{rate}"), "none");
    }
    setup
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
        let lines = Lines {
            home: line(session, session.port(), 1 << 32),
            // The next host, if there is one.
            away: line(session, hosts[(client as usize + 1) % hosts.len()].port(), 2 << 32),
        };
        let share = races / CLIENTS + u64::from(client < races % CLIENTS);
        racing.spawn(race(lines, client, share, Dice(dice.roll(u64::MAX)), decided.clone()));
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

/// Where a client makes its tasks, and where it asks about them: perhaps at another host.
struct Lines {
    home: Line,
    away: Line,
}

fn line(session: &Session, port: u16, first_id: i64) -> Line {
    Line::new(Era::Session(session.at(port).numbered_from(first_id)))
}

async fn ask(line: &mut Line, method: &str, id: &str) -> Result<Heard, Gone> {
    line.ask(method, json!({"taskId": id}), |_| Value::Null).await
}

/// Makes tasks that end in a moment, and cancels each at a moment near that.
async fn race(
    mut lines: Lines,
    client: u64,
    share: u64,
    mut dice: Dice,
    decided: Decided,
) -> Result<(), Gone> {
    // However slow the machine, each comes first about as often as the other.
    let mut more = 0_u64;
    for number in 0..share {
        let (ms, wait) = (more + dice.roll(WITHIN_MS), dice.roll(WITHIN_MS * 1_000));
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

/// Looks at every task once more.
async fn again(host: &Host, sessions: &[Session], decided: &BTreeMap<String, (u64, Value)>) {
    let mut looking = JoinSet::new();
    for (client, session) in (0..).zip(sessions) {
        let mut line = line(session, host.port(), 3 << 32);
        let of_this = decided.iter().filter(|(_, (of, _))| *of == client);
        let mine: Vec<_> = of_this.map(|(id, (_, task))| (id.clone(), task.clone())).collect();
        looking.spawn(async move {
            for (id, task) in mine {
                let now = ask(&mut line, "tasks/get", &id).await.expect("the host lives");
                assert_eq!(*now.result(), task, "it was decided");
            }
        });
    }
    while let Some(looked) = looking.join_next().await {
        looked.expect("nothing changes");
    }
}
