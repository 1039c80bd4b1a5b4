//! A short soak; `make soak` is the long one.

#![allow(clippy::print_stdout, reason = "what was seen is the report of a test")]

use toolyard_tests::nightly;
use toolyard_tests::soak::{Length, soak};

#[tokio::test]
#[ignore = "nightly: durability"]
async fn hostile_and_honest_calls_with_reloads_leave_nothing_behind() {
    let seed = nightly::seed().unwrap_or(20_261_121);
    let report = soak(Length::Rounds(9), seed, |_| {}).await;
    println!("{}", report.text());
    assert!(report.growth().is_empty(), "{}", report.text());
}
