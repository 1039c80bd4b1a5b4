//! Counts the effects of long calls over random timelines, and requires an excuse for every repeat. `SEED`
//! replays one timeline and prints its trace; otherwise `SIMULATE_SEEDS` is the number of timelines.
//!
//! The faults of the tests at the end are planted outside of the host, to show that the check finds them.

use toolyard_simulation::bridge::{EVENTS, Fault, RARE, REPEATS, simulate};
use toolyard_simulation::search::check;

/// The default number of timelines. The rarest event that must happen has come in one of 250.
const TIMELINES: u64 = 4_000;
/// Timelines that broke a promise once.
const FIXED: [u64; 0] = [];
/// The number of timelines in which a planted fault must be found.
const FOUND_WITHIN: u64 = 1_000;

#[test]
fn every_repeat_of_an_effect_has_an_excuse() {
    let events: Vec<&str> = EVENTS.split("; ").chain(REPEATS).collect();
    check(TIMELINES, &FIXED, &events, &RARE, |seed, keep| simulate(seed, Fault::None, keep));
}

/// Runs timelines until this fault breaks this promise. It may break others before.
fn finds(fault: Fault, promise: &str) {
    let breaks = |seed| simulate(seed, fault, false).broken.filter(|broken| broken.contains(promise));
    let found = (0..FOUND_WITHIN).find_map(|seed| Some((seed, breaks(seed)?)));
    let (seed, broken) = found.unwrap_or_else(|| panic!("{fault:?} does not break: {promise}"));
    println!("{fault:?} is found by seed {seed}: {broken}");
}

/// Each fault is a test of its name.
macro_rules! found {
    ($($name:ident: $fault:ident => $promise:literal),* $(,)?) => {
        $(#[test] #[ignore = "nightly: durability"] fn $name() { finds(Fault::$fault, $promise); })*
    };
}

found! {
    a_host_that_forgets_ended_tasks_is_found: NoRejoin => "should have joined",
    a_host_that_forgets_kept_tasks_at_its_end_is_found: IndexLost => "should have joined",
    a_transport_that_takes_a_lost_reply_for_written_is_found: LostIsWritten => "should have joined",
    a_host_that_runs_everything_again_is_found: AllRerun => "has its effect twice",
    a_host_that_stops_at_timeouts_is_found: TimeoutStops => "no client wants that",
}
