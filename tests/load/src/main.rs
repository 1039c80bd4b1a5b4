//! The load generator behind `make bench`: runs the real binary over real sockets and reports its speed, each
//! figure beside the speed of the machine in the same run. `host/docs/benchmarks/method.md` explains each
//! row.

mod baseline;
mod calls;
mod compare;
mod disk;
mod inside;
mod instructions;
mod load;
mod machine;
mod overload;
mod peers;
mod pipe;
mod report;
mod server;
mod shapes;
mod start;
mod stats;
mod tasks;
mod wire;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use report::{Report, Section};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// That of the host, so that its parts take as many instructions here as there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The load generator of Toolyard.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure and report.
    Run(Options),
    /// Compare the host with another build of it, in turns.
    Compare {
        /// The binary of the other build.
        base: PathBuf,
        /// The number of pairs of turns of one second each.
        #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(2..))]
        pairs: u16,
        /// The folder for the report and for the servers.
        #[arg(long, default_value = "target/bench")]
        out: PathBuf,
    },
    /// Serve the comparison: hyper without wasm, until stdin ends.
    Baseline,
    /// Repeat one piece of work, and print the time of each. Callgrind counts its instructions.
    Work {
        /// The piece of work.
        #[arg(value_enum)]
        what: instructions::Work,
        /// The number of repetitions.
        times: u32,
    },
}

#[derive(Debug, clap::Args)]
struct Options {
    /// The folder for the report and for the servers, so that those use the measured disk.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Measure longer.
    #[arg(long)]
    full: bool,
    /// Measure as briefly as possible: to check that everything runs, or for a profile.
    #[arg(long, conflicts_with = "full")]
    brief: bool,
    /// Only these scenarios.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scenario>,
}

/// The scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Plain `tools/call` over HTTP.
    Calls,
    /// Calls of other sizes and forms; the profile of calls is recorded with them.
    Shapes,
    /// Tasks, from their creation to their result.
    Tasks,
    /// A hundred thousand queued tasks.
    Overload,
    /// Starting with one plugin, a hundred and a thousand.
    Start,
    /// Plain `tools/call` over a pipe.
    Stdio,
}

/// The amount of measurement.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// The number of rounds; the median counts.
    pub rounds: usize,
    /// The duration of a round.
    pub measure: Duration,
    /// The time before the measurement.
    pub warm_up: Duration,
    /// The number of requests at fixed times.
    pub samples: usize,
    /// The number of starts with a warm cache, and with a cold one.
    pub starts: (usize, usize),
}

impl Effort {
    const BRIEF: Self = Self::of(1, (1_000, 200), 50, (1, 1));
    const QUICK: Self = Self::of(3, (3_000, 500), 500, (5, 1));
    const FULL: Self = Self::of(5, (10_000, 2_000), 2_000, (15, 3));

    /// `times` are those of a round and before it, in milliseconds.
    const fn of(rounds: usize, times: (u64, u64), samples: usize, starts: (usize, usize)) -> Self {
        let (measure, warm_up) = (Duration::from_millis(times.0), Duration::from_millis(times.1));
        Self { rounds, measure, warm_up, samples, starts }
    }
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Baseline => baseline::serve(),
        Command::Work { what, times } => {
            let start = Instant::now();
            instructions::run(what, times)?;
            let each = start.elapsed().as_nanos() / u128::from(times.max(1));
            say(&format!("{each} ns each, setup included\n"))
        }
        Command::Run(options) => block_on(run(&options)),
        Command::Compare { base, pairs, out } => block_on(compare(&base, pairs.into(), &out)),
    }
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    // The tap that checks the protocol is off: this measures the host.
    toolyard_tests::tap::stand_aside();
    // One thread: the servers get the rest of the two cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(until_stopped(work));
    // An interrupted blocking scenario ends with the process.
    runtime.shutdown_background();
    done
}

/// A folder for the servers inside that of the report, and a report with its head.
fn begin(out: &Path) -> anyhow::Result<(tempfile::TempDir, Report)> {
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let work = tempfile::Builder::new().prefix("run-").tempdir_in(out)?;
    let report = Report { machine: machine::describe(), sections: Vec::new() };
    say(&report.head())?;
    Ok((work, report))
}

async fn compare(base: &Path, pairs: usize, out: &Path) -> anyhow::Result<()> {
    let (work, mut report) = begin(out)?;
    let counted = compare::count_instructions(base, work.path()).await?;
    say(&counted.table())?;
    let measured = compare::measure(base, pairs, work.path()).await?;
    say(&measured.table())?;
    report.sections.extend([counted, measured]);
    report.write(out)
}

/// Returns an error on a signal, so that destructors stop the servers.
async fn until_stopped(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("terminated"),
        done = work => done,
    }
}

async fn run(options: &Options) -> anyhow::Result<()> {
    let effort = match options {
        Options { brief: true, .. } => Effort::BRIEF,
        Options { full: true, .. } => Effort::FULL,
        _ => Effort::QUICK,
    };
    let (work, mut report) = begin(&options.out)?;
    let wanted = if options.only.is_empty() { Scenario::value_variants() } else { &options.only };
    for scenario in wanted {
        let name = scenario.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        say(&format!("… {name}\n"))?;
        let section = measure(*scenario, effort, work.path()).await?;
        say(&section.table())?;
        report.sections.push(section);
    }
    say(&report.aims())?;
    report.write(&options.out)?;
    say(&format!("written: {}\n", options.out.join("report.md").display()))
}

async fn measure(scenario: Scenario, effort: Effort, work: &Path) -> anyhow::Result<Section> {
    match scenario {
        Scenario::Calls => calls::measure(effort, work).await,
        Scenario::Shapes => shapes::measure(effort, work).await,
        Scenario::Tasks => tasks::measure(effort, work).await,
        Scenario::Overload => overload::measure(effort, work).await,
        Scenario::Start => start::measure(effort, work).await,
        Scenario::Stdio => pipe::measure(effort).await,
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
