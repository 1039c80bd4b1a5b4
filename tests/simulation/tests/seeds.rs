//! Checks the promises of tasks over thousands of seeds. `SEED` replays one seed and prints its trace;
//! otherwise `SIMULATE_SEEDS` is the number of seeds.

use std::time::Instant;
use toolyard_simulation::search::{ENOUGH, replay, search, setting};
use toolyard_simulation::simulate;

/// The default number of seeds.
const SEEDS: u64 = 10_000;
/// The number of trace lines to show for a seed that breaks a promise.
const LINES: usize = 60;
/// The number of failing seeds to show.
const SHOWN: usize = 3;

#[test]
fn whatever_happens_in_whatever_order_the_promises_hold() {
    if let Some(seed) = setting("SEED") {
        return replay(seed, simulate);
    }
    let seeds = setting("SIMULATE_SEEDS").unwrap_or(SEEDS);
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found = search(seeds, threads, simulate, |tally, counts| *tally += &counts);
    println!("{seeds} seeds in {:.1?} on {threads} threads, with", began.elapsed());
    print!("{}", found.tally);
    for (seed, promise) in found.broken.iter().take(SHOWN) {
        println!("\nseed {seed} breaks a promise: {promise}\nonce more:  SEED={seed} make simulate");
        let lines = simulate(*seed, true).lines;
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            println!("{line}");
        }
    }
    assert_eq!(
        found.broken.len(),
        0,
        "so many of {seeds} seeds break a promise ({ENOUGH} are enough), the first {:?}",
        found.broken.first()
    );
    assert_eq!(found.unlike, [0; 0], "these seeds are not the same twice");
    // If some event never happens, the run proves nothing about it.
    if seeds >= SEEDS {
        assert_eq!(found.tally.missing(), [""; 0], "these never happened");
    }
}
