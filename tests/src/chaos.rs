//! Chaos: a real host under the load of many clients of both generations, killed as
//! `kill -9` does, again and again. What the clients were told goes into a history that
//! is checked after every kill; what the guests did is counted outside of the host.

mod board;
mod effects;
mod line;
mod player;
mod report;

pub use report::Report;

pub(crate) use line::{Era, Gone, Heard, Line};

use crate::dice::Dice;
use crate::history::{Broken, History, Op};
use crate::host::Setup;
use crate::stateless::{Client, everything};
use crate::tap::stand_aside;
use crate::tokens::{stanza, token};
use crate::wait::PATIENCE;
use crate::{Host, Sink, guests};
use board::{Board, Made};
use player::Player;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Clients at once, every other one of them with a session.
const CLIENTS: u32 = 24;
/// Who they are; each person has clients of both generations.
const PEOPLE: [&str; 4] = ["ann", "bea", "cem", "dot"];
/// Tasks that must go on, and as many that must have ended in this life of the host,
/// before it is killed.
const LIVE: usize = 100;
/// Within this time of a kill, every task that went on then has come to its end.
const SETTLED: Duration = Duration::from_secs(20);
/// Who looks after tasks between two lives of the host.
const LOOKERS: u32 = 8;

/// Starts the host of a chaos run.
async fn start(sink: &Sink) -> Host {
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
    setup.start().await
}

/// Kills a host so many times; tells of each kill in a line.
///
/// # Panics
/// If the host does not come back, or a promise was not kept.
pub async fn chaos(kills: u32, seed: u64, mut tell: impl FnMut(&str)) -> Report {
    stand_aside();
    let sink = Sink::start().await;
    let mut host = start(&sink).await;
    let board = Arc::new(Board::new(host.port()));
    let mut dice = Dice(seed);
    let (stop, stopped) = watch::channel(false);
    let mut players = JoinSet::new();
    for who in 0..CLIENTS {
        let player = Player::enter(board.clone(), sink.authority(), who, Dice(dice.roll(u64::MAX))).await;
        players.spawn(player.play(stopped.clone()));
    }
    let day = Duration::from_secs(86_400).as_nanos() as u64;
    let mut history = History::new(day);
    let mut report = Report::new(seed);
    for kill in 1..=kills {
        let (live, finished) = enough(&board, &mut players).await;
        // At any point of whatever is being done.
        tokio::time::sleep(Duration::from_micros(dice.roll(60_000))).await;
        host.kill().await;
        let killed = Instant::now();
        let unsettled = board.unsettled();
        let mut broken = history.add(board.next_life());
        host = host.another().await;
        let back = killed.elapsed();
        if dice.roll(8) == 0 {
            // And again, while what the first kill left is being seen to.
            tokio::time::sleep(Duration::from_micros(dice.roll(150_000))).await;
            host.kill().await;
            host = host.another().await;
            report.kills_in_recovery += 1;
        }
        board.port.send_replace(host.port());
        let settled = settle(&board, unsettled, host.port(), killed).await;
        broken.extend(effects::judge(&board, &sink));
        if !broken.is_empty() || board.has_odd() {
            fail(&host, &broken, &board.take_odd(), seed);
        }
        tell(&report.killed(kill, (live, finished), back, settled));
    }
    stop.send_replace(true);
    while let Some(player) = players.join_next().await {
        player.expect("a client sees nothing that must not be");
    }
    // The last look at all that there ever was, after one more kill.
    host.kill().await;
    let killed = Instant::now();
    let unsettled = board.unsettled();
    let mut broken = history.add(board.next_life());
    host = host.another().await;
    settle(&board, unsettled, host.port(), killed).await;
    // So many that to look at each once takes longer than anything may take to settle.
    settle(&board, board.all(), host.port(), Instant::now()).await;
    for (made, word) in effects::heard(&board, &sink) {
        let now = board.now();
        board.log(CLIENTS, &made.id, now, Some(now), Op::Heard(word));
    }
    broken.extend(history.add(board.next_life()));
    broken.extend(effects::judge(&board, &sink));
    if !broken.is_empty() || board.has_odd() {
        fail(&host, &broken, &board.take_odd(), seed);
    }
    report.end(&board, &history, effects::tally(&board, &sink));
    report
}

/// Waits until there is enough to lose.
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

/// Looks after these tasks until every one is over, and answers what they ask; gives how
/// long after `since` each of them was seen to be over.
async fn settle(board: &Arc<Board>, tasks: Vec<Made>, port: u16, since: Instant) -> Vec<Duration> {
    let mut lookers = JoinSet::new();
    for looker in 0..LOOKERS {
        let board = board.clone();
        let of_this = |(n, _): &(usize, &Made)| n % LOOKERS as usize == looker as usize;
        let mut mine: Vec<_> =
            tasks.iter().enumerate().filter(of_this).map(|(_, made)| made.clone()).collect();
        lookers.spawn(async move {
            let line =
                |name| Line::new(Era::Alone(Client::new(port).declaring(everything()).bearing(&token(name))));
            let mut lines: Vec<_> = PEOPLE.iter().map(|name| line(name)).collect();
            let mut settled = Vec::new();
            // Each is looked at once at least, whatever was known of it.
            let mut first = true;
            while !mine.is_empty() {
                for made in &mine {
                    if first || !board.is_over(&made.id) {
                        let looked =
                            player::answer(&mut lines[made.person], &board, CLIENTS + looker, &made.id).await;
                        looked.expect("the host lives");
                    }
                }
                first = false;
                mine.retain(|made| {
                    let over = board.is_over(&made.id);
                    settled.extend(over.then(|| since.elapsed()));
                    !over
                });
                if let Some(late) = mine.first().filter(|_| since.elapsed() > SETTLED) {
                    let task =
                        lines[late.person].ask("tasks/get", json!({"taskId": late.id}), |_| Value::Null);
                    let task = task.await.expect("the host lives").message;
                    panic!("{} tasks go on, such as {late:?}: {task}", mine.len());
                }
                if !mine.is_empty() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            settled
        });
    }
    let mut settled = Vec::new();
    while let Some(looked) = lookers.join_next().await {
        settled.extend(looked.expect("a looker sees nothing that must not be"));
    }
    settled
}

fn fail(host: &Host, broken: &[Broken], odd: &[String], seed: u64) -> ! {
    let shown = |all: Vec<String>| all.into_iter().take(20).collect::<Vec<_>>().join("\n");
    let broken = shown(broken.iter().map(ToString::to_string).collect());
    let log = host.log();
    let tail = log.lines().rev().take(20).collect::<Vec<_>>();
    panic!("seed {seed}; broken:\n{broken}\nodd:\n{}\nlog:\n{}", shown(odd.to_vec()), tail.join("\n"));
}
