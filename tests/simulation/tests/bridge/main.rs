//! Counts the effects of long calls over random timelines, and requires an excuse for every repeat. `SEED`
//! replays one timeline and prints its trace; otherwise `SIMULATE_SEEDS` is the number of timelines.
//!
//! The faults of the tests at the end are planted outside of the host, to show that the check finds them.

mod clients;
mod effects;
mod stage;
mod timeline;

use effects::{CANCELLED, REPEATS};
use stage::Fault;
use std::collections::BTreeMap;
use std::time::Instant;
use timeline::{EVENTS, run};
use toolyard_simulation::search::{ENOUGH, replay, search, setting};

/// The default number of timelines.
const TIMELINES: u64 = 4_000;
/// The number of trace lines to show for a timeline that breaks a promise.
const LINES: usize = 80;
/// The number of timelines in which a planted fault must be found.
const FOUND_WITHIN: u64 = 1_000;

#[test]
fn every_repeat_of_an_effect_has_an_excuse() {
    let run_sound = |seed, keep| run(seed, Fault::None, keep);
    if let Some(seed) = setting("SEED") {
        return replay(seed, run_sound);
    }
    let seeds = setting("SIMULATE_SEEDS").unwrap_or(TIMELINES);
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found = search(seeds, threads, run_sound, |tally: &mut BTreeMap<_, _>, counts| {
        for (event, count) in counts {
            *tally.entry(event).or_default() += count;
        }
    });
    println!("{seeds} timelines in {:.1?} on {threads} threads, with", began.elapsed());
    let count = |event: &str| found.tally.get(event).copied().unwrap_or(0);
    let listed: Vec<&str> = [&EVENTS[..], &REPEATS, &[CANCELLED]].concat();
    for event in &listed {
        println!("{:>10} {event}", count(event));
    }
    for (seed, promise) in &found.broken {
        println!("seed {seed} breaks a promise: {promise}");
    }
    if let Some((seed, _)) = found.broken.first() {
        println!("\nonce more:  SEED={seed} make simulate");
        let lines = run_sound(*seed, true).lines;
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            println!("{line}");
        }
    }
    assert_eq!(found.broken.len(), 0, "so many timelines break a promise ({ENOUGH} are enough)");
    assert_eq!(found.unlike, [0; 0], "these seeds are not the same twice");
    let missing: Vec<_> = EVENTS.iter().chain(&REPEATS).filter(|event| count(event) == 0).collect();
    // If some event never happens, the run proves nothing about it.
    if seeds >= TIMELINES {
        assert_eq!(missing, [&""; 0], "these never happened");
    }
    let unlisted: Vec<_> = found.tally.keys().filter(|event| !listed.contains(event)).collect();
    assert_eq!(unlisted, [&""; 0], "these are not listed");
}

/// Runs timelines until this fault breaks a promise.
fn finds(fault: Fault, promise: &str) {
    let broken = (0..FOUND_WITHIN).find_map(|seed| Some((seed, run(seed, fault, false).broken?)));
    let (seed, broken) = broken.unwrap_or_else(|| panic!("{fault:?} is not found"));
    println!("{fault:?} is found by seed {seed}: {broken}");
    assert!(broken.contains(promise), "{fault:?} is found for another reason: {broken}");
}

#[test]
fn a_host_that_forgets_ended_tasks_is_found() {
    finds(Fault::NoRejoin, "should have joined");
}

#[test]
fn a_host_that_forgets_kept_tasks_at_its_end_is_found() {
    finds(Fault::IndexLost, "should have joined");
}

#[test]
fn a_transport_that_takes_a_lost_reply_for_written_is_found() {
    finds(Fault::LostIsWritten, "should have joined");
}

#[test]
fn a_host_that_runs_everything_again_is_found() {
    finds(Fault::AllRerun, "has its effect twice");
}

#[test]
fn a_host_that_stops_at_timeouts_is_found() {
    finds(Fault::TimeoutStops, "no client wants that");
}
