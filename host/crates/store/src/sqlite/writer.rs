//! The one thread that writes. Whatever waits in its queue when it comes round
//! goes into one transaction, so that many callers share one flush of the disk.
//!
//! A caller hears of its operation only after the commit. A caller that goes away
//! meanwhile does not undo it.

use super::audit::{self, Notes};
use super::counts::Counts;
use super::error::failed;
use super::watch::Watch;
use crate::Refused;
use crate::metrics::Metrics;
use crate::notes::Trail;
use crate::stamps::Stamps;
use crate::touches::Touches;
use crate::trail::Lines;
use rusqlite::{Connection, ErrorCode};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use toolyard_task::store::StoreError;
use toolyard_task::wire::Timestamp;

/// How the writer goes about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Operations in one transaction at most.
    pub(super) batch: usize,
    /// Operations that may wait.
    pub(super) queue: usize,
    /// How long a caller waits for a place in the queue.
    pub(super) patience: Duration,
}

/// What the thread shares with the store, beside its queue.
#[derive(Clone)]
pub(super) struct Beside {
    pub(super) stamps: Arc<Stamps>,
    pub(super) watch: Arc<Watch>,
    pub(super) touches: Arc<Touches<Timestamp>>,
    pub(super) trail: Arc<Trail<Timestamp>>,
}

/// What an operation works on, within the open transaction.
pub(super) struct Writing<'a> {
    pub(super) on: &'a Connection,
    pub(super) counts: &'a mut Counts,
    pub(super) stamps: &'a Stamps,
    /// The audit entries of the transaction, which go with it.
    pub(super) lines: &'a mut Lines,
}

/// The way to the writing thread.
pub(super) struct Writer {
    messages: Sender<Message>,
    places: Arc<Semaphore>,
    patience: Duration,
    thread: Mutex<Option<JoinHandle<()>>>,
    metrics: Arc<Metrics>,
    failing: Arc<AtomicBool>,
}

enum Message {
    Job(Box<dyn Job>),
    /// Look at what has to be watched; there may be something new.
    Look,
    /// End, once everything before this is done.
    Stop,
}

/// An operation whose result has a type of its own.
pub(super) trait Job: Send {
    /// Does it within a transaction that may yet be rolled back; then it is
    /// attempted again.
    fn attempt(&mut self, writing: &mut Writing<'_>) -> rusqlite::Result<()>;

    /// Tells the caller, after the transaction ended.
    fn settle(self: Box<Self>, ended: Result<(), StoreError>);
}

struct Pending<T, F> {
    operation: F,
    result: Option<T>,
    reply: Option<oneshot::Sender<Result<T, StoreError>>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<T, F> Job for Pending<T, F>
where
    T: Send,
    F: FnMut(&mut Writing<'_>) -> rusqlite::Result<T> + Send,
{
    fn attempt(&mut self, writing: &mut Writing<'_>) -> rusqlite::Result<()> {
        // What an attempt that was rolled back holds, such as a lock, goes first.
        self.result = None;
        self.result = Some((self.operation)(writing)?);
        Ok(())
    }

    fn settle(self: Box<Self>, ended: Result<(), StoreError>) {
        let Self { result, reply, .. } = *self;
        let answer = ended.map(|()| result.expect("only what was attempted is committed"));
        if let Some(reply) = reply {
            // The caller may have gone away.
            let _ = reply.send(answer);
        } else if let Err(error) = answer {
            tracing::warn!(error = &error as &dyn std::error::Error, "a write that nobody waits for failed");
        }
    }
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        on: Connection,
        beside: Beside,
        pace: Pace,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let (messages, inbox) = channel();
        // If this fails, the first look tells of a change too many.
        let seen = data_version(&on).ok();
        let (batch, counts) = (pace.batch.max(1), Counts::default());
        let failing = Arc::<AtomicBool>::default();
        let (metrics, state) = (metrics.clone(), failing.clone());
        let thread = Thread { on, beside, batch, counts, seen, metrics: metrics.clone(), failing: state };
        let thread =
            std::thread::Builder::new().name("toolyard-store-w".into()).spawn(move || thread.run(&inbox))?;
        Ok(Self {
            messages,
            places: Arc::new(Semaphore::new(pace.queue.max(1))),
            patience: pace.patience,
            thread: Mutex::new(Some(thread)),
            metrics,
            failing,
        })
    }

    /// Does `operation` in a transaction, and returns when it is durable. It is
    /// attempted again if a neighbour in its transaction fails.
    pub(super) async fn write<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Writing<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let began = Instant::now();
        let place = place(&self.places, self.patience).await?;
        let (reply, answer) = oneshot::channel();
        self.send(Message::Job(Box::new(Pending {
            operation,
            result: None,
            reply: Some(reply),
            _place: Some(place),
        })));
        let answer = answer.await.unwrap_or_else(|_| Err(closed()));
        self.metrics.write.ended(began, answer.is_ok());
        answer
    }

    /// Whether the last transaction failed for a reason that the next one may meet as
    /// well: no space, a lock, a damaged page.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Makes the thread look at what it watches.
    pub(super) fn look(&self) {
        self.send(Message::Look);
    }

    /// Does what is queued, then `last`, and ends the thread. Blocks until then. A
    /// second call does nothing.
    pub(super) fn stop<F>(&self, last: Option<F>)
    where
        F: FnMut(&mut Writing<'_>) -> rusqlite::Result<()> + Send + 'static,
    {
        self.places.close();
        let Some(thread) = self.thread.lock().expect("no section panics").take() else { return };
        if let Some(operation) = last {
            self.send(Message::Job(Box::new(Pending { operation, result: None, reply: None, _place: None })));
        }
        self.send(Message::Stop);
        if thread.join().is_err() {
            tracing::error!("the writing thread of the store panicked");
        }
    }

    fn send(&self, message: Message) {
        // Fails when the thread has ended; then the caller's reply is dropped with
        // the message, which it reads as "closed".
        let _ = self.messages.send(message);
    }
}

/// A place in a bounded queue; waits for one, but not for ever.
pub(super) async fn place(
    places: &Arc<Semaphore>,
    patience: Duration,
) -> Result<OwnedSemaphorePermit, StoreError> {
    if let Ok(place) = places.clone().try_acquire_owned() {
        return Ok(place);
    }
    match tokio::time::timeout(patience, places.clone().acquire_owned()).await {
        Ok(place) => place.map_err(|_| closed()),
        Err(_) => Err(StoreError::Unavailable(Refused::Full(patience).into())),
    }
}

pub(super) fn closed() -> StoreError {
    StoreError::Unavailable(Refused::Closed.into())
}

struct Thread {
    on: Connection,
    beside: Beside,
    batch: usize,
    counts: Counts,
    /// The `data_version` that was seen last.
    seen: Option<i64>,
    metrics: Arc<Metrics>,
    failing: Arc<AtomicBool>,
}

/// Where a transaction failed.
enum Fault {
    /// It did not begin; the next one would not either.
    Begin(rusqlite::Error),
    /// One of its operations, or its commit.
    Within(rusqlite::Error),
}

impl Thread {
    fn run(mut self, inbox: &Receiver<Message>) {
        let mut stop = false;
        while !stop {
            let mut jobs = Vec::new();
            stop = self.receive(inbox, &mut jobs);
            // Stamps ride along with whatever is written anyway.
            let touched = self.beside.touches.take(!jobs.is_empty() || stop, Instant::now());
            if !touched.is_empty() {
                let operation = move |writing: &mut Writing<'_>| super::sessions::seen(writing.on, &touched);
                // First, so that whoever looks at sessions in this batch sees them.
                jobs.insert(0, Box::new(Pending { operation, result: None, reply: None, _place: None }));
            }
            if let Some(noted) = self.beside.trail.take(!jobs.is_empty() || stop, Instant::now()) {
                jobs.insert(0, Box::new(Notes { trail: self.beside.trail.clone(), noted }));
            }
            if !jobs.is_empty() {
                self.commit(jobs);
            }
            if self.beside.watch.is_due(Instant::now())
                && let Err(error) = self.observe()
            {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "the store's file cannot be watched now"
                );
            }
        }
    }

    /// Waits for a message, or until something beside the queue is due, and takes
    /// what else is there. Says whether to stop.
    fn receive(&self, inbox: &Receiver<Message>, jobs: &mut Vec<Box<dyn Job>>) -> bool {
        let now = Instant::now();
        let beside = &self.beside;
        let due = [beside.watch.due(now), beside.touches.due(), beside.trail.due()];
        let due = due.into_iter().flatten().min();
        let first = match due {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => inbox.recv_timeout(due.saturating_duration_since(now)),
        };
        let first = match first {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        };
        let mut stop = false;
        for message in std::iter::once(first).chain(inbox.try_iter()).take(self.batch) {
            match message {
                Message::Job(job) => jobs.push(job),
                Message::Look => {}
                Message::Stop => stop = true,
            }
        }
        stop
    }

    /// All of them in one transaction, or, if that fails, each in its own, so that
    /// one that cannot be done does not take its neighbours with it.
    fn commit(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        match self.transaction(&mut jobs) {
            Ok(()) => jobs.into_iter().for_each(|job| job.settle(Ok(()))),
            Err(Fault::Begin(error)) => fail(jobs, error),
            Err(Fault::Within(error)) if jobs.len() == 1 => fail(jobs, error),
            Err(Fault::Within(_)) => {
                let mut jobs = jobs.into_iter();
                while let Some(job) = jobs.next() {
                    let mut alone = vec![job];
                    match self.transaction(&mut alone) {
                        Ok(()) => alone.into_iter().for_each(|job| job.settle(Ok(()))),
                        Err(Fault::Within(error)) => fail(alone, error),
                        Err(Fault::Begin(error)) => {
                            // Each would wait for the lock in turn.
                            fail(alone.into_iter().chain(jobs).collect(), error);
                            return;
                        }
                    }
                }
            }
        }
    }

    fn transaction(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Fault> {
        let began = Instant::now();
        let done = self.whole_transaction(jobs);
        self.metrics.commit.ended(began, done.is_ok());
        match &done {
            Ok(()) => {
                self.metrics.shared(jobs.len());
                self.failing.store(false, Ordering::Relaxed);
            }
            Err(Fault::Begin(error) | Fault::Within(error)) if is_of_the_file(error) => {
                self.failing.store(true, Ordering::Relaxed);
            }
            Err(_) => {}
        }
        done
    }

    fn whole_transaction(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Fault> {
        self.execute("BEGIN IMMEDIATE").map_err(Fault::Begin)?;
        let done = self.within(jobs);
        if let Err(error) = done {
            self.counts.forget();
            // SQLite has rolled back by itself after some errors.
            if !self.on.is_autocommit()
                && let Err(error) = self.execute("ROLLBACK")
            {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a transaction cannot be rolled back"
                );
            }
            return Err(Fault::Within(error));
        }
        Ok(())
    }

    fn within(&mut self, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
        // Under the lock, so that nobody writes between this look and our commit.
        self.observe()?;
        let mut lines = Lines::default();
        let mut writing = Writing {
            on: &self.on,
            counts: &mut self.counts,
            stamps: &self.beside.stamps,
            lines: &mut lines,
        };
        for job in jobs {
            job.attempt(&mut writing)?;
        }
        audit::insert(&self.on, &lines)?;
        self.execute("COMMIT")?;
        if !lines.is_empty() {
            self.beside.trail.written.notify_one();
        }
        Ok(())
    }

    /// Whether another connection has written since the last look; our own commits
    /// do not show.
    fn observe(&mut self) -> rusqlite::Result<()> {
        let version = data_version(&self.on)?;
        if self.seen.replace(version) != Some(version) {
            self.counts.forget();
            self.beside.watch.others_wrote();
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.on.prepare_cached(sql)?.execute([]).map(drop)
    }
}

/// Whether the file is the reason, rather than what was to be written to it.
fn is_of_the_file(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    code.is_some_and(|code| !matches!(code, ErrorCode::Unknown | ErrorCode::ConstraintViolation))
}

fn data_version(on: &Connection) -> rusqlite::Result<i64> {
    on.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

fn fail(mut jobs: Vec<Box<dyn Job>>, error: rusqlite::Error) {
    if jobs.len() == 1
        && let Some(job) = jobs.pop()
    {
        return job.settle(Err(failed(error)));
    }
    let error = Arc::new(error);
    for job in jobs {
        job.settle(Err(StoreError::Unavailable(Box::new(error.clone()))));
    }
}
