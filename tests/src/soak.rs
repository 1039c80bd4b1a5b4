//! A long life in a short time: random honest and hostile calls, plain and as tasks, some of them cancelled,
//! while plugins are replaced, and while other principals let the host hold as much for them as they can. After each
//! round, once the host is at rest, the resources that it uses are measured.

use crate::dice::Dice;
use crate::host::{Setup, install, install_as, install_bytes};
use crate::process::Usage;
use crate::session::{LATEST, initialize};
use crate::tokens::{stanza, token};
use crate::{Host, Session, guests, until};
use serde_json::json;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Concurrent clients, each of another principal.
const CLIENTS: u64 = 6;
/// Principals that only let the host hold things for them.
const HOLDERS: u64 = 14;
/// The steps of each client in a round.
const STEPS: u32 = 25;
/// Rounds before the first sample, in which pools and caches fill.
const WARM_UP: u32 = 2;
/// The time after which an idle host is at rest.
const REST: Duration = Duration::from_millis(700);

/// Hostile tools, by their plugins: each ends by itself, soon.
const HOSTILE: [(&str, &str); 3] = [
    (
        "hostile_calls",
        "compute fill_memory call_the_host sleep_for_ever sleep_for_nothing poll_for_ever \
         write_for_ever recurse recurse_in_memory grow_memory allocate hold_pollables hold_streams \
         hold_sockets random_bytes unreachable out_of_bounds wrong_signature exit_well exit_badly \
         panic_at_length fail_at_length",
    ),
    (
        "hostile_reports",
        "huge_progress huge_status huge_log large_everything no_numbers no_text no_memory log_flood \
         progress_flood status_flood change_flood task_flood output_flood",
    ),
    (
        "hostile_results",
        "huge_text large_text huge_blob deep_structure deep_block wide_structure same_names \
         half_an_object two_objects no_text odd_errors lie_by_type",
    ),
];

/// Attacks of clients that use no hostile tool.
const ATTACKS: u64 = 6;

/// Tight limits, so that much happens in little time.
const MANIFEST: &str = "prefix = \"h\"\n[limits]\ncpu = \"150ms\"\nwall = \"400ms\"\n";

/// The length of a run.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// The number of rounds after the warm-up.
    Rounds(u32),
    /// This much time, and at least a few rounds.
    Time(Duration),
}

/// The resources that an idle host uses.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The time since the beginning.
    pub at: Duration,
    /// Calls so far.
    pub calls: u64,
    /// The resources that it uses.
    pub usage: Usage,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed, which repeats the run.
    pub seed: u64,
    /// One sample after each round.
    pub samples: Vec<Sample>,
    /// How long the calls of `echo` took, sorted.
    pub echoes: Vec<Duration>,
}

/// Runs for this length; calls `seen` with each sample.
///
/// # Panics
/// If an honest call does not get its answer.
pub async fn soak(length: Length, seed: u64, mut seen: impl FnMut(&Sample)) -> Report {
    let hostile: Vec<PathBuf> = HOSTILE.iter().map(|(name, _)| guests::fixture(name)).collect();
    let mut setup = Setup::new()
        .with(&[guests::plugin("probe"), guests::plugin("jq")])
        .with(&hostile)
        .set("tasks.ttl-default", "5s")
        .with(&[guests::fixture("chances")])
        .manifest("chances", "[task]\ndurability = \"resume\"\n")
        .manifest("probe", "[tools.echo]\ntask-support = \"optional\"\n");
    let principals = (0..CLIENTS + HOLDERS).map(|number| stanza(&name(number), &[]));
    setup = setup.config(&principals.collect::<String>());
    install_bytes(setup.plugins(), "spins.wasm", &guests::hostile_resources(1));
    setup = setup
        .manifest("spins", "[limits]\ncpu = \"200ms\"\n")
        .with(&[guests::fixture("hostile_schemas"), guests::fixture("library")])
        .manifest("hostile_schemas", "[limits]\ncpu = \"150ms\"\nwall = \"5s\"\n");
    for (name, _) in HOSTILE {
        setup = setup.manifest(name, &MANIFEST.replace("\"h\"", &format!("\"{name}\"")));
    }
    let host = setup.start().await;
    let mut dice = Dice(seed);
    let mut report = Report { seed, samples: Vec::new(), echoes: Vec::new() };
    let (took, takes) = channel();
    let began = Instant::now();
    let mut calls = 0;
    for round in 0.. {
        let enough = match length {
            Length::Rounds(rounds) => round >= rounds + WARM_UP,
            Length::Time(time) => round >= WARM_UP + 6 && began.elapsed() >= time,
        };
        if enough {
            break;
        }
        let port = host.port();
        let (over, until) = watch::channel(());
        let holders = (CLIENTS..CLIENTS + HOLDERS).map(|who| tokio::spawn(holder(port, who, until.clone())));
        let holders: Vec<_> = holders.collect();
        let clients = (0..CLIENTS).map(|number| (number, Dice(dice.below(u64::MAX))));
        let clients: Vec<_> =
            clients.map(|(number, dice)| tokio::spawn(client(port, number, dice, took.clone()))).collect();
        reload(&host, &mut dice).await;
        for client in clients {
            calls += client.await.expect("a client is served");
        }
        drop(over);
        for holder in holders {
            holder.await.expect("a holder is served");
        }
        tokio::time::sleep(REST).await;
        if round >= WARM_UP {
            let sample = Sample { at: began.elapsed(), calls, usage: host.usage() };
            seen(&sample);
            report.samples.push(sample);
        }
    }
    report.echoes = takes.try_iter().collect();
    report.echoes.sort_unstable();
    report
}

/// The name of a principal.
fn name(number: u64) -> String {
    format!("p{number}")
}

/// Makes the host hold things for one principal until the end of the round: unread answers, waiting requests without a
/// connection, sleeping tasks, or open questions.
async fn holder(port: u16, number: u64, mut until: watch::Receiver<()>) {
    let (capabilities, token) = (json!({"elicitation": {}}), token(&name(number)));
    let session = Session::open_by(port, LATEST, capabilities, Some(&token)).await.session;
    let (tool, arguments) = match number % 4 {
        0 => ("echo", json!({"text": "x".repeat(1 << 20)})),
        1 => ("wait", json!({"ms": 60_000})),
        2 => ("chances", json!({"rounds": 1, "hostSleep": 60_000})),
        _ => ("chances", json!({"rounds": 1, "ask": true})),
    };
    let (mut tasks, mut unread) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let created =
            session.request("tools/call", json!({"name": tool, "arguments": arguments, "task": {}})).await;
        let Some(id) = created["result"]["task"]["taskId"].as_str() else { continue };
        if number % 4 < 2 {
            unread.push(session.send_unread("tasks/result", json!({"taskId": id})).await);
        }
        tasks.push(id.to_owned());
    }
    if number % 4 == 1 {
        unread.clear();
    }
    // Ends with the sender.
    let _ = until.changed().await;
    drop(unread);
    for id in tasks {
        session.request("tasks/cancel", json!({"taskId": id})).await;
    }
    session.delete().await;
}

/// One client's part in a round: its own session, closed at the end. Returns the number of its calls.
async fn client(port: u16, number: u64, mut dice: Dice, took: Sender<Duration>) -> u64 {
    let session = Session::open_with(port, &token(&name(number))).await;
    for step in 0..STEPS {
        match dice.below(10) {
            0 => {
                let (text, began) = (format!("step {step}"), Instant::now());
                assert_eq!(session.call("echo", json!({"text": text})).await["content"][0]["text"], text);
                // The report is there as long as clients are.
                let _ = took.send(began.elapsed());
            }
            1 => {
                let params = json!({"program": ".a | add", "input": {"a": [step, 1]}});
                let result = session.call("jq", params).await;
                assert_eq!(result["isError"], false, "{result}");
            }
            2 => {
                let id = session.create("wait", json!({"ms": dice.below(30)})).await;
                let result = session.result("tasks/result", json!({"taskId": id})).await;
                assert_eq!(result["isError"], false, "{result}");
            }
            3 => {
                let id = session.create("spin", json!({"ms": 60_000})).await;
                tokio::time::sleep(Duration::from_millis(dice.below(10))).await;
                let task = session.result("tasks/cancel", json!({"taskId": id})).await;
                assert_eq!(task["status"], "cancelled", "{task}");
            }
            4 | 5 => {
                let tool = hostile(&mut dice);
                // Any answer will do.
                let answer = session.request("tools/call", json!({"name": tool, "arguments": {}})).await;
                assert!(answer["result"].is_object() || answer["error"].is_object(), "{tool}: {answer}");
            }
            6 => attack(&session, dice.below(ATTACKS)).await,
            _ => {
                let tool = hostile(&mut dice);
                let params = json!({"name": tool, "arguments": {}, "task": {}});
                let created = session.request("tools/call", params).await;
                let Some(id) = created["result"]["task"]["taskId"].as_str() else { continue };
                if dice.below(2) == 0 {
                    // The task may have ended by then.
                    session.request("tasks/cancel", json!({"taskId": id})).await;
                }
                ended(&session, id).await;
            }
        }
    }
    session.delete().await;
    u64::from(STEPS)
}

async fn attack(session: &Session, attack: u64) {
    let product = || json!({"name": "product", "arguments": {"a": vec![3_999; 200_000]}});
    match attack {
        // Nested conditions.
        0 => {
            let nested = (0..14).fold(json!(7), |inner, _| json!({"op": "and", "args": [inner]}));
            let result = session.call("select", json!({"condition": nested})).await;
            assert_eq!(result["isError"], true, "{result}");
        }
        // Schemas times items.
        1 => {
            let answer = session.request("tools/call", product()).await;
            assert_eq!(answer["result"]["isError"], true, "{answer}");
        }
        // Hanging up on a long check.
        2 => {
            let call = json!({"jsonrpc": "2.0", "id": "h", "method": "tools/call", "params": product()});
            drop(tokio::time::timeout(Duration::from_millis(20), session.post(&call)).await);
        }
        // Lists that spin.
        3 => {
            let page = session.result("resources/list", json!({})).await;
            assert!(page["resources"].is_array(), "{page}");
        }
        // Answers that are not fetched.
        4 => {
            let echo = json!({"name": "echo", "arguments": {"text": "x".repeat(1 << 20)}});
            let call = json!({"jsonrpc": "2.0", "id": "e", "method": "tools/call", "params": echo});
            drop(tokio::time::timeout(Duration::from_millis(50), session.post(&call)).await);
        }
        // Capabilities without end.
        _ => {
            let message = initialize(LATEST, json!({"experimental": {"x": "x".repeat(1 << 20)}}));
            let answer = session.post(&message).await.json().await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
    }
}

fn hostile(dice: &mut Dice) -> String {
    let (plugin, tools) = dice.pick(&HOSTILE);
    let tools: Vec<&str> = tools.split(' ').collect();
    format!("{plugin}_{}", dice.pick(&tools))
}

async fn ended(session: &Session, id: &str) {
    until("a hostile task to end", || async {
        let task = session.request("tasks/get", json!({"taskId": id})).await;
        // A task whose ttl has passed no longer exists.
        let status = task["result"]["status"].as_str().unwrap_or("gone").to_owned();
        !matches!(status.as_str(), "working" | "input_required")
    })
    .await;
}

/// Reinstalls a plugin, adds one, or removes one.
async fn reload(host: &Host, dice: &mut Dice) {
    match dice.below(4) {
        0 => install(&guests::plugin("jq"), &host.plugins()),
        1 => {
            let version = dice.pick(&["versioned_v1", "versioned_v2"]);
            install_as(&guests::fixture(version), &host.plugins(), "versioned.wasm");
        }
        2 => {
            // The file may not exist.
            let _ = std::fs::remove_file(host.plugins().join("versioned.wasm"));
        }
        _ => {
            let (name, _) = dice.pick(&HOSTILE);
            install(&guests::fixture(name), &host.plugins());
        }
    }
}

impl Report {
    /// A sentence for each resource that has grown, by more than chance, from the second third of the samples
    /// to the last. In the first third, pools and caches fill.
    pub fn growth(&self) -> Vec<String> {
        let things: [(&str, Figure, u64, u64); 4] = [
            ("resident KiB", |usage| usage.resident >> 10, 10, 48 << 10),
            ("descriptors", |usage| usage.descriptors, 0, 6),
            ("mappings", |usage| usage.mappings, 10, 150),
            ("threads", |usage| usage.threads, 0, 8),
        ];
        let third = self.samples.len() / 3;
        let (second, last) = (&self.samples[third..2 * third], &self.samples[self.samples.len() - third..]);
        let grown = things.into_iter().filter_map(|(name, figure, hundredths, slack)| {
            let (before, after) = (median(second, figure), median(last, figure));
            let most = before + before * hundredths / 100 + slack;
            (after > most)
                .then(|| format!("{name}: {before} in the middle, {after} at the end; {most} are the most"))
        });
        grown.collect()
    }

    /// A table, and the resources that have grown.
    pub fn text(&self) -> String {
        let mut out = format!("# Soak\n\nSeed {}.\n\n", self.seed);
        out.push_str("| seconds | calls | resident MiB | descriptors | mappings | threads |\n");
        out.push_str("| ---: | ---: | ---: | ---: | ---: | ---: |\n");
        // Thirty lines show as much as a thousand.
        for sample in self.samples.iter().step_by(self.samples.len().div_ceil(30).max(1)) {
            let Sample { at, calls, usage: Usage { resident, descriptors, mappings, threads, .. } } = sample;
            let (seconds, resident) = (at.as_secs(), resident >> 20);
            out +=
                &format!("| {seconds} | {calls} | {resident} | {descriptors} | {mappings} | {threads} |\n");
        }
        let at = |hundredths: usize| {
            self.echoes.get(self.echoes.len() * hundredths / 100).copied().unwrap_or_default()
        };
        let (count, median, slow) = (self.echoes.len(), at(50), at(99));
        // Writing to a String does not fail.
        out += &format!("\n{count} calls of `echo` took {median:.1?} (median) and {slow:.1?} (99 of 100).\n");
        match self.growth() {
            growth if growth.is_empty() => out += "\nNothing has grown.\n",
            growth => out += &format!("\nIt has grown:\n- {}\n", growth.join("\n- ")),
        }
        out
    }
}

type Figure = fn(&Usage) -> u64;

fn median(samples: &[Sample], figure: Figure) -> u64 {
    let mut figures: Vec<u64> = samples.iter().map(|sample| figure(&sample.usage)).collect();
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(resident_kib: impl IntoIterator<Item = u64>) -> Report {
        let sample = |resident_kib| {
            let resident = resident_kib << 10;
            let usage =
                Usage { resident, peak: resident, threads: 12, descriptors: 30, mappings: 500, ticks: 0 };
            Sample { at: Duration::ZERO, calls: 0, usage }
        };
        Report { seed: 1, samples: resident_kib.into_iter().map(sample).collect(), echoes: Vec::new() }
    }

    #[test]
    fn growth_is_told_from_chance() {
        assert!(report([200_000, 230_000, 210_000, 190_000, 240_000, 220_000]).growth().is_empty());
        let growth = report((0..12).map(|n| 200_000 + n * 30_000)).growth();
        assert!(growth.len() == 1 && growth[0].starts_with("resident KiB"), "{growth:?}");
    }
}
