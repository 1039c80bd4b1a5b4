//! A short soak in the nightly run; `make soak` asks for a long one.

#![allow(clippy::print_stdout, reason = "what was seen is the report of a test")]

use std::time::Duration;
use toolyard_tests::nightly::{self, asked};
use toolyard_tests::soak::{Length, Sample, soak};

#[tokio::test]
#[ignore = "nightly: durability"]
async fn hostile_and_honest_calls_with_reloads_leave_nothing_behind() {
    let seed = asked("SOAK_SEED").or_else(nightly::seed).unwrap_or(20_261_121);
    let length = asked("SOAK_MINUTES")
        .map_or(Length::Rounds(9), |minutes| Length::Time(Duration::from_secs(60 * minutes)));
    let tell = |sample: &Sample| println!("{} s: {} calls", sample.at.as_secs(), sample.calls);
    let report = soak(length, seed, tell).await;
    println!("{}", report.text());
    assert!(report.growth().is_empty(), "{}", report.text());
}
