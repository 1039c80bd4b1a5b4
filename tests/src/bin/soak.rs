//! `make soak`: random hostile and honest calls for SOAK_MINUTES (20), with a report in `target/soak/`; fails
//! if a resource use has grown.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use toolyard_tests::soak::{Length, Sample, soak};

fn main() -> std::io::Result<ExitCode> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(60 * number("SOAK_MINUTES").unwrap_or(20));
    let seed = number("SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let say = |text: &str| {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    say(&format!("soaking for {} minutes, seed {seed}\n", time.as_secs() / 60))?;
    let mut rounds = 0;
    let report = runtime.block_on(soak(Length::Time(time), seed, |sample: &Sample| {
        rounds += 1;
        if rounds % 10 == 0 {
            // A closed output is no reason to stop.
            let (seconds, calls, mib) = (sample.at.as_secs(), sample.calls, sample.usage.resident >> 20);
            let _ = say(&format!("{seconds} s: {calls} calls, {mib} MiB\n"));
        }
    }));
    let folder = Path::new("target/soak");
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("report.md"), report.text())?;
    say(&report.text())?;
    Ok(if report.growth().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
