//! A short chaos run; `make chaos` is the long one.

#![allow(clippy::print_stdout, reason = "what was seen is the report of a test")]

use std::time::Duration;
use toolyard_tests::chaos::chaos;
use toolyard_tests::chaos::cluster::disasters;
use toolyard_tests::nightly;
use toolyard_tests::races::{races, races_between_hosts};

/// The disasters go on for this long, and until each kind has happened.
const DISASTERS: Duration = Duration::from_secs(180);

fn seed() -> u64 {
    nightly::seed().unwrap_or(20_261_122)
}

fn number_of_races() -> u64 {
    if nightly::is_on() { 2_000 } else { 500 }
}

/// A1, A2, A3, A5. Between the kills the host is restarted, and its plugin is replaced. Both generations
/// agree about each task (26B-1, 26B-8, 26B-9).
#[tokio::test]
async fn kill_9_under_load_breaks_no_promise() {
    let kills = if nightly::is_on() { 50 } else { 10 };
    let report = chaos(kills, seed(), |line| println!("{line}")).await;
    println!("{}", report.text());
    assert_eq!(report.missing(), Vec::<&str>::new(), "a run that did not see these shows nothing");
}

/// A1 to A5 and A7, for hosts that share a database.
#[tokio::test]
#[ignore = "nightly: durability"]
async fn disasters_of_three_hosts_and_of_their_database_break_no_promise() {
    let Some(report) = disasters(DISASTERS, seed(), |line| println!("{line}")).await else { return };
    println!("{}", report.text());
    assert_eq!(report.missing(), Vec::<&str>::new(), "a run that did not see these shows nothing");
}

/// A2: the first of the two decides.
#[tokio::test]
async fn a_cancel_and_the_end_of_its_task_race_and_nothing_acknowledged_changes() {
    let report = races(number_of_races(), seed()).await;
    println!("{}", report.text());
    assert!(report.is_mixed(), "{report:?}");
}

/// The same, with the cancel on another host than the one that runs the task.
#[tokio::test]
async fn a_cancel_on_one_host_and_the_end_of_its_task_on_another_race() {
    let Some(report) = races_between_hosts(number_of_races(), seed()).await else { return };
    println!("{}", report.text());
    assert!(report.is_mixed(), "{report:?}");
}
