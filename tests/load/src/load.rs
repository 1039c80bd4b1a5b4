//! Load on a server, in the closed loop: each client repeats its request as soon as it has the answer, which
//! shows the server's capacity.

use crate::Effort;
use crate::server::Server;
use crate::stats::{Latencies, median, shown};
use anyhow::Context as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// One client.
pub trait Client: Send + 'static {
    /// Does the measured work once. Returns the time to the first answer, if there are several.
    fn once(&mut self) -> impl Future<Output = anyhow::Result<Duration>> + Send;
}

/// The result of a measurement.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The number of repetitions per second.
    pub per_second: f64,
    /// The time to the first answer.
    pub first: Latencies,
    /// The whole time.
    pub whole: Latencies,
    /// The server's processor time per repetition (microseconds).
    pub cpu_us: f64,
}

/// A figure of a measurement.
pub type Figure = fn(&Measured) -> f64;

/// The figures of calls: how many a second, the median and the 99th percentile in milliseconds, and the server's
/// processor time for each in microseconds.
pub const CALLS: [Figure; 4] = [
    |measured| measured.per_second,
    |measured| measured.whole.ms(0.5),
    |measured| measured.whole.ms(0.99),
    |measured| measured.cpu_us,
];

/// A row of a table: these cells, and the median of each figure over the rounds.
pub fn row<'a, const CELLS: usize>(
    cells: [String; CELLS],
    rounds: impl Iterator<Item = &'a Measured> + Clone,
    figures: &[Figure],
) -> Vec<String> {
    let medians = figures.iter().map(|figure| shown(median(rounds.clone().map(figure))));
    cells.into_iter().chain(medians).collect()
}

/// Runs the clients against the server. A wrong answer ends the measurement.
pub async fn drive<C: Client>(server: &Server, clients: Vec<C>, effort: Effort) -> anyhow::Result<Measured> {
    let count = Arc::new(AtomicU64::new(0));
    let from = Instant::now() + effort.warm_up;
    let until = from + effort.measure;
    let mut running = JoinSet::new();
    for client in clients {
        running.spawn(repeat(client, from, until, count.clone()));
    }
    let look = || anyhow::Ok((Instant::now(), count.load(Ordering::Relaxed), server.cpu()?.own));
    tokio::time::sleep_until(from.into()).await;
    let (began, before, cpu_before) = look()?;
    tokio::time::sleep_until(until.into()).await;
    let (ended, after, cpu_after) = look()?;
    let (mut first, mut whole) = (Latencies::new(), Latencies::new());
    while let Some(done) = running.join_next().await {
        let (more_first, more_whole) = done?.with_context(|| server.last_words())?;
        first.add(&more_first);
        whole.add(&more_whole);
    }
    let done = (after - before) as f64;
    anyhow::ensure!(done > 0.0, "nothing was done in {:?}", effort.measure);
    Ok(Measured {
        per_second: done / (ended - began).as_secs_f64(),
        first,
        whole,
        cpu_us: cpu_after.saturating_sub(cpu_before).as_secs_f64() * 1e6 / done,
    })
}

async fn repeat<C: Client>(
    mut client: C,
    from: Instant,
    until: Instant,
    count: Arc<AtomicU64>,
) -> anyhow::Result<(Latencies, Latencies)> {
    let (mut first, mut whole) = (Latencies::new(), Latencies::new());
    loop {
        let began = Instant::now();
        if began >= until {
            return Ok((first, whole));
        }
        let to_first = client.once().await?;
        let took = began.elapsed();
        count.fetch_add(1, Ordering::Relaxed);
        if began >= from {
            first.record(to_first);
            whole.record(took);
        }
    }
}
