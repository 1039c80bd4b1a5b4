//! The threads that read. Each has its own connection, which sees the file as of the last commit
//! and never waits for the writer.

use super::error::SqliteError;
use super::schema;
use crate::group_commit::{QueueLimits, closed, place};
use crate::metrics::Metrics;
use parking_lot::Mutex;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};
use toolyard_task::StoreError;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Sends reads to the reading threads.
pub(super) struct Readers {
    /// `None` tells one thread to end.
    jobs: Sender<Option<Job>>,
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
        let (jobs, inbox) = channel();
        let inbox = Arc::new(Mutex::new(inbox));
        let mut threads = Vec::new();
        for number in 0..count.max(1) {
            let connection = schema::connection(path, busy)?;
            connection.pragma_update(None, "query_only", "ON")?;
            let inbox = inbox.clone();
            let name = format!("toolyard-store-r{number}");
            threads.push(std::thread::Builder::new().name(name).spawn(move || run(&connection, &inbox))?);
        }
        let places = Arc::new(Semaphore::new(queue.max(1) * count.max(1)));
        Ok(Self { jobs, places, wait, threads: Mutex::new(threads), metrics })
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
        let _ = self.jobs.send(Some(job));
        let answer = answer.await.unwrap_or_else(|_| Err(closed()));
        self.metrics.read.ended(began, answer.is_ok());
        answer
    }

    /// Completes the queued reads and ends the threads. Blocks until then.
    pub(super) fn stop(&self) {
        self.places.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        for _ in &threads {
            let _ = self.jobs.send(None);
        }
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!(event = "store.panicked", part = "reader", "part of the store panicked");
            }
        }
    }
}

fn run(on: &Connection, inbox: &Mutex<Receiver<Option<Job>>>) {
    loop {
        // One thread waits in `recv`, the others for this lock, which has the same effect.
        let job = inbox.lock().recv();
        match job {
            Ok(Some(job)) => job(on),
            Ok(None) | Err(_) => return,
        }
    }
}
