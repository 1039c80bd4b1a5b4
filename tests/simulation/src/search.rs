//! Runs many seeds on all processors, or one seed again, and checks that no seed breaks a promise.

use crate::trace::{Counts, Course};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

/// The seeds of a day begin at its number times this, so that two days have no seed in common.
const SEEDS_OF_A_DAY: u64 = 1_000_000;
/// Every seed divisible by this is run twice.
const TWICE: u64 = 50;
/// The search stops after this many failing seeds.
const ENOUGH: usize = 20;
/// The number of trace lines to show for the first seed that breaks a promise.
const LINES: usize = 80;

/// The findings of a search.
#[derive(Default)]
struct Found {
    /// The counts of all events.
    counts: Counts,
    /// The seeds that break a promise, in order, with the promise.
    broken: Vec<(u64, String)>,
    /// The seeds that are not the same twice.
    unlike: Vec<u64>,
}

/// The number in this environment variable, if it is set.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

/// The first seed of today: the days since 1970, and six zeros.
fn first_of_today() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the clock is right");
    since.as_secs() / 86_400 * SEEDS_OF_A_DAY
}

/// Checks the seeds in `fixed`, and then as many as `SIMULATE_SEEDS` says, or `seeds` if that is not set. These
/// begin at `SIMULATE_FROM`, or else at a number of their own on each day. A seed that breaks a promise joins
/// `fixed`. `SEED` replays one seed and prints its trace. `run` gets a seed and whether to keep its trace. Each
/// of `events` must happen, unless there are fewer seeds than `seeds`; only `rare` events may happen besides.
///
/// # Panics
/// If a seed breaks a promise, or is not the same twice.
pub fn check(
    seeds: u64,
    fixed: &[u64],
    events: &[&'static str],
    rare: &[&str],
    run: impl Fn(u64, bool) -> Course + Sync,
) {
    if let Some(seed) = setting("SEED") {
        let Course { broken, lines, .. } = run(seed, true);
        lines.iter().for_each(|line| println!("{line}"));
        return assert_eq!(broken, None, "seed {seed}");
    }
    let count = setting("SIMULATE_SEEDS").unwrap_or(seeds);
    let first = setting("SIMULATE_FROM").unwrap_or_else(first_of_today);
    let all: Vec<u64> = fixed.iter().copied().chain(first..first + count).collect();
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found = search(&all, threads, &run);
    let (fixed, took) = (fixed.len(), began.elapsed());
    println!("{fixed} fixed seeds and {count} from {first} in {took:.1?} on {threads} threads, with");
    let times = |event: &str| found.counts.get(event).copied().unwrap_or(0);
    for event in events.iter().chain(rare) {
        println!("{:>10} {event}", times(event));
    }
    for (seed, promise) in &found.broken {
        println!("seed {seed} breaks a promise: {promise}");
    }
    if let Some((seed, _)) = found.broken.first() {
        println!("\nonce more:  SEED={seed} make simulate; then add {seed} to the fixed seeds");
        let lines = run(*seed, true).lines;
        lines[lines.len().saturating_sub(LINES)..].iter().for_each(|line| println!("{line}"));
    }
    assert_eq!(found.broken.len(), 0, "so many seeds break a promise ({ENOUGH} are enough)");
    assert_eq!(found.unlike, [0; 0], "these seeds are not the same twice");
    // If some event never happens, the run proves nothing about it.
    let missing: Vec<_> = events.iter().filter(|event| count >= seeds && times(event) == 0).collect();
    assert_eq!(missing, [&""; 0], "these never happened");
    let unlisted: Vec<_> =
        found.counts.keys().filter(|event| !events.contains(event) && !rare.contains(event)).collect();
    assert_eq!(unlisted, [&""; 0], "these are not listed");
}

fn search(seeds: &[u64], threads: usize, run: &(impl Fn(u64, bool) -> Course + Sync)) -> Found {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Found::default()));
    let work = || {
        loop {
            let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let course = run(seed, false);
            let unlike = seed.is_multiple_of(TWICE) && run(seed, false).hash != course.hash;
            let mut found = found.lock().expect("no thread panics here");
            for (event, count) in course.counts {
                *found.counts.entry(event).or_default() += count;
            }
            found.broken.extend(course.broken.map(|promise| (seed, promise)));
            if unlike {
                found.unlike.push(seed);
            }
            if found.broken.len() >= ENOUGH {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().expect("no thread panics here");
    found.broken.sort();
    found
}
