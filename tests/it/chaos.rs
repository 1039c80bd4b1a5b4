//! A short chaos; `make chaos` is the long one.

#![allow(clippy::print_stdout, reason = "what was seen is the report of a test")]

use toolyard_tests::chaos::chaos;
use toolyard_tests::races::races;

/// A1, A2, A3, A5.
#[tokio::test]
async fn kill_9_fifty_times_under_load_breaks_no_promise() {
    let report = chaos(50, 20_261_122, |line| println!("{line}")).await;
    println!("{}", report.text());
    assert_eq!(report.missing(), Vec::<&str>::new(), "a run that did not see these shows nothing");
}

/// A2: whoever is first has decided.
#[tokio::test]
async fn a_cancel_and_the_end_of_its_task_race_and_nothing_acknowledged_changes() {
    let report = races(2_000, 20_261_122).await;
    println!("{}", report.text());
    assert!(report.is_mixed(), "{report:?}");
}
