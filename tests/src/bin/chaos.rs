//! `make chaos`: kills a host under load CHAOS_KILLS times (1,000), then has tasks be
//! cancelled as they finish CHAOS_RACES times (100,000). Leaves the report in
//! `target/chaos/`; ends badly if a promise was not kept.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use toolyard_tests::chaos::chaos;
use toolyard_tests::races::races;

fn main() -> std::io::Result<ExitCode> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("CHAOS_KILLS").unwrap_or(1_000);
    let seed = number("CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let say = |text: &str| {
        let mut out = std::io::stdout().lock();
        // Nobody to tell is no reason to end.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    };
    say(&format!("{kills} kills, seed {seed}\n"));
    let kills = u32::try_from(kills).expect("not that many");
    let report = runtime.block_on(chaos(kills, seed, |line| say(&format!("{line}\n"))));
    say(&report.text());
    let number = number("CHAOS_RACES").unwrap_or(100_000);
    say(&format!("\n{number} races\n"));
    let raced = runtime.block_on(races(number, seed));
    say(&raced.text());
    let folder = Path::new("target/chaos");
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("report.md"), format!("{}\n{}", report.text(), raced.text()))?;
    let mut missing = report.missing();
    missing.extend((!raced.is_mixed()).then_some("races of both orders"));
    missing.iter().for_each(|what| say(&format!("there were no {what}\n")));
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
