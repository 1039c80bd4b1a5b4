//! Chaos: real hosts under the load of many clients of both generations. A single host is killed as `kill -9`
//! does, again and again ([`chaos`]). Meanwhile its plugin is replaced, and both generations must agree about
//! each task. A backup is made during a kill in the middle, and restored at the end. Several hosts that share a database meet disasters of other kinds as well
//! ([`cluster::disasters`]). The answers to the clients go into a history that is checked after each
//! disaster. A sink outside of the hosts counts the effects of the guests.

mod agreement;
mod backup;
mod client_connection;
pub mod cluster;
mod disaster;
mod effects;
mod inspectors;
mod load_client;
mod report;
mod sagas;
mod shared_state;

pub use agreement::agreement;
pub use report::Report;

pub(crate) use client_connection::{ClientConnection, Generation, NoAnswer, Response};

use crate::dice::Dice;
use crate::history::{Broken, History, Op};
use crate::host::{Setup, install_as, install_bytes};
use crate::stateless::everything;
use crate::tap::stand_aside;
use crate::wait::PATIENCE;
use crate::{Host, Session, Sink, guests};
use backup::{BACKED_UP, Backup};
use inspectors::Inspection;
use load_client::LoadClient;
use rustix::process::Signal;
use shared_state::{HostAddress, SharedState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Concurrent clients, every other one of them with a session.
const CLIENTS: u32 = 24;
/// The principals; each has clients of both generations.
const PRINCIPALS: [&str; 4] = ["ann", "bea", "cem", "dot"];
/// The next disaster comes once this many tasks are live, and as many have ended since the last disaster.
const LIVE: usize = 100;
/// Both generations are asked about this many of the latest tasks after each disaster.
const LATEST_TASKS: usize = 300;
/// The name in a report of a SIGTERM, after which another host starts.
const RESTARTED: &str = "restarts";
/// The name in a report of another component for the plugin.
const REPLACED: &str = "replacements of the plugin";
/// The name in a report of tasks about which both generations were asked.
const COMPARED: &str = "tasks compared between the generations";
/// All tasks that were live at a kill must have ended within this time.
const SETTLED: Duration = Duration::from_secs(20);
/// The time for which a history expects tasks to exist: longer than any run.
const A_DAY: Duration = Duration::from_secs(86_400);

/// The setup of the hosts in a chaos run.
fn setup(sink: &Sink) -> Setup {
    sagas::with_sagas(Setup::new(), sink)
        .with(&[guests::fixture("effects")])
        .manifest("effects", &sink.manifest())
        .principals(&PRINCIPALS)
        .set("shutdown.drain", "300ms")
        .set("tasks.ttl-default", "24h")
        .set("tasks.rerun-after", "50ms")
        .set("calls.running", "1000")
        .set("calls.running-per-principal", "500")
        .without_rates()
}

/// Kills a host this many times, and restarts it after every eighth kill; reports each in a line.
///
/// # Panics
/// If the host does not come back, or breaks a promise.
pub async fn chaos(kills: u32, seed: u64, mut tell: impl FnMut(&str)) -> Report {
    stand_aside();
    let sink = Sink::start().await;
    let mut host = setup(&sink).start().await;
    let mut address = HostAddress { number: 1, port: host.port() };
    let shared = Arc::new(SharedState::new(vec![address]));
    let mut dice = Dice(seed);
    let (stop, stopped) = watch::channel(false);
    let mut clients = start_clients(&shared, &sink, &mut dice, None, &stopped).await;
    let mut history = History::new(A_DAY.as_nanos() as u64);
    let mut report =
        Report::new(seed, [&report::SEEN[..], &[REPLACED, RESTARTED, COMPARED, BACKED_UP]].concat());
    let mut sessions = Vec::new();
    for name in PRINCIPALS {
        sessions.push(host.session_as(name, everything()).await);
    }
    let sessions: Arc<[Session]> = sessions.into();
    let inspection = |address| {
        let (shared, sessions) = (shared.clone(), sessions.clone());
        Inspection { shared, addresses: vec![address], move_after: None, sessions }
    };
    let (disasters, mut backup) = (kills + kills / 8, None);
    for disaster in 1..=disasters {
        let (live, finished) = enough(&shared, &mut clients).await;
        replace_plugin(&host, disaster % 2 == 0);
        report.met(REPLACED);
        // At any point of any operation.
        tokio::time::sleep(Duration::from_micros(dice.below(60_000))).await;
        if disaster == disasters.div_ceil(2) {
            backup = Some(Backup::begin(&host, &shared));
        }
        if disaster % 9 == 0 {
            host.signal(Signal::TERM);
            // Some tasks outlast every drain.
            assert_eq!(host.ended().await.code(), Some(1), "{}", host.log());
            report.met(RESTARTED);
        } else {
            host.kill().await;
            report.met("kills -9");
        }
        let killed = Instant::now();
        let unsettled = shared.unsettled();
        let mut broken = history.add(shared.calls_until_kill());
        host = host.another().await;
        let back = killed.elapsed();
        if dice.below(8) == 0 {
            // A second kill, during the recovery after the first one.
            tokio::time::sleep(Duration::from_micros(dice.below(150_000))).await;
            host.kill().await;
            host = host.another().await;
            report.met("further kills, in the midst of a recovery");
        }
        address = HostAddress { number: address.number + 1, port: host.port() };
        shared.addresses.send_replace(vec![address]);
        let settled = inspection(address).settle(unsettled.clone(), killed, SETTLED).await;
        let latest = shared.made_after(shared.len().saturating_sub(LATEST_TASKS));
        inspection(address).compare([unsettled, latest].concat()).await;
        broken.extend(effects::violations(&shared, &sink));
        require(&shared, &broken, &[&host], seed);
        if disaster == disasters.div_ceil(2)
            && let Some(backup) = &mut backup
        {
            backup.complete().await;
        }
        let said = format!("{live} live, {finished} finished; back after {} ms", back.as_millis());
        tell(&format!("disaster {disaster}: {said}, {}", report.settled(settled)));
    }
    stop.send_replace(true);
    until_left(clients).await;
    // The final check of all tasks of the run, after one more kill.
    host.kill().await;
    let killed = Instant::now();
    let unsettled = shared.unsettled();
    let mut broken = history.add(shared.calls_until_kill());
    host = host.another().await;
    address.port = host.port();
    inspection(address).settle(unsettled, killed, SETTLED).await;
    inspection(address).look(shared.all()).await;
    broken.extend(final_violations(&shared, &sink, &mut history));
    let (sagas, faults) = sagas::check(&shared, &sink, &host, &[]).await;
    broken.extend(faults);
    require(&shared, &broken, &[&host], seed);
    report.end(&shared, &history, [effects::counts(&shared, &sink), sagas]);
    if let Some(backup) = backup {
        backup.check(setup(&sink)).await;
        report.met(BACKED_UP);
    }
    report
}

/// Installs the plugins again, with the same functions in other components, or as they were.
fn replace_plugin(host: &Host, changed: bool) {
    let mut bytes = std::fs::read(guests::fixture("effects")).expect("the component");
    if changed {
        // A custom section, which does nothing.
        bytes.extend([0, 5, 1, b'v', b'n', b'e', b'w']);
    }
    install_bytes(host.plugins(), "effects.wasm", &bytes);
    let chances = if changed { "chances_next" } else { "chances" };
    install_as(&guests::fixture(chances), &host.plugins(), "chances.wasm");
}

/// Starts the clients.
async fn start_clients(
    shared: &Arc<SharedState>,
    sink: &Sink,
    dice: &mut Dice,
    move_after: Option<Duration>,
    stopped: &watch::Receiver<bool>,
) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for who in 0..CLIENTS {
        let dice = Dice(dice.below(u64::MAX));
        let client = LoadClient::start(shared.clone(), sink.port(), who, dice, move_after).await;
        clients.spawn(client.play(stopped.clone()));
    }
    clients
}

/// Waits until the clients have left.
async fn until_left(clients: JoinSet<()>) {
    clients.join_all().await;
}

/// The broken promises at the end, when all calls have ended and no guest runs.
fn final_violations(shared: &SharedState, sink: &Sink, history: &mut History) -> Vec<Broken> {
    let heard = effects::received_answers(shared, sink).into_iter().map(|(made, word)| (made.id, word));
    let by_sagas = shared.saga_results().into_iter().filter_map(|(id, result)| Some((id, result.word?)));
    for (id, word) in heard.chain(by_sagas) {
        let now = shared.now();
        shared.log(&id, now, Some(now), Op::Heard(word));
    }
    let mut broken = history.add(shared.calls_until_kill());
    broken.extend(effects::violations(shared, sink));
    broken
}

/// Waits until there are enough live and finished tasks.
async fn enough(shared: &SharedState, clients: &mut JoinSet<()>) -> (usize, usize) {
    let begun = Instant::now();
    loop {
        let (live, finished) = shared.live_and_finished();
        if live >= LIVE && finished >= LIVE {
            return (live, finished);
        }
        if let Some(ended) = clients.try_join_next() {
            ended.expect("a client sees nothing that must not be");
            panic!("a client gave up");
        }
        assert!(begun.elapsed() < PATIENCE, "{live} live and {finished} finished tasks are not enough");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// # Panics
/// If a promise is broken, or a client saw something odd.
fn require(shared: &SharedState, broken: &[Broken], hosts: &[&Host], seed: u64) {
    let unexpected = shared.take_unexpected();
    if broken.is_empty() && unexpected.is_empty() {
        return;
    }
    let shown = |all: Vec<String>| all.into_iter().take(20).collect::<Vec<_>>().join("\n");
    let broken = shown(broken.iter().map(ToString::to_string).collect());
    let tail = |host: &&Host| {
        let log = host.log();
        let tail: Vec<_> = log.lines().rev().take(20).collect();
        format!("log of the host on port {}, the latest first:\n{}", host.port(), tail.join("\n"))
    };
    let logs: Vec<_> = hosts.iter().map(tail).collect();
    panic!("seed {seed}; broken:\n{broken}\nodd:\n{}\n{}", shown(unexpected), logs.join("\n"));
}
