//! Two ways to put load on a server. In the closed loop, each client repeats its request as soon as it has
//! the answer; this shows the server's capacity. In the open loop, requests are due at fixed times; this
//! shows the latencies at a rate, and a stall delays all requests that come due meanwhile.

use crate::Effort;
use crate::server::Server;
use crate::stats::Latencies;
use anyhow::Context as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Requests of the open loop come due at multiples of this time, several at once if necessary. This process
/// cannot wake up more often; tokio's timers (1 ms) are too coarse.
pub const GRID: Duration = Duration::from_micros(250);

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
    /// The server's processor time per repetition in user mode (microseconds).
    pub user_us: f64,
    /// The server's processor time per repetition in the kernel (microseconds).
    pub system_us: f64,
}

impl Measured {
    /// The server's processor time per repetition (microseconds).
    pub fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }
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
    let look = || anyhow::Ok((Instant::now(), count.load(Ordering::Relaxed), server.cpu()?));
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
    let cpu = cpu_after.since(cpu_before);
    Ok(Measured {
        per_second: done / (ended - began).as_secs_f64(),
        first,
        whole,
        user_us: cpu.user.as_secs_f64() * 1e6 / done,
        system_us: cpu.system.as_secs_f64() * 1e6 / done,
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

/// Sends `per_second` requests in the open loop, by the clients in turn. Each latency counts from the time
/// when its request was due, even if its client was still waiting for another answer. Returns the clients.
pub async fn drive_open<C: Client>(
    server: &Server,
    clients: Vec<C>,
    per_second: f64,
    effort: Effort,
) -> anyhow::Result<(Measured, Vec<C>)> {
    let each = Duration::from_secs_f64(1.0 / per_second);
    let count = |time: Duration| (time.as_secs_f64() * per_second) as u32;
    let all = count(effort.warm_up + effort.measure);
    let mut running = JoinSet::new();
    let mut queues = Vec::new();
    let from = Instant::now() + effort.warm_up;
    let share = all as usize / clients.len() + 1;
    for client in clients {
        let (queue, due) = mpsc::channel(share);
        queues.push(queue);
        running.spawn(keep_up(client, due, from));
    }
    let began = from - effort.warm_up;
    // A thread, because it must wake up on time.
    let pacer = tokio::task::spawn_blocking(move || {
        for (number, queue) in (0..all).zip(queues.iter().cycle()) {
            let due = began + on_grid(each * number);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            // The queue cannot be full. It is closed after a wrong answer, whose client reports the error.
            if queue.try_send(due).is_err() {
                return;
            }
        }
    });
    tokio::time::sleep_until(from.into()).await;
    let cpu_before = server.cpu()?;
    let (mut whole, mut clients) = (Latencies::new(), Vec::new());
    while let Some(done) = running.join_next().await {
        let (client, times) = done?.with_context(|| server.last_words())?;
        for time in times {
            whole.record(time);
        }
        clients.push(client);
    }
    let (cpu, took) = (server.cpu()?.since(cpu_before), from.elapsed());
    pacer.await?;
    let done = whole.count() as f64;
    anyhow::ensure!(done > 0.0, "nothing was due in {:?}", effort.measure);
    let measured = Measured {
        per_second: done / took.as_secs_f64(),
        first: whole.clone(),
        whole,
        user_us: cpu.user.as_secs_f64() * 1e6 / done,
        system_us: cpu.system.as_secs_f64() * 1e6 / done,
    };
    Ok((measured, clients))
}

/// The next time on the grid.
fn on_grid(time: Duration) -> Duration {
    let steps = time.as_nanos().div_ceil(GRID.as_nanos());
    GRID * u32::try_from(steps).unwrap_or(u32::MAX)
}

async fn keep_up<C: Client>(
    mut client: C,
    mut queue: mpsc::Receiver<Instant>,
    from: Instant,
) -> anyhow::Result<(C, Vec<Duration>)> {
    // Not a histogram: one of 200 KiB for each of 10,000 clients would take time to allocate, which would
    // count as the server's.
    let mut times = Vec::new();
    while let Some(due) = queue.recv().await {
        client.once().await?;
        if due >= from {
            times.push(due.elapsed());
        }
    }
    Ok((client, times))
}
