//! Tasks that resume: what they cost while they wait, how fast they continue, and what they cost calls that do not
//! resume.

use crate::Effort;
use crate::calls::{Caller, template};
use crate::disk;
use crate::load::drive;
use crate::peers::{self, Mode};
use crate::report::{Aim, Section};
use crate::server::{Server, folder};
use crate::stats::{Latencies, median, shown};
use crate::wire::{Template, Wire, contains, text};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use toolyard_tests::guests;
use toolyard_tests::session::{Opened, Session};
use toolyard_tests::sink::Sink;

/// The number of tasks that wait at once, and of those that did so before.
const PARKED: usize = 10_000;
const PARKED_BEFORE: usize = 2_000;
/// The number of answered questions.
const ANSWERED: usize = 200;
/// The number of readings of the clock that a run repeats.
const READINGS: u64 = 1_000_000;
/// The connections of plain calls.
const CONNECTIONS: usize = 16;
/// The most time until all waiting tasks have given up their runs.
const PATIENCE: Duration = Duration::from_secs(120);
/// The aims: the part of the rate of plain calls beside the tool, and of the tool, KiB for each waiting task, the multiple of a fresh call with a
/// commit, and the seconds of the repetition.
const AIM_BESIDE: f64 = 0.99;
const AIM_OWN: f64 = 1.0 / 1.3;
const AIM_KIB: f64 = 3.4;
const AIM_ANSWER: f64 = 2.0;
const AIM_REPLAY: f64 = 1.0;
/// The aims: commits for each request of one task and of many tasks, the bytes of the readings, and the seconds from a
/// kill until the task continues.
const AIM_ALONE: f64 = 1.1;
const AIM_TOGETHER: f64 = 0.1;
const AIM_BYTES: f64 = 10_000.0;
const AIM_CONTINUED: f64 = 1.0;

/// The requests of a task, with a hundred readings of the clock before each, and the number of tasks at once.
const REQUESTS: usize = 50;
const SENDERS: usize = 64;
/// The number of kills of a host whose task sends requests.
const KILLS: usize = 11;

const RESUME: &str = "[task]\ndurability = \"resume\"\n";
const SETTINGS: [&str; 4] = [
    "calls.running-per-principal=20000",
    "tasks.waiting-per-principal=20000",
    "rates.local=false",
    "admin.listen=127.0.0.1:0",
];
/// Series of the host's metrics.
const BYTES: &str = "toolyard_journal_bytes_total";
const COMMITS: &str = "toolyard_store_commit_operations_count";

/// The folder of a host with a tool that resumes.
fn resuming(work: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let folder = folder(work, name, &[guests::fixture("add"), guests::fixture("chances")])?;
    std::fs::write(folder.join("plugins/chances.toml"), RESUME)?;
    Ok(folder)
}

/// The same, whose tool may send requests to the sink. A request in doubt is sent again.
fn sending(work: &Path, name: &str, sink: &Sink) -> anyhow::Result<PathBuf> {
    let folder = resuming(work, name)?;
    let http = format!("[http]\nallow = [\"127.0.0.1:{}\"]\nin-doubt = \"retry\"\n", sink.port());
    std::fs::write(folder.join("plugins/chances.toml"), format!("{RESUME}{http}"))?;
    Ok(folder)
}

/// Runs the measurement.
pub async fn measure(effort: Effort, work: &Path) -> anyhow::Result<Section> {
    let (beside, own) = (beside(effort, work).await?, own(effort, work).await?);
    let parked = parked(work).await?;
    let answered = answered(work).await?;
    let written = written(work).await?;
    let continued = continued(work).await?;
    Ok(section((&beside, own), &parked, &answered, &written, &continued))
}

/// The rates and the processor times of plain calls without a tool that resumes, and beside one: medians.
struct Beside {
    per_second: [f64; 2],
    cpu_us: [f64; 2],
}

async fn beside(effort: Effort, work: &Path) -> anyhow::Result<Beside> {
    let alone = folder(work, "alone", &[guests::fixture("add")])?;
    let with = resuming(work, "beside")?;
    let params = json!({"name": "add", "arguments": {"a": 19, "b": 23}});
    plain_calls(effort, [&alone, &with], &params, b"\"text\":\"42\"").await
}

/// The rate of a tool's own plain calls if its tasks resume, as a part of that if they do not: calls that meet nothing
/// from outside, and calls that read the clock 200 times.
async fn own(effort: Effort, work: &Path) -> anyhow::Result<[f64; 2]> {
    let (without, with) = (folder(work, "without", &[guests::fixture("chances")])?, resuming(work, "own")?);
    let mut parts = [0.0; 2];
    for (part, rounds) in parts.iter_mut().zip([0, 1]) {
        let params = json!({"name": "chances", "arguments": {"rounds": rounds, "readings": 200}});
        let rates = plain_calls(effort, [&without, &with], &params, b"\"text\":\"[").await?.per_second;
        *part = rates[1] / rates[0];
    }
    Ok(parts)
}

/// Plain calls at two hosts in turns.
async fn plain_calls(
    effort: Effort,
    folders: [&Path; 2],
    params: &Value,
    expected: &'static [u8],
) -> anyhow::Result<Beside> {
    let (alone, with) = (Server::toolyard(folders[0]).await?, Server::toolyard(folders[1]).await?);
    let mut rates = [Vec::new(), Vec::new()];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..effort.rounds * 3 {
        for (number, server) in [&alone, &with].into_iter().enumerate() {
            let headers = peers::headers(server.port(), Mode::Session).await?;
            let template = template(&headers, "tools/call", params);
            let callers = Caller::some(server.port(), &template, expected, CONNECTIONS).await?;
            let measured = drive(server, callers, effort).await?;
            rates[number].push(measured.per_second);
            times[number].push(measured.cpu_us());
        }
    }
    alone.stop().await?;
    with.stop().await?;
    Ok(Beside { per_second: rates.map(median), cpu_us: times.map(median) })
}

/// Tasks that sleep for a day.
struct Parked {
    seconds: f64,
    kib_each: f64,
    mappings: u64,
}

async fn parked(work: &Path) -> anyhow::Result<Parked> {
    let server = Server::toolyard_with(&resuming(work, "parked")?, &SETTINGS).await?;
    let session = Session::open(server.port()).await;
    let order = r#"{"name":"chances","arguments":{"rounds":1,"hostSleep":86400000},"task":{"ttl":3600000}}"#;
    let mut create = Template::new(&session.headers(), "tools/call", order).for_connection(0);
    let mut wire = Wire::open(server.port()).await?;
    let mut park = async |count: usize| {
        for _ in 0..count {
            let body = wire.ask(&mut create).await.with_context(|| server.last_words())?;
            anyhow::ensure!(contains(body, b"\"taskId\""), "no task: {}", text(body));
        }
        until_idle(&server).await
    };
    // The allocator keeps some of the memory of runs that have ended, and the store has a cache. Neither grows with
    // the tasks that wait.
    park(PARKED_BEFORE).await?;
    let before = server.memory()?;
    let began = Instant::now();
    park(PARKED).await?;
    let after = server.memory()?;
    let seconds = began.elapsed().as_secs_f64();
    // The end is not measured, and an orderly one would handle each task.
    drop(server);
    let kib = after.anonymous_kib.saturating_sub(before.anonymous_kib)
        + after.page_tables_kib.saturating_sub(before.page_tables_kib);
    Ok(Parked {
        seconds,
        kib_each: kib as f64 / PARKED as f64,
        mappings: after.mappings.saturating_sub(before.mappings),
    })
}

/// Waits until the host has done next to nothing for a while: then the last run has ended.
async fn until_idle(server: &Server) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let before = server.cpu()?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let spent = server.cpu()?.since(before);
        if spent.user + spent.system < Duration::from_millis(150) {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < until, "the host is still busy");
    }
}

/// From an answer to the result, and what that is compared with.
struct Answered {
    answered: Latencies,
    fresh: Latencies,
    commit_ms: f64,
    replay_s: f64,
    /// The journal of the readings.
    bytes: u64,
}

async fn answered(work: &Path) -> anyhow::Result<Answered> {
    let server = Server::toolyard_with(&resuming(work, "answered")?, &SETTINGS).await?;
    let commit_ms = 1e3 / disk::measure(work, Duration::from_secs(1))?.commits;
    let capabilities = json!({"elicitation": {}});
    let Opened { session, .. } = Session::open_as(server.port(), "2025-11-25", capabilities).await;
    let mut fresh = Latencies::new();
    for _ in 0..ANSWERED {
        let began = Instant::now();
        session.call("chances", json!({"rounds": 1})).await;
        fresh.record(began.elapsed());
    }
    let mut ids = Vec::new();
    for _ in 0..ANSWERED {
        ids.push(session.create("chances", json!({"rounds": 1, "ask": true})).await);
    }
    let bytes = server.metric(BYTES).await?;
    let long = session.create("chances", json!({"rounds": 1, "readings": READINGS, "ask": true})).await;
    session.until(&long, "input_required").await;
    until_idle(&server).await?;
    let bytes = server.metric(BYTES).await? - bytes;
    let mut answered = Latencies::new();
    for id in &ids {
        answered.record(answer(&session, id).await?);
    }
    let replay_s = answer(&session, &long).await?.as_secs_f64();
    server.stop().await?;
    Ok(Answered { answered, fresh, commit_ms, replay_s, bytes })
}

/// Answers the question of a task, and returns the time from the answer to the result.
async fn answer(session: &Session, id: &str) -> anyhow::Result<Duration> {
    let mut call = session.begin("tasks/result", json!({"taskId": id})).await;
    let question = call.next_of("elicitation/create").await;
    let began = Instant::now();
    session.respond(&question, json!({"action": "accept", "content": {"n": 3}})).await;
    let (result, _): (Value, _) = call.answer().await;
    let took = began.elapsed();
    anyhow::ensure!(result["result"]["isError"] == false, "not what was expected: {result}");
    Ok(took)
}

/// The commits that are flushed to the disk, for each request of a task, and of many tasks at once.
struct Written {
    alone: f64,
    together: f64,
}

async fn written(work: &Path) -> anyhow::Result<Written> {
    let sink = Sink::start().await;
    let server = Server::toolyard_with(&sending(work, "written", &sink)?, &SETTINGS).await?;
    let session = Session::open(server.port()).await;
    let steps: Vec<_> = (0..REQUESTS).flat_map(|_| [json!({"now": 100}), json!({"post": 1})]).collect();
    let order = json!({"steps": steps, "port": sink.port()});
    let send = async |tasks: usize| {
        let before = server.metric(COMMITS).await?;
        let mut ids = Vec::new();
        for _ in 0..tasks {
            ids.push(session.create("chances", order.clone()).await);
        }
        for id in &ids {
            session.until(id, "completed").await;
        }
        let written = server.metric(COMMITS).await? - before;
        anyhow::Ok(written as f64 / (tasks * REQUESTS) as f64)
    };
    let written = Written { alone: send(1).await?, together: send(SENDERS).await? };
    server.stop().await?;
    Ok(written)
}

/// The times from a kill of the host until its task has sent the next request, in a new process.
async fn continued(work: &Path) -> anyhow::Result<Latencies> {
    let sink = Sink::start().await;
    let folder = sending(work, "continued", &sink)?;
    let mut server = Server::toolyard_with(&folder, &SETTINGS).await?;
    let session = Session::open(server.port()).await;
    session.create("chances", json!({"rounds": 1_000_000, "port": sink.port(), "key": "k"})).await;
    let sent = || sink.steps().get("k").map_or(0, Vec::len);
    let mut times = Latencies::new();
    for _ in 0..KILLS {
        let goal = sent() + 20;
        until(|| sent() >= goal).await?;
        let began = Instant::now();
        drop(server);
        // A request that had already left the host may still arrive.
        let goal = sent() + 2;
        server = Server::toolyard_with(&folder, &SETTINGS).await?;
        until(|| sent() >= goal).await?;
        times.record(began.elapsed());
    }
    Ok(times)
}

async fn until(met: impl Fn() -> bool) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    while !met() {
        anyhow::ensure!(Instant::now() < until, "the task does not continue");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

fn section(
    (beside, own): (&Beside, [f64; 2]),
    parked: &Parked,
    answered: &Answered,
    written: &Written,
    continued: &Latencies,
) -> Section {
    let mut section = Section::new(
        "Tasks that resume",
        "Plain calls of `add` with 16 connections, without a tool that resumes and beside one, in turns. The same of a \
         tool itself, without `durability = \"resume\"` and with it. 10,000 tasks that \
         sleep for a day, after 2,000 others: memory of no file and page tables beyond those before. 200 tasks whose question is answered \
         after they gave up their runs, compared with a plain call of the same tool and one commit of plain SQLite. A task \
         that read the clock a million times before its question, and repeats that after the answer. A task, and 64 at \
         once, that send 50 requests, with a hundred readings of the clock before each. A task that sends one request after \
         the other; its host is killed 11 times, and starts again at once.",
        "what | figure",
    );
    let of_rate = beside.per_second[1] / beside.per_second[0];
    let of_cpu = beside.cpu_us[1] / beside.cpu_us[0];
    let times = answered.answered.ms(0.5) / (answered.commit_ms + answered.fresh.ms(0.5));
    for (what, figure) in [
        ("plain calls per s, alone", shown(beside.per_second[0])),
        ("plain calls per s, beside, of alone", shown(of_rate)),
        ("CPU µs a plain call, alone", shown(beside.cpu_us[0])),
        ("CPU of a plain call, beside, of alone", shown(of_cpu)),
        ("its own plain calls that do nothing, rate of that without", shown(own[0])),
        ("its own plain calls with 200 readings, rate of that without", shown(own[1])),
        ("10,000 sleeping tasks: seconds until all wait without a run", shown(parked.seconds)),
        ("10,000 sleeping tasks: KiB each", shown(parked.kib_each)),
        ("10,000 sleeping tasks: further mappings", parked.mappings.to_string()),
        ("answer to result, p50 ms", shown(answered.answered.ms(0.5))),
        ("answer to result, p99 ms", shown(answered.answered.ms(0.99))),
        ("plain call of the same tool, p50 ms", shown(answered.fresh.ms(0.5))),
        ("a commit of plain SQLite, ms", shown(answered.commit_ms)),
        ("answer to result, of a plain call and a commit", shown(times)),
        ("answer to result after a million readings, s", shown(answered.replay_s)),
        ("bytes of a journal of a million readings", answered.bytes.to_string()),
        ("commits for each request, one task", shown(written.alone)),
        ("commits for each request, 64 tasks at once", shown(written.together)),
        ("kill to the next request, p50 s", shown(continued.ms(0.5) / 1e3)),
        ("kill to the next request, most s", shown(continued.max_ms() / 1e3)),
    ] {
        section.row([what.to_owned(), figure]);
    }
    let mut aim = |what: &str, aim: String, reached: f64, met: bool| {
        section.aims.push(Aim { what: what.to_owned(), aim, reached: shown(reached), met });
    };
    let least = format!("at least {AIM_BESIDE}");
    aim("plain calls beside a tool that resumes, of those alone", least, of_rate, of_rate >= AIM_BESIDE);
    let least = format!("at least {AIM_OWN:.2}");
    aim("plain calls of the tool itself, of those without", least, own[0], own[0] >= AIM_OWN);
    let most = format!("at most {AIM_KIB} KiB");
    aim("memory of a task that waits without a run", most, parked.kib_each, parked.kib_each <= AIM_KIB);
    let most = format!("at most {AIM_ANSWER}");
    aim("answer to result, of a plain call and a commit", most, times, times <= AIM_ANSWER);
    let most = format!("at most {AIM_REPLAY} s");
    let met = answered.replay_s <= AIM_REPLAY;
    aim("repetition of a million readings, with answer and result", most, answered.replay_s, met);
    let most = |aim: f64, unit: &str| format!("at most {aim}{unit}");
    let bytes = answered.bytes as f64;
    aim("journal of a million readings", most(AIM_BYTES, " bytes"), bytes, bytes <= AIM_BYTES);
    let (alone, together) = (written.alone, written.together);
    aim("commits for each request of one task", most(AIM_ALONE, ""), alone, alone <= AIM_ALONE);
    aim("commits for each request of 64 tasks", most(AIM_TOGETHER, ""), together, together <= AIM_TOGETHER);
    let half = continued.ms(0.5) / 1e3;
    aim("kill to the next request, p50", most(AIM_CONTINUED, " s"), half, half <= AIM_CONTINUED);
    section.data = json!({ "resume": {
        "beside": of_rate, "beside_cpu": of_cpu, "kib_each": parked.kib_each, "parked_s": parked.seconds,
        "answer_p50_ms": answered.answered.ms(0.5), "answer_p99_ms": answered.answered.ms(0.99),
        "fresh_p50_ms": answered.fresh.ms(0.5), "commit_ms": answered.commit_ms, "replay_s": answered.replay_s,
        "journal_bytes": answered.bytes, "commits_alone": written.alone, "commits_together": written.together,
        "continued_p50_ms": continued.ms(0.5),
    }});
    section
}
