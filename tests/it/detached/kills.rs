//! Rounds of kills of background hosts and of their clients, while tasks wait for time and for answers, and hand their
//! state over; with a server outside that accounts for every request.

#![allow(clippy::print_stdout, reason = "what was seen is the report of a test")]

use super::parked::{client, create_with, request, resuming};
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use toolyard_tests::sink::Step;
use toolyard_tests::{PATIENCE, Setup, Sink, Stdio, guests, nightly};

const ROUNDS: u64 = 50;

/// The work of the task of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// Its requests have keys.
    Keys,
    /// Its requests have none, so that a person decides about those in doubt.
    Doubts,
    /// It hands its state over twice.
    Parts,
}

impl Shape {
    const fn of(round: u64) -> Self {
        [Self::Keys, Self::Doubts, Self::Parts][(round % 3) as usize]
    }

    const fn tool(self) -> &'static str {
        if matches!(self, Self::Doubts) { "doubts_chances" } else { "chances" }
    }
}

#[tokio::test]
#[ignore = "nightly: durability"]
async fn rounds_of_kills_lose_no_task_and_no_request_and_send_none_again_without_a_key_or_a_decision() {
    let sink = Sink::start().await;
    let port = sink.port();
    let http = format!("[http]\nallow = [\"127.0.0.1:{port}\"]\n");
    let folder = resuming(Setup::new(), &format!("{http}idempotency-key = true\n"));
    let plugins = folder.folder.path().join("plugins");
    let manifest = std::fs::read_to_string(plugins.join("chances.toml")).expect("a manifest");
    let manifest = manifest.replace("idempotency-key = true", "in-doubt = \"ask\"");
    std::fs::write(plugins.join("doubts.toml"), format!("prefix = \"doubts\"\n{manifest}")).expect("written");
    std::fs::copy(guests::fixture("chances"), plugins.join("doubts.wasm")).expect("copied");
    let seed = nightly::seed().unwrap_or(20_261_129);
    let (mut made, mut seen) = (Vec::new(), Seen::default());
    for round in 0..ROUNDS {
        let chance = seed.wrapping_add(round).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let (shape, key, has_session) = (Shape::of(round), format!("k{round}"), chance & 32 == 0);
        let mut relay = client(&folder, has_session).await;
        let asks = chance & 16 == 0 && shape != Shape::Doubts;
        let sleep = [0, 300, 2_500][(chance % 3) as usize];
        let arguments = match shape {
            Shape::Parts => json!({"parts": 3, "port": port, "key": key}),
            _ => json!({"rounds": 2, "port": port, "key": key, "hostSleep": sleep,
                "ask": if asks { json!(1) } else { json!(false) }}),
        };
        let id = create_with(&mut relay, has_session, shape.tool(), arguments).await;
        made.push((shape, key.clone(), id));
        if shape == Shape::Doubts {
            // So that its request is certainly under way.
            sink.hold();
            sink.begun(&key, 1).await;
        } else {
            tokio::time::sleep(Duration::from_millis(chance % 3_000)).await;
        }
        let host = folder.backgrounds.one().await;
        match (chance >> 8) % 5 {
            0 if shape != Shape::Doubts => relay.kill().await,
            // The client leaves by itself.
            1 if shape != Shape::Doubts => drop(relay.close().await),
            2 => kill_process(host, Signal::TERM).expect("it runs"),
            3 => {
                relay.kill().await;
                kill_process(host, Signal::KILL).expect("it runs");
            }
            _ => kill_process(host, Signal::KILL).expect("it runs"),
        }
        sink.release();
    }
    let mut last = client(&folder, false).await;
    for (_, _, id) in &made {
        let ended = async {
            while !has_completed(&mut last, id, &mut seen).await {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(|_| panic!("{id} has not ended"));
    }
    let (steps, mut again) = (sink.steps(), 0);
    for (shape, key, id) in &made {
        let of = steps.get(key).unwrap_or_else(|| panic!("no request of {key}"));
        again += accounted(*shape, of, seen.decided.get(id).map_or(0, BTreeSet::len))
            .unwrap_or_else(|why| panic!("{key}: {why}: {of:?}"));
    }
    let Seen { asked, decided } = seen;
    let decided: usize = decided.values().map(BTreeSet::len).sum();
    println!(
        "{ROUNDS} kills, {asked} answers, {decided} decisions about doubts, {again} requests sent again (seed {seed})"
    );
    assert!(asked > 0 && decided > 0 && again > 0, "a run that did not see these shows nothing");
}

#[derive(Default)]
struct Seen {
    asked: usize,
    /// The doubts of which a request was sent again, by task.
    decided: BTreeMap<String, BTreeSet<String>>,
}

/// Answers what the task asks. The answer may come before the host has found the question, or after the last one.
async fn has_completed(client: &mut Stdio, id: &str, seen: &mut Seen) -> bool {
    let shown = request(client, false, "tasks/get", json!({"taskId": id})).await;
    assert!(shown["status"] != "failed" && shown["status"] != "cancelled", "{shown}");
    if shown["status"] == "completed" {
        assert_ne!(shown["result"]["isError"], true, "{shown}");
        return true;
    }
    if let Some(key) = shown["inputRequests"].as_object().and_then(|asked| asked.keys().next()) {
        let content = if key.starts_with("host:doubt:") {
            seen.decided.entry(id.to_owned()).or_default().insert(key.clone());
            json!({"decision": "resend"})
        } else {
            seen.asked += 1;
            json!({"n": 3})
        };
        let answers = json!({key: {"action": "accept", "content": content}});
        request(client, false, "tasks/update", json!({"taskId": id, "inputResponses": answers})).await;
    }
    false
}

/// The number of requests of one task that arrived again, or what arrived that should not have.
fn accounted(shape: Shape, steps: &[Step], resent: usize) -> Result<usize, String> {
    let parts = if shape == Shape::Parts { 3 } else { 2 };
    let numbers: BTreeSet<u32> = steps.iter().map(|step| step.number).collect();
    if !numbers.iter().copied().eq(0..parts) {
        return Err("not every request arrived".to_owned());
    }
    let requests = if shape == Shape::Parts { 2 * parts } else { parts } as usize;
    let again = steps.len() - requests;
    if shape == Shape::Doubts {
        let is_decided = again <= resent && steps.iter().all(|step| step.idempotency_key.is_none());
        return is_decided.then_some(again).ok_or_else(|| format!("{again} again after {resent} decisions"));
    }
    let mut keys = BTreeMap::<&str, &Step>::new();
    for step in steps {
        let key = step.idempotency_key.as_deref().ok_or("a request without a key")?;
        if *keys.entry(key).or_insert(step) != step {
            return Err(format!("two requests have the key {key}"));
        }
    }
    (keys.len() == requests).then_some(again).ok_or_else(|| format!("{} keys", keys.len()))
}
