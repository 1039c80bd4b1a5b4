//! Chaos: real hosts under the load of many clients of both generations. A single host is killed as `kill -9`
//! does, again and again ([`chaos`]). Several hosts that share a database meet disasters of other kinds as
//! well ([`cluster::disasters`]). The answers to the clients go into a history that is checked after each
//! disaster. A sink outside of the hosts counts the effects of the guests.

mod board;
pub mod cluster;
mod disaster;
mod effects;
mod line;
mod lookers;
mod player;
mod report;

pub use report::Report;

pub(crate) use line::{Era, Gone, Heard, Line};

use crate::dice::Dice;
use crate::history::{Broken, History, Op};
use crate::host::Setup;
use crate::tap::stand_aside;
use crate::tokens::stanza;
use crate::wait::PATIENCE;
use crate::{Host, Sink, guests};
use board::{Board, Seat};
use lookers::Lookout;
use player::Player;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Concurrent clients, every other one of them with a session.
const CLIENTS: u32 = 24;
/// The principals; each has clients of both generations.
const PEOPLE: [&str; 4] = ["ann", "bea", "cem", "dot"];
/// The next disaster comes once this many tasks are live, and as many have ended since the last disaster.
const LIVE: usize = 100;
/// All tasks that were live at a kill must have ended within this time.
const SETTLED: Duration = Duration::from_secs(20);
/// The time for which a history expects tasks to exist: longer than any run.
const A_DAY: Duration = Duration::from_secs(86_400);

/// The setup of the hosts in a chaos run.
fn setup(sink: &Sink) -> Setup {
    let stanzas: Vec<_> = PEOPLE.iter().map(|name| stanza(name, &[])).collect();
    let mut setup = Setup::new()
        .with(&[guests::fixture("effects")])
        .manifest("effects", &sink.manifest())
        .config(&stanzas.concat())
        .set("tasks.ttl-default", "24h")
        .set("tasks.rerun-after", "50ms")
        .set("calls.running", "1000")
        .set("calls.running-per-principal", "500");
    for rate in ["requests", "calls", "creation", "polling", "failed-lookups", "sessions"] {
        setup = setup.set(&format!("rates.{rate}"), "none");
    }
    setup
}

/// Kills a host this many times; reports each kill in a line.
///
/// # Panics
/// If the host does not come back, or breaks a promise.
pub async fn chaos(kills: u32, seed: u64, mut tell: impl FnMut(&str)) -> Report {
    stand_aside();
    let sink = Sink::start().await;
    let mut host = setup(&sink).start().await;
    let mut seat = Seat { number: 1, port: host.port() };
    let board = Arc::new(Board::new(vec![seat]));
    let mut dice = Dice(seed);
    let (stop, stopped) = watch::channel(false);
    let mut players = enter(&board, &sink, &mut dice, None, &stopped).await;
    let mut history = History::new(A_DAY.as_nanos() as u64);
    let mut report = Report::new(seed, report::SEEN.to_vec());
    let lookout = |seat| Lookout { board: board.clone(), first: CLIENTS, seats: vec![seat], leaving: None };
    for kill in 1..=kills {
        let (live, finished) = enough(&board, &mut players).await;
        // At any point of any operation.
        tokio::time::sleep(Duration::from_micros(dice.below(60_000))).await;
        host.kill().await;
        let killed = Instant::now();
        let unsettled = board.unsettled();
        let mut broken = history.add(board.next_life());
        host = host.another().await;
        let back = killed.elapsed();
        if dice.below(8) == 0 {
            // A second kill, during the recovery after the first one.
            tokio::time::sleep(Duration::from_micros(dice.below(150_000))).await;
            host.kill().await;
            host = host.another().await;
            report.met("further kills, in the midst of a recovery");
        }
        seat = Seat { number: seat.number + 1, port: host.port() };
        board.seats.send_replace(vec![seat]);
        let settled = lookout(seat).settle(unsettled, killed, SETTLED).await;
        broken.extend(effects::judge(&board, &sink));
        require(&board, &broken, &[&host], seed);
        report.met("kills -9");
        report.least(live, finished);
        let said = format!("{live} live, {finished} finished; back after {} ms", back.as_millis());
        tell(&format!("kill {kill}: {said}, {}", report.settled(settled)));
    }
    stop.send_replace(true);
    left(players).await;
    // The final check of all tasks of the run, after one more kill.
    host.kill().await;
    let killed = Instant::now();
    let unsettled = board.unsettled();
    let mut broken = history.add(board.next_life());
    host = host.another().await;
    seat.port = host.port();
    lookout(seat).settle(unsettled, killed, SETTLED).await;
    lookout(seat).look(board.all()).await;
    broken.extend(last_words(&board, &sink, &mut history));
    require(&board, &broken, &[&host], seed);
    report.end(&board, &history, effects::tally(&board, &sink));
    report
}

/// Starts the clients.
async fn enter(
    board: &Arc<Board>,
    sink: &Sink,
    dice: &mut Dice,
    leaving: Option<Duration>,
    stopped: &watch::Receiver<bool>,
) -> JoinSet<()> {
    let mut players = JoinSet::new();
    for who in 0..CLIENTS {
        let dice = Dice(dice.below(u64::MAX));
        let player = Player::enter(board.clone(), sink.authority(), who, dice, leaving).await;
        players.spawn(player.play(stopped.clone()));
    }
    players
}

/// Waits until the clients have left.
async fn left(mut players: JoinSet<()>) {
    while let Some(player) = players.join_next().await {
        player.expect("a client sees nothing that must not be");
    }
}

/// The broken promises at the end, when all calls have ended and no guest runs.
fn last_words(board: &Board, sink: &Sink, history: &mut History) -> Vec<Broken> {
    for (made, word) in effects::heard(board, sink) {
        let now = board.now();
        board.log(CLIENTS, &made.id, now, Some(now), Op::Heard(word));
    }
    let mut broken = history.add(board.next_life());
    broken.extend(effects::judge(board, sink));
    broken
}

/// Waits until there are enough live and finished tasks.
async fn enough(board: &Board, players: &mut JoinSet<()>) -> (usize, usize) {
    let begun = Instant::now();
    loop {
        let (live, finished) = board.standing();
        if live >= LIVE && finished >= LIVE {
            return (live, finished);
        }
        if let Some(ended) = players.try_join_next() {
            ended.expect("a client sees nothing that must not be");
            panic!("a client gave up");
        }
        assert!(begun.elapsed() < PATIENCE, "{live} live and {finished} finished tasks are not enough");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// # Panics
/// If a promise is broken, or a client saw something odd.
fn require(board: &Board, broken: &[Broken], hosts: &[&Host], seed: u64) {
    if broken.is_empty() && !board.has_odd() {
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
    panic!("seed {seed}; broken:\n{broken}\nodd:\n{}\n{}", shown(board.take_odd()), logs.join("\n"));
}
