//! Many clients of both generations on one endpoint, for a few principals who share their tasks. Meanwhile
//! plugins are replaced and the host is killed and restarted. A checker compares the reports of both
//! generations about each task.

mod book;
mod player;

pub use book::agreement;

use crate::dice::Dice;
use crate::host::{Setup, install, install_as};
use crate::session::LATEST;
use crate::stateless::{Client, everything};
use crate::tokens::{stanza, token};
use crate::wait::PATIENCE;
use crate::{Host, Session, guests};
use book::Book;
use player::Player;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Concurrent clients, every other one of them with a session.
const CLIENTS: usize = 50;
/// The principals.
const PEOPLE: [&str; 4] = ["ann", "bea", "cem", "dot"];

/// The length of a run.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// The number of kills of the host; every client takes ten steps between them.
    Lives(u32),
    /// As many kills as fit into this time.
    Time(Duration),
}

/// The number of steps of a client between two kills.
const STEPS: u32 = 10;

/// The outcome of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed, which repeats the run.
    pub seed: u64,
    /// Tasks that were compared.
    pub tasks: usize,
    /// The steps of the clients, with their counts.
    pub counts: BTreeMap<String, u64>,
}

/// The shared state of the clients.
struct Stage {
    /// The port of the host; changes when it is replaced.
    port: watch::Sender<u16>,
    /// The observations of each principal about its tasks.
    books: Vec<Mutex<Book>>,
    counts: Mutex<BTreeMap<String, u64>>,
    /// The number of steps of all clients so far.
    steps: AtomicU64,
}

impl Stage {
    fn count(&self, what: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what.to_owned()).or_default() += 1;
    }

    fn book<T>(&self, person: usize, with: impl FnOnce(&mut Book) -> T) -> T {
        with(&mut self.books[person].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs for this length.
///
/// # Panics
/// If the two generations disagree about a task, if a task is lost, or if a finished one changes.
pub async fn mixed(length: Length, seed: u64) -> Report {
    let stanzas: Vec<_> = PEOPLE.iter().map(|name| stanza(name, &[])).collect();
    let mut setup = Setup::new()
        .with(&[guests::plugin("probe"), guests::plugin("jq"), guests::fixture("script")])
        .config(&stanzas.concat())
        .set("tasks.inline-for", "40ms");
    for rate in ["requests", "calls", "creation", "polling", "failed-lookups", "sessions"] {
        setup = setup.set(&format!("rates.{rate}"), "none");
    }
    let mut host = setup.start().await;
    let stage = Arc::new(Stage {
        port: watch::channel(host.port()).0,
        books: PEOPLE.iter().map(|_| Mutex::default()).collect(),
        counts: Mutex::default(),
        steps: AtomicU64::new(0),
    });
    let mut dice = Dice(seed);
    let mut players = Vec::new();
    for number in 0..CLIENTS {
        players.push(Player::enter(stage.clone(), number, Dice(dice.below(u64::MAX))).await);
    }
    let began = Instant::now();
    for life in 0.. {
        let goes_on = match length {
            Length::Lives(lives) => life < lives,
            Length::Time(time) => life < 2 || began.elapsed() < time,
        };
        if !goes_on {
            break;
        }
        let playing: Vec<_> = players
            .drain(..)
            .map(|mut player| {
                tokio::spawn(async move {
                    player.play(STEPS).await;
                    player
                })
            })
            .collect();
        host = disturb(&stage, host, &mut dice).await;
        for player in playing {
            players.push(player.await.expect("a client sees nothing that must not be"));
        }
        check(&stage, &host).await;
    }
    let tasks = (0..PEOPLE.len()).map(|person| stage.book(person, |book| book.len())).sum();
    let counts = stage.counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Report { seed, tasks, counts }
}

/// Replaces plugins while the clients work, and then the host.
async fn disturb(stage: &Stage, mut host: Host, dice: &mut Dice) -> Host {
    let began = stage.steps.load(Ordering::Relaxed);
    let all = CLIENTS as u64 * u64::from(STEPS);
    for part in 1..=3 {
        let steps = began + all * part / 5;
        let reached = async {
            while stage.steps.load(Ordering::Relaxed) < steps {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.expect("the clients get on");
        match dice.below(3) {
            0 => install(&guests::plugin("jq"), &host.plugins()),
            1 => install(&guests::fixture("script"), &host.plugins()),
            _ => install_as(&guests::fixture("versioned_v1"), &host.plugins(), "versioned.wasm"),
        }
        stage.count("a plugin was replaced");
    }
    host.kill().await;
    let host = host.another().await;
    stage.count("the host was killed");
    stage.port.send_replace(host.port());
    host
}

/// Compares the reports of both generations about each task with each other, and with earlier ones.
async fn check(stage: &Stage, host: &Host) {
    for (person, name) in PEOPLE.iter().enumerate() {
        let session = Session::open_with(host.port(), &token(name)).await;
        let client = Client::new(host.port()).declaring(everything()).bearing(&token(name));
        let listed = listed(&session).await;
        for id in stage.book(person, |book| book.ids()) {
            assert!(listed.contains_key(&id), "{id} of {name} is not listed");
            // A live task may change between two requests.
            let (old, new) = crate::eventually("a task to stay as it is for two looks", || async {
                let before = session.task(&id).await;
                let new = client.task(&id).await;
                (session.task(&id).await == before).then_some((before, new))
            })
            .await;
            agreement(&old, &new).unwrap_or_else(|what| panic!("{what}: {old} and {new}"));
            if new["status"] == "completed" {
                let mut result = session.result("tasks/result", json!({"taskId": id})).await;
                result.as_object_mut().expect("an object").remove("_meta");
                let mut inlined = new["result"].clone();
                inlined.as_object_mut().expect("an object").remove("resultType");
                assert_eq!(result, inlined, "one outcome of {id}");
            }
            let mut new = new;
            new.as_object_mut().expect("an object").remove("_meta");
            stage.book(person, |book| {
                book.saw_within(&old);
                book.saw_alone(&new);
            });
        }
        session.delete().await;
    }
}

/// All tasks of a principal, by their ids.
async fn listed(session: &Session) -> BTreeMap<String, serde_json::Value> {
    let mut all = BTreeMap::new();
    let mut params = json!({});
    loop {
        let page = session.result("tasks/list", params).await;
        for task in page["tasks"].as_array().expect("tasks") {
            all.insert(task["taskId"].as_str().expect("an id").to_owned(), task.clone());
        }
        let Some(cursor) = page.get("nextCursor") else { return all };
        params = json!({"cursor": cursor});
    }
}

/// The session of a client.
async fn session(port: u16, name: &str) -> Session {
    Session::open_by(port, LATEST, everything(), Some(&token(name))).await.session
}
