//! The threads that read. Each has its own connection, which sees the file as of the last commit
//! and never waits for the writer.

use super::error::SqliteError;
use super::schema;
use crate::group_commit::{QueueLimits, closed, place};
use crate::metrics::Metrics;
use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};
use toolyard_task::StoreError;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// The reads that wait for a thread. Each wakes one thread; a channel behind a lock would wake a second one.
struct Inbox {
    waiting: Mutex<Waiting>,
    ready: Condvar,
}

struct Waiting {
    jobs: VecDeque<Job>,
    /// The threads that take jobs.
    threads: usize,
    /// No further jobs come.
    ends: bool,
}

impl Inbox {
    /// Without threads, the job is dropped.
    fn push(&self, job: Job) {
        let mut waiting = self.waiting.lock();
        if waiting.threads > 0 {
            waiting.jobs.push_back(job);
            drop(waiting);
            self.ready.notify_one();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.ends {
                return None;
            }
            self.ready.wait(&mut waiting);
        }
    }

    fn end(&self) {
        self.waiting.lock().ends = true;
        self.ready.notify_all();
    }
}

/// A thread that takes jobs. Drops what waits if it is the last and panics.
struct Thread<'a>(&'a Inbox);

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        waiting.threads -= 1;
        if waiting.threads == 0 {
            waiting.jobs.clear();
        }
    }
}

/// Sends reads to the reading threads.
pub(super) struct Readers {
    inbox: Arc<Inbox>,
    places: Arc<Semaphore>,
    wait: Duration,
    threads: Mutex<Vec<JoinHandle<()>>>,
    metrics: Arc<Metrics>,
}

impl Readers {
    /// Starts `count` threads, each with room for as many waiting reads as the
    /// writer has for writes.
    pub(super) fn start(
        path: &Path,
        busy: Duration,
        count: usize,
        QueueLimits { queue, wait, .. }: QueueLimits,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let waiting = Mutex::new(Waiting { jobs: VecDeque::new(), threads: count.max(1), ends: false });
        let inbox = Arc::new(Inbox { waiting, ready: Condvar::new() });
        let mut threads = Vec::new();
        for number in 0..count.max(1) {
            let connection = schema::connection(path, busy)?;
            connection.pragma_update(None, "query_only", "ON")?;
            let inbox = inbox.clone();
            let name = format!("toolyard-store-r{number}");
            threads.push(std::thread::Builder::new().name(name).spawn(move || run(&connection, &inbox))?);
        }
        let places = Arc::new(Semaphore::new(queue.max(1) * count.max(1)));
        Ok(Self { inbox, places, wait, threads: Mutex::new(threads), metrics })
    }

    /// Runs a read on one of the threads.
    pub(super) async fn read<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, SqliteError> + Send + 'static,
    {
        let began = Instant::now();
        let place = place(&self.places, self.wait).await?;
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |on| {
            // No caller waits any longer, which is harmless for a read.
            if !reply.is_closed() {
                let _ = reply.send(operation(on).map_err(StoreError::from));
            }
            drop(place);
        });
        // If the threads have ended, the reply is dropped with the job.
        self.inbox.push(job);
        let answer = answer.await.unwrap_or_else(|_| Err(closed()));
        self.metrics.read.ended(began, answer.is_ok());
        answer
    }

    /// Completes the queued reads and ends the threads. Blocks until then.
    pub(super) fn stop(&self) {
        self.places.close();
        self.inbox.end();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!(event = "store.panicked", part = "reader", "part of the store panicked");
            }
        }
    }
}

fn run(on: &Connection, inbox: &Inbox) {
    let _thread = Thread(inbox);
    while let Some(job) = inbox.next() {
        job(on);
    }
}
