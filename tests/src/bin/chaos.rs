//! `make chaos`: kills a host under load CHAOS_KILLS times (1,000), and cancels tasks as they finish
//! CHAOS_RACES times (100,000). It then does both with hosts that share a PostgreSQL: disasters of every kind
//! for CHAOS_MINUTES (30), and as many races between two hosts. Writes the report to `target/chaos/`, and
//! fails if a promise was broken.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use toolyard_tests::chaos::{Report, chaos, cluster};
use toolyard_tests::races::{self, races, races_between_hosts};

fn main() -> std::io::Result<ExitCode> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("CHAOS_KILLS").unwrap_or(1_000);
    let minutes = number("CHAOS_MINUTES").unwrap_or(30);
    let seed = number("CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let number = number("CHAOS_RACES").unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut told = Told::default();
    let kills = u32::try_from(kills).expect("not that many");
    if kills > 0 {
        say(&format!("{kills} kills, seed {seed}\n"));
        told.chaos(&runtime.block_on(chaos(kills, seed, |line| say(&format!("{line}\n")))));
    }
    if number > 0 {
        say(&format!("\n{number} races\n"));
        told.races(&runtime.block_on(races(number, seed)));
    }
    if minutes > 0 {
        say(&format!("\n{minutes} minutes of disasters, seed {seed}\n"));
        let time = Duration::from_secs(60 * minutes);
        match runtime.block_on(cluster::disasters(time, seed, |line| say(&format!("{line}\n")))) {
            Some(report) => told.chaos(&report),
            None => told.missing.push("PostgreSQL (tests/postgres/install.sh)"),
        }
    }
    if number > 0 {
        say(&format!("\n{number} races between two hosts\n"));
        match runtime.block_on(races_between_hosts(number, seed)) {
            Some(report) => told.races(&report),
            None => told.missing.push("PostgreSQL (tests/postgres/install.sh)"),
        }
    }
    let folder = Path::new("target/chaos");
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("report.md"), told.texts.join("\n"))?;
    told.missing.iter().for_each(|what| say(&format!("there were no {what}\n")));
    Ok(if told.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The report texts of all parts.
#[derive(Default)]
struct Told {
    texts: Vec<String>,
    missing: Vec<&'static str>,
}

impl Told {
    fn chaos(&mut self, report: &Report) {
        self.keep(report.text());
        self.missing.extend(report.missing());
    }

    fn races(&mut self, report: &races::Report) {
        self.keep(report.text());
        self.missing.extend((!report.is_mixed()).then_some("races of both orders"));
    }

    fn keep(&mut self, text: String) {
        say(&text);
        self.texts.push(text);
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed output is no reason to stop.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
