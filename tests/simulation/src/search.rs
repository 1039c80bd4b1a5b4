//! Runs many seeds on all processors, or one seed again. Reports the seeds that break a promise.

use crate::Course;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every seed divisible by this is run twice.
const TWICE: u64 = 50;
/// The search stops after this many failing seeds.
pub const ENOUGH: usize = 20;

/// The findings of a search.
#[derive(Default)]
pub struct Found<T> {
    /// The counts of all events.
    pub tally: T,
    /// The seeds that break a promise, in order, with the promise.
    pub broken: Vec<(u64, String)>,
    /// The seeds that are not the same twice.
    pub unlike: Vec<u64>,
}

/// The number in this environment variable, if it is set.
///
/// # Panics
/// If it is not a number.
#[must_use]
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

/// Prints the trace of this seed.
///
/// # Panics
/// If it breaks a promise.
pub fn replay<T>(seed: u64, run: impl Fn(u64, bool) -> Course<T>) {
    let Course { broken, lines, .. } = run(seed, true);
    for line in &lines {
        println!("{line}");
    }
    assert_eq!(broken, None, "seed {seed}");
}

/// Runs the seeds below `seeds` on so many threads. `run` gets a seed and whether to keep its trace; `add` adds
/// the counts of one seed to those of all.
///
/// # Panics
/// If a run panics.
pub fn search<T: Default + Send>(
    seeds: u64,
    threads: usize,
    run: impl Fn(u64, bool) -> Course<T> + Sync,
    add: impl Fn(&mut T, T) + Sync,
) -> Found<T> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(Found::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            let course = run(seed, false);
            let unlike = seed.is_multiple_of(TWICE) && run(seed, false).hash != course.hash;
            let mut found = found.lock().expect("no thread panics here");
            add(&mut found.tally, course.tally);
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
