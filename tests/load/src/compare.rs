//! Compares this host with another build of it. They take turns of a second, so that other load on the
//! machine affects both. The figure is the median of the ratios of neighbouring turns.

use crate::Effort;
use crate::calls::{self, Caller};
use crate::load::{Client as _, Measured, drive};
use crate::peers::Mode;
use crate::report::Section;
use crate::server::{Server, folder};
use crate::stats::{median, shown};
use crate::tasks;
use crate::wire::Template;
use anyhow::Context as _;
use serde_json::json;
use std::path::Path;
use toolyard_tests::guests;
use toolyard_tests::session::Session;

/// The calls that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `tools/call` of 2025-11-25.
    Session,
    /// `tools/call` of 2026-07-28.
    Stateless,
    /// A task, from its creation to its result.
    Task,
}

/// The part of an answer that proves that the tool ran.
const EXPECTED: &[u8] = b"\"text\":\"42\"";

const ROWS: [(Kind, usize, &str); 5] = [
    (Kind::Session, 2, "a call, a session"),
    (Kind::Stateless, 2, "a call, no session"),
    (Kind::Session, 64, "a call, a session"),
    (Kind::Stateless, 64, "a call, no session"),
    (Kind::Task, 16, "a task"),
];

/// Measures `pairs` turns of the host and of `base`.
pub async fn measure(base: &Path, pairs: usize, work: &Path) -> anyhow::Result<Section> {
    let add = || [guests::fixture("add")];
    let before = Server::toolyard_of(base, &folder(work, "before", &add())?).await?;
    let after = Server::toolyard(&folder(work, "after", &add())?).await?;
    let mut section = Section::new(
        "This host beside another",
        "Turns of a second, one after the other; the order changes with each pair. Medians; a ratio is the median of the \
         ratios of the pairs, and below 1 where this host takes less. Beside it the range that holds the true median in 19 \
         of 20 cases.",
        "what | connections | CPU µs before | now | ratio | range | per s before | now | ratio",
    );
    for (kind, connections, name) in ROWS {
        let mut measured = Vec::new();
        for pair in 0..pairs {
            let pair = if pair % 2 == 0 {
                let first = turn(&before, kind, connections).await?;
                (first, turn(&after, kind, connections).await?)
            } else {
                let first = turn(&after, kind, connections).await?;
                (turn(&before, kind, connections).await?, first)
            };
            measured.push(pair);
        }
        let of = |figure: fn(&Measured) -> f64| {
            let figures = measured.iter().map(|(before, after)| (figure(before), figure(after)));
            let (before, after): (Vec<_>, Vec<_>) = figures.unzip();
            let mut ratios: Vec<_> = before.iter().zip(&after).map(|(old, new)| new / old).collect();
            ratios.sort_by(f64::total_cmp);
            (median(before), median(after), ratios)
        };
        let (cpu_before, cpu_after, cpu) = of(|measured| measured.cpu_us);
        let (rate_before, rate_after, rates) = of(|measured| measured.per_second);
        let (from, to) = interval(pairs);
        section.row(vec![
            name.to_owned(),
            connections.to_string(),
            shown(cpu_before),
            shown(cpu_after),
            format!("{:.3}", median(cpu.iter().copied())),
            format!("{:.3} to {:.3}", cpu[from], cpu[to]),
            shown(rate_before),
            shown(rate_after),
            format!("{:.3}", median(rates)),
        ]);
    }
    before.stop().await?;
    after.stop().await?;
    Ok(section)
}

async fn turn(server: &Server, kind: Kind, connections: usize) -> anyhow::Result<Measured> {
    let port = server.port();
    if kind == Kind::Task {
        let session = Session::open(port).await;
        let creators = tasks::creators(port, &session, connections).await?;
        return drive(server, creators, Effort::BRIEF).await;
    }
    let template = template(port, kind).await;
    drive(server, Caller::some(port, &template, EXPECTED, connections).await?, Effort::BRIEF).await
}

async fn template(port: u16, kind: Kind) -> Template {
    let arguments = json!({"name": "add", "arguments": {"a": 19, "b": 23}});
    match kind {
        Kind::Stateless => calls::stateless(arguments),
        Kind::Session | Kind::Task => calls::template(port, Mode::Session, "tools/call", &arguments).await,
    }
}

/// Counts the instructions of a plain call in the processes of the host and of `base`, without those of the
/// kernel. Their counts vary by a few per mille from run to run, while times vary by many per cent.
pub async fn count_instructions(base: &Path, work: &Path) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "Instructions of a plain call",
        "One connection; valgrind counts all that the process does, without the kernel. A ratio below 1 is where this host \
         takes less.",
        "what | before | now | ratio",
    );
    for (kind, _, name) in &ROWS[..2] {
        let before = instructions_of_a_call(base, *kind, &work.join("counted-before")).await?;
        let now = instructions_of_a_call(&guests::binary(), *kind, &work.join("counted-now")).await?;
        let ratio = now / before;
        section.row(vec![(*name).to_owned(), shown(before), shown(now), format!("{ratio:.3}")]);
    }
    Ok(section)
}

/// Runs the process twice with different numbers of calls, to separate the calls from the start and the end
/// of the process.
async fn instructions_of_a_call(binary: &Path, kind: Kind, work: &Path) -> anyhow::Result<f64> {
    const FEW: u32 = 500;
    const MANY: u32 = 3_500;
    let few = instructions(binary, kind, FEW, work).await?;
    let many = instructions(binary, kind, MANY, work).await?;
    Ok((many - few) / f64::from(MANY - FEW))
}

async fn instructions(binary: &Path, kind: Kind, calls: u32, work: &Path) -> anyhow::Result<f64> {
    let folder = folder(work, &format!("{kind:?}-{calls}"), &[guests::fixture("add")])?;
    let server = Server::toolyard_counted(binary, &folder).await?;
    let template = template(server.port(), kind).await;
    let mut caller = Caller::new(server.port(), template, EXPECTED).await?;
    for _ in 0..calls {
        caller.once().await?;
    }
    drop(caller);
    server.stop().await?;
    let log = std::fs::read_to_string(folder.join("log"))?;
    // The host ends after its children.
    let counted = log.lines().filter_map(|line| line.split_once("Collected : ")).next_back();
    let counted = counted.with_context(|| format!("callgrind did not say how many instructions:\n{log}"))?;
    Ok(counted.1.trim().parse()?)
}

/// The indices of the sorted figures that enclose the median with 95 % confidence, by the normal
/// approximation of the binomial distribution.
fn interval(count: usize) -> (usize, usize) {
    let half = (count as f64).sqrt() * 0.98;
    let from = (count as f64 / 2.0 - half).floor().max(0.0) as usize;
    (from, count - 1 - from)
}
