//! The delays of the machine itself. A virtual processor pauses now and then for others on the same physical
//! processor. A request that comes due meanwhile waits, whichever server it is for. Here a thread on each
//! core only reads the clock, which gives the latencies of an otherwise idle server that needs no time.

use crate::load::GRID;
use crate::stats::Latencies;
use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::{Duration, Instant};

/// Measures for `time` on all cores that this process may use: at each time of the grid a request is due, and
/// is done at the next read of the clock.
pub async fn look(time: Duration) -> anyhow::Result<Latencies> {
    let cores = sched_getaffinity(None)?;
    let threads = (0..CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)).map(|core| {
        std::thread::Builder::new().name(format!("clock-{core}")).spawn(move || {
            let mut only = CpuSet::new();
            only.set(core);
            sched_setaffinity(None, &only).map(|()| look_here(time))
        })
    });
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    tokio::task::spawn_blocking(move || {
        let mut all = Latencies::new();
        for thread in threads {
            all.add(&thread.join().ok().context("a thread that looked at the clock panicked")??);
        }
        Ok(all)
    })
    .await?
}

fn look_here(time: Duration) -> Latencies {
    let mut latencies = Latencies::new();
    let mut due = Instant::now();
    let until = due + time;
    while due < until {
        let now = Instant::now();
        while due <= now {
            latencies.record(now - due);
            due += GRID;
        }
    }
    latencies
}
