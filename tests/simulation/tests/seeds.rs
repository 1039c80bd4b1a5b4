//! Checks the promises of tasks over thousands of seeds. `SEED` replays one seed and prints its trace;
//! otherwise `SIMULATE_SEEDS` is the number of seeds.

use toolyard_simulation::search::check;
use toolyard_simulation::simulate;

/// The default number of seeds.
const SEEDS: u64 = 1_500;

/// Seeds that broke a promise once: a flush before the past of a journal was read; an effect after the store's clock had
/// gone past a lease.
const FIXED: [u64; 2] = [5_000_321, 7_007_415];

/// The events that must happen, so that a run in which nothing happened does not pass for one in which nothing
/// went wrong.
const EVENTS: &str = "crashes, pauses, steps of clocks, refused zombies, replayed answers, expiries, \
    store faults before the write, store faults after the write, slow store calls, hand-overs, \
    acknowledged cancels, re-runs, orphans ended, acknowledged creations, promotions, results, answers, \
    second answers, rounds, errors told to clients, listings, lost leases, parks, wakes, resumed runs, \
    answers to parked tasks, effects in doubt, effects repeated in doubt, hand-overs of state, \
    restarts of journals, journals given up, refused appends";

#[test]
fn whatever_happens_in_whatever_order_the_promises_hold() {
    check(SEEDS, &FIXED, &EVENTS.split(", ").collect::<Vec<_>>(), &[], simulate);
}
