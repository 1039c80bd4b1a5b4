//! A run whose host dies goes on from every prefix of its journal, in another engine, and repeats nothing.

use super::world::{Kept, Server, chances, frames, journal, run_with};
use crate::kit::ok;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use toolyard_engine::Engine;
use toolyard_journal::{Chunk, Entry, Frame};
use toolyard_task::http_tape::HttpTape;
use toolyard_task::{Catalog, RunEnd};

/// Two hosts that serve the same tool, and the outside of both.
struct Stage {
    hosts: [(Arc<Engine>, Arc<Catalog>); 2],
    /// The paths of the requests that left.
    sent: Arc<Mutex<Vec<String>>>,
    /// Answers the requests.
    server: Arc<dyn HttpTape>,
}

impl Stage {
    async fn open() -> Self {
        let manifest = "[http]\nallow = [\"http://127.0.0.1:1\"]\nin-doubt = \"retry\"\n";
        let (hosts, server) = ([chances(manifest).await, chances(manifest).await], Server::default());
        Self { hosts, sent: server.got.clone(), server: Arc::new(server) }
    }

    /// Runs a script on a host from this journal on, until it ends or waits for an answer that it does not get.
    /// Nothing that the journal answers leaves again, and nothing leaves twice. `None` is a run that waits.
    async fn go_on(
        &self,
        host: usize,
        steps: &[Value],
        past: Vec<Chunk>,
        is_answered: bool,
    ) -> (Option<String>, Vec<Chunk>) {
        let order = json!({ "port": 1, "steps": steps });
        let mut past = past;
        loop {
            let answered = Answered::by(&past);
            let kept = Arc::new(Kept { parks: !is_answered, ..Kept::default() });
            *kept.chunks.lock().expect("free") = past;
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let (end, context) =
                run_with(&self.hosts[host].1, &order, &kept, Some(self.server.clone())).await;
            let asked = context.asked.lock().expect("free");
            answered.check("question", asked.iter().map(|asked| asked.key.clone()), &answered.questions);
            let sent = self.sent.lock().expect("free").clone();
            answered.check("request", sent.iter().map(|url| path(url)), &answered.requests);
            if !matches!(end, RunEnd::Stopped) {
                return (Some(ok(&end)), kept.stored());
            }
            let stored = frames(&kept.stored());
            if !matches!(stored.last().map(entry), Some(Entry::Sleep { .. })) {
                return (None, kept.stored());
            }
            past = journal(stored.iter().map(at_its_end));
        }
    }

    /// The result of a journal that ends. Nothing leaves, and nothing is reported or recorded.
    async fn repeat(&self, host: usize, steps: &[Value], whole: Vec<Chunk>) -> String {
        let order = json!({ "port": 1, "steps": steps });
        let kept = Kept::of(whole.clone());
        self.sent.lock().expect("free").clear();
        let (end, context) = run_with(&self.hosts[host].1, &order, &kept, Some(self.server.clone())).await;
        assert!(self.sent.lock().expect("free").is_empty());
        assert!(context.asked.lock().expect("free").is_empty());
        assert!(context.reports.lock().expect("free").is_empty());
        assert_eq!(kept.stored(), whole);
        ok(&end)
    }
}

/// The effects of a run whose outcome its journal has.
struct Answered {
    questions: BTreeSet<String>,
    requests: BTreeSet<String>,
}

impl Answered {
    fn by(chunks: &[Chunk]) -> Self {
        let mut answered = Self { questions: BTreeSet::new(), requests: BTreeSet::new() };
        let (mut asked, mut sent) = (Vec::new(), BTreeMap::new());
        for frame in &frames(chunks) {
            match entry(frame) {
                Entry::Ask { questions, .. } => {
                    asked = questions.iter().map(|question| question.key.to_owned()).collect();
                }
                Entry::Answer(_) => answered.questions.extend(asked.drain(..)),
                Entry::Request { number, uri, .. } => drop(sent.insert(number, path(uri))),
                Entry::Response { number, .. } => answered.requests.extend(sent.remove(&number)),
                _ => {}
            }
        }
        answered
    }

    fn check(&self, kind: &str, left: impl Iterator<Item = String>, answered: &BTreeSet<String>) {
        let mut seen = BTreeSet::new();
        for name in left {
            assert!(!answered.contains(&name), "{kind} {name} left, and the journal has its answer");
            assert!(seen.insert(name.clone()), "{kind} {name} left twice");
        }
    }
}

/// The last part of a URL, which is unique in a run.
fn path(url: &str) -> String {
    url.rsplit('/').next().unwrap_or_default().to_owned()
}

fn entry(frame: &Frame) -> Entry<'_> {
    frame.entry().expect("an entry")
}

/// The entry after a time in which its wait has ended.
fn at_its_end(frame: &Frame) -> Entry<'_> {
    match entry(frame) {
        Entry::Sleep { duration_ms, .. } => Entry::Sleep { duration_ms, until_ms: 0 },
        other => other,
    }
}

/// The entry as it was stored before its last repetitions, if it stands for several operations.
fn half(frame: &Frame) -> Option<Entry<'_>> {
    match entry(frame) {
        Entry::Clock { steps, readings: 2.. } => Some(Entry::Clock { steps, readings: 1 }),
        Entry::Poll { len, ready, times: 2.. } => Some(Entry::Poll { len, ready, times: 1 }),
        Entry::Ready { is_ready, times: 2.. } => Some(Entry::Ready { is_ready, times: 1 }),
        _ => None,
    }
}

/// The journal before entry `count`, perhaps with its first half, if it stands for several operations.
fn cut(all: &[Frame], count: usize, takes_half: bool) -> Vec<Chunk> {
    let half = all.get(count).filter(|_| takes_half).and_then(half);
    journal(all[..count].iter().map(entry).chain(half))
}

/// The fate of a run.
#[derive(Debug, Clone)]
enum Stop {
    /// The journal loses everything from some entry on, or from the middle of it.
    Cut(Index, bool),
    /// The run waits for an answer without a host.
    Park,
}

fn step() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (1..5_u8).prop_map(|count| json!({ "now": count })),
        2 => (1..3_u8).prop_map(|count| json!({ "random": count })),
        2 => (1..4_u8).prop_map(|count| json!({ "post": count })),
        2 => Just(json!({ "ask": 0 })),
        1 => prop::sample::select(vec!["order", "nan", "info", "progress"]).prop_map(|name| json!({ name: 0 })),
        1 => (0..3_u8).prop_map(|time| json!({ "sleep": time })),
        1 => prop::sample::select(vec![0, 0, 1, 60_000]).prop_map(|time| json!({ "hostSleep": time })),
        1 => prop::collection::vec(0..2_u8, 1..4).prop_map(|times| json!({ "timers": times })),
        1 => (1..4_u8).prop_map(|count| json!({ "ready": count })),
    ]
}

fn stop() -> impl Strategy<Value = Stop> {
    let cut = (any::<Index>(), any::<bool>()).prop_map(|(index, takes_half)| Stop::Cut(index, takes_half));
    prop_oneof![3 => cut, 1 => Just(Stop::Park)]
}

/// A run with these stops, on two hosts by turns.
async fn survives(stage: &Stage, steps: &[Value], stops: &[Stop]) {
    let mut past = Vec::new();
    for (number, stop) in stops.iter().enumerate() {
        let is_answered = matches!(stop, Stop::Cut(..));
        let (_, journal) = stage.go_on(number % 2, steps, past, is_answered).await;
        past = match stop {
            Stop::Park => journal,
            Stop::Cut(index, takes_half) => {
                let all = frames(&journal);
                cut(&all, index.index(all.len()).max(1), *takes_half)
            }
        };
    }
    let (result, whole) = stage.go_on(0, steps, past, true).await;
    assert_eq!(Some(stage.repeat(1, steps, whole).await), result);
}

#[test]
fn any_script_survives_cuts_and_parks_at_random_places() {
    let cases = if std::env::var_os("NIGHTLY").is_some() { 2_000 } else { 400 };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let stage = runtime.block_on(Stage::open());
    let scripts = (prop::collection::vec(step(), 0..=40), prop::collection::vec(stop(), 1..4));
    let config = Config { failure_persistence: None, ..Config::with_cases(cases) };
    let ran = TestRunner::new(config).run(&scripts, |(steps, stops)| {
        runtime.block_on(survives(&stage, &steps, &stops));
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
}
