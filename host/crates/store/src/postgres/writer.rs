//! What writes: one task with one connection. Whatever waits in its queue when it comes
//! round goes into one transaction, so that many callers share one flush of the
//! server's disk, and one word to the other hosts.
//!
//! A caller hears of its operation only after the commit. A caller that goes away
//! meanwhile does not undo it.
//!
//! When the connection breaks, nobody is told that something failed which was done: up
//! to the commit nothing is, and it is done again; after it, the server is asked. Each
//! transaction leaves its number in a row of this writer, so that the row says which was
//! the last to be committed. The server's own number would not do: one that a crash took
//! before it was on the disk is given again, to another transaction, and
//! `pg_xact_status` speaks of that one then. Only a server that stays away leaves it open.

use super::audit;
use super::connections::Place;
use super::error::{closed, failed, silent, unreadable};
use super::floor::Floor;
use super::hints::Hinting;
use crate::Refused;
use crate::metrics::Metrics;
use crate::notes::Trail;
use crate::touches::Touches;
use crate::trail::Lines;
use async_trait::async_trait;
use deadpool_postgres::ClientWrapper;
use futures_util::future::{BoxFuture, join_all};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use toolyard_task::TaskId;
use toolyard_task::store::StoreError;

/// Goes with each transaction.
const NUMBERED: &str = "
    INSERT INTO batch (writer, number, at) VALUES ($1, $2, engine_time())
    ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at";

/// The number of the last transaction that was committed. Waits for the end of one that the
/// server still has open, whether the row is in it for the first time or again.
const COMMITTED: &str = "
    INSERT INTO batch (writer, number, at) VALUES ($1, 0, engine_time())
    ON CONFLICT (writer) DO UPDATE SET at = excluded.at RETURNING number";

/// Tried again after this time, when the server is away.
const PAUSE: Duration = Duration::from_millis(100);

/// How the writer goes about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Operations in one transaction at most.
    pub(super) batch: usize,
    /// Operations that may wait.
    pub(super) queue: usize,
    /// How long a caller waits for a place in the queue, and then for a server that is
    /// away.
    pub(super) patience: Duration,
    /// How long the server may take for an answer.
    pub(super) silence: Duration,
}

/// What the task shares with the store, beside its queue.
#[derive(Clone)]
pub(super) struct Beside {
    pub(super) floor: Arc<Floor>,
    pub(super) touches: Arc<Touches<()>>,
    pub(super) trail: Arc<Trail<std::time::Instant>>,
    pub(super) hinting: Hinting,
    /// The longest time from a task's creation to a change of it, as far as known here.
    pub(super) longest: Arc<AtomicI64>,
    pub(super) log: Arc<audit::Log>,
}

/// What an operation works on, within the open transaction.
pub(super) struct Writing<'a> {
    pub(super) on: &'a ClientWrapper,
    pub(super) beside: &'a Beside,
    /// The audit entries of the transaction, which go with it.
    lines: Mutex<Lines>,
    /// The tasks that it changes.
    changed: Mutex<Vec<TaskId>>,
    /// The longest span that it has written.
    longest: AtomicI64,
}

impl Writing<'_> {
    pub(super) async fn rows(&self, sql: &str, given: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        let statement = self.on.prepare_cached(sql).await?;
        self.on.query(&statement, given).await
    }

    /// How many rows it concerned.
    pub(super) async fn execute(&self, sql: &str, given: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let statement = self.on.prepare_cached(sql).await?;
        self.on.execute(&statement, given).await
    }

    /// Adds to the audit entries.
    pub(super) fn log(&self, add: impl FnOnce(&mut Lines)) {
        add(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// It has written this span, which others may rely on after the commit.
    pub(super) fn after_commit(&self, longest: i64) {
        self.longest.fetch_max(longest, Ordering::Relaxed);
    }

    /// This task is another one after the commit.
    pub(super) fn changes(&self, id: TaskId) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).push(id);
    }
}

/// An operation whose result has a type of its own.
#[async_trait]
pub(super) trait Job: Send {
    /// Does it within a transaction that may yet be rolled back; then it is attempted
    /// again.
    async fn attempt(&mut self, writing: &Writing<'_>) -> Result<(), Error>;

    /// Tells the caller, after the transaction ended.
    fn settle(self: Box<Self>, ended: Result<(), StoreError>);

    /// The task whose row is locked by it. Rows are locked in the order of their ids, so
    /// that two hosts never wait for each other.
    fn locks(&self) -> Option<TaskId>;
}

struct Pending<T, F> {
    operation: F,
    locks: Option<TaskId>,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

#[async_trait]
impl<T, F> Job for Pending<T, F>
where
    T: Send,
    F: for<'a> Fn(&'a Writing<'a>) -> BoxFuture<'a, Result<T, Error>> + Send + Sync,
{
    async fn attempt(&mut self, writing: &Writing<'_>) -> Result<(), Error> {
        self.result = Some((self.operation)(writing).await?);
        Ok(())
    }

    fn settle(self: Box<Self>, ended: Result<(), StoreError>) {
        let Self { result, reply, .. } = *self;
        let answer = ended.map(|()| result.expect("only what was attempted is committed"));
        // The caller may have gone away.
        let _ = reply.send(answer);
    }

    fn locks(&self) -> Option<TaskId> {
        self.locks
    }
}

enum Message {
    Job(Box<dyn Job>),
    /// Look at what has to be written some time; there may be something new.
    Look,
}

/// The way to the writing task.
pub(super) struct Writer {
    /// None once it was stopped.
    messages: Mutex<Option<mpsc::Sender<Message>>>,
    patience: Duration,
    task: Mutex<Option<JoinHandle<()>>>,
    metrics: Arc<Metrics>,
    failing: Arc<AtomicBool>,
}

impl Writer {
    pub(super) fn start(place: Place, beside: Beside, pace: Pace, metrics: Arc<Metrics>) -> Self {
        let (messages, inbox) = mpsc::channel(pace.queue.max(1));
        let failing = Arc::<AtomicBool>::default();
        let (metrics_too, failing_too) = (metrics.clone(), failing.clone());
        let work =
            Work { place, beside, pace, on: None, number: 0, metrics: metrics_too, failing: failing_too };
        Self {
            messages: Mutex::new(Some(messages)),
            patience: pace.patience,
            task: Mutex::new(Some(tokio::spawn(work.run(inbox)))),
            metrics,
            failing,
        }
    }

    /// Does `operation` in a transaction, and returns when it is durable. It is attempted
    /// again if a neighbour in its transaction fails, or the connection breaks.
    pub(super) async fn write<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a Writing<'a>) -> BoxFuture<'a, Result<T, Error>> + Send + Sync + 'static,
    {
        self.write_to(None, operation).await
    }

    /// As [`Writer::write`], for an operation that changes this task.
    pub(super) async fn write_to<T, F>(&self, locks: Option<TaskId>, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a Writing<'a>) -> BoxFuture<'a, Result<T, Error>> + Send + Sync + 'static,
    {
        let began = std::time::Instant::now();
        let (reply, answer) = oneshot::channel();
        let sender = self.sender().ok_or_else(closed)?;
        let job = Message::Job(Box::new(Pending { operation, locks, result: None, reply }));
        match sender.send_timeout(job, self.patience).await {
            Ok(()) => drop(sender),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => return Err(closed()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                return Err(StoreError::Unavailable(Refused::Full(self.patience).into()));
            }
        }
        let answer = answer.await.unwrap_or_else(|_| Err(closed()));
        self.metrics.write.ended(began, answer.is_ok());
        answer
    }

    /// Whether the last transaction failed for a reason that the next one may meet as
    /// well.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Makes the task look at what is due some time.
    pub(super) fn look(&self) {
        if let Some(sender) = self.sender() {
            // If the queue is full, it comes round anyway.
            drop(sender.try_send(Message::Look));
        }
    }

    fn sender(&self) -> Option<mpsc::Sender<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does what is queued and ends the task. A second call does nothing.
    pub(super) async fn stop(&self) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).take();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && task.await.is_err()
        {
            tracing::error!("the writing task of the store panicked");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // What was acknowledged is durable; what is queued has nobody who waits.
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

struct Work {
    place: Place,
    beside: Beside,
    pace: Pace,
    on: Option<ClientWrapper>,
    /// The number of the last transaction that was begun.
    number: i64,
    metrics: Arc<Metrics>,
    failing: Arc<AtomicBool>,
}

/// What went wrong with a transaction.
enum Fault {
    /// Nothing was written, and the next attempt may do.
    Lost(StoreError),
    /// The server refused something that is in it; nothing was written.
    Refused(Error),
    /// The connection broke at the commit of the transaction of this number.
    Unsure(i64, StoreError),
}

impl Work {
    async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        let mut open = true;
        while open {
            let mut jobs = Vec::new();
            open = self.receive(&mut inbox, &mut jobs).await;
            // Stamps and notes ride along with whatever is written anyway.
            let (anyway, now) = (!jobs.is_empty() || !open, std::time::Instant::now());
            let touched = self.beside.touches.take(anyway, now);
            if !touched.is_empty() {
                jobs.insert(0, Box::new(super::sessions::Seen::new(touched)));
            }
            if let Some(notes) = self.beside.trail.take(anyway, now) {
                jobs.insert(0, Box::new(audit::Notes::new(self.beside.trail.clone(), notes)));
            }
            if !jobs.is_empty() {
                // Stable, so that changes of one task stay in the order in which they came.
                jobs.sort_by_key(|job| job.locks());
                self.commit(jobs).await;
            }
        }
    }

    /// Waits for a message, or until something beside the queue is due, and takes what
    /// else is there. Says whether there may be more.
    async fn receive(&self, inbox: &mut mpsc::Receiver<Message>, jobs: &mut Vec<Box<dyn Job>>) -> bool {
        let due = [self.beside.touches.due(), self.beside.trail.due()].into_iter().flatten().min();
        let mut messages = Vec::new();
        let taken = match due {
            None => inbox.recv_many(&mut messages, self.pace.batch).await,
            Some(due) => {
                let received = inbox.recv_many(&mut messages, self.pace.batch);
                match tokio::time::timeout_at(due.into(), received).await {
                    Ok(taken) => taken,
                    Err(_) => return true,
                }
            }
        };
        for message in messages {
            if let Message::Job(job) = message {
                jobs.push(job);
            }
        }
        taken > 0
    }

    /// All of them in one transaction, or, if something in it is refused, each in its own,
    /// so that one that cannot be done does not take its neighbours with it.
    async fn commit(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        let until = Instant::now() + self.pace.patience;
        match self.settled(&mut jobs, until).await {
            Ok(()) => jobs.into_iter().for_each(|job| job.settle(Ok(()))),
            Err(Fault::Refused(error)) if jobs.len() == 1 => fail(jobs, failed(error)),
            Err(Fault::Refused(_)) => {
                for job in jobs {
                    let mut alone = vec![job];
                    match self.settled(&mut alone, until).await {
                        Ok(()) => alone.into_iter().for_each(|job| job.settle(Ok(()))),
                        Err(fault) => fail(alone, fault.into_store()),
                    }
                }
            }
            Err(fault) => fail(jobs, fault.into_store()),
        }
    }

    /// Does them until the server has said what became of them, or patience ends.
    async fn settled(&mut self, jobs: &mut [Box<dyn Job>], until: Instant) -> Result<(), Fault> {
        loop {
            let began = std::time::Instant::now();
            let done = self.transaction(jobs).await;
            self.metrics.commit.ended(began, done.is_ok());
            self.failing.store(matches!(done, Err(Fault::Lost(_) | Fault::Unsure(..))), Ordering::Relaxed);
            let fault = match done {
                Ok(()) => {
                    self.metrics.shared(jobs.len());
                    return Ok(());
                }
                Err(fault) => fault,
            };
            match &fault {
                Fault::Refused(_) => return Err(fault),
                Fault::Lost(_) => self.on = None,
                Fault::Unsure(number, _) => {
                    self.on = None;
                    match self.was_committed(*number, until).await {
                        Some(true) => return Ok(()),
                        Some(false) => {}
                        None => return Err(fault),
                    }
                }
            }
            if Instant::now() + PAUSE >= until {
                return Err(fault);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether the last transaction, of this number, was committed; none if that is not to
    /// be learnt in time.
    async fn was_committed(&mut self, number: i64, until: Instant) -> Option<bool> {
        let writer = self.beside.log.writer;
        while Instant::now() < until {
            let asked = async {
                let on = self.connected().await?;
                let row = on.query_one(COMMITTED, &[&writer]).await.map_err(failed)?;
                row.try_get::<_, i64>(0).map_err(unreadable)
            };
            if let Ok(Ok(last)) = tokio::time::timeout_at(until, asked).await {
                return Some(last == number);
            }
            self.on = None;
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    async fn connected(&mut self) -> Result<&ClientWrapper, StoreError> {
        if self.on.as_ref().is_none_or(|on| on.is_closed()) {
            let on = tokio::time::timeout(self.pace.silence, self.place.client()).await;
            self.on = Some(on.map_err(|_| silent(self.pace.silence))?.map_err(failed)?);
        }
        self.on.as_ref().ok_or_else(closed)
    }

    async fn transaction(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Fault> {
        self.connected().await.map_err(Fault::Lost)?;
        self.number += 1;
        let (number, silence) = (self.number, self.pace.silence);
        let Some(on) = &self.on else { return Err(Fault::Lost(closed())) };
        let done = match tokio::time::timeout(silence, attempt(on, &self.beside, number, jobs)).await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) if is_passing(&error) => return Err(Fault::Lost(failed(error))),
            Ok(Err(error)) => {
                // The next one begins on the same connection.
                let back = tokio::time::timeout(silence, on.batch_execute("ROLLBACK")).await;
                if !matches!(back, Ok(Ok(()))) {
                    self.on = None;
                }
                return Err(Fault::Refused(error));
            }
            Err(_) => return Err(Fault::Lost(silent(silence))),
        };
        match tokio::time::timeout(silence, on.batch_execute("COMMIT")).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Fault::Unsure(number, failed(error))),
            Err(_) => return Err(Fault::Unsure(number, silent(silence))),
        }
        self.beside.trail.written.notify_one();
        self.beside.longest.fetch_max(done.longest, Ordering::Relaxed);
        self.beside.hinting.changed(done.changed);
        Ok(())
    }
}

impl Fault {
    fn into_store(self) -> StoreError {
        match self {
            Self::Lost(error) => error,
            Self::Unsure(_, error) => StoreError::Undecided(error.into()),
            Self::Refused(error) => failed(error),
        }
    }
}

/// Whether it would be well at another time: the connection is gone, or two hosts waited
/// for each other.
fn is_passing(error: &Error) -> bool {
    let passing = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    error.code().is_none_or(|code| passing.contains(code))
}

/// All up to the commit, in one go: the server does one after the other, and nobody waits
/// for an answer in between.
async fn attempt(
    on: &ClientWrapper,
    beside: &Beside,
    number: i64,
    jobs: &mut [Box<dyn Job>],
) -> Result<Done, Error> {
    let writing = Writing {
        on,
        beside,
        lines: Mutex::default(),
        changed: Mutex::default(),
        longest: AtomicI64::default(),
    };
    let begin = on.batch_execute("BEGIN");
    let numbering = [&beside.log.writer as &(dyn ToSql + Sync), &number];
    let numbered = writing.execute(NUMBERED, &numbering);
    let attempts = join_all(jobs.iter_mut().map(|job| job.attempt(&writing)));
    let (begun, numbered, attempts) = tokio::join!(biased; begin, numbered, attempts);
    begun?;
    // The first that was refused; what follows it is refused because of it.
    attempts.into_iter().collect::<Result<(), Error>>()?;
    numbered?;
    let lines = std::mem::take(&mut *writing.lines.lock().unwrap_or_else(PoisonError::into_inner));
    audit::insert(&writing, &lines).await?;
    let changed = std::mem::take(&mut *writing.changed.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Done { changed, longest: writing.longest.load(Ordering::Relaxed) })
}

/// What counts once it is committed.
struct Done {
    changed: Vec<TaskId>,
    longest: i64,
}

fn fail(mut jobs: Vec<Box<dyn Job>>, error: StoreError) {
    if jobs.len() == 1
        && let Some(job) = jobs.pop()
    {
        return job.settle(Err(error));
    }
    let as_it_was: fn(Box<Arc<StoreError>>) -> StoreError = match error {
        StoreError::Undecided(_) => |error| StoreError::Undecided(error),
        StoreError::Unavailable(_) | StoreError::Corrupt(_) => |error| StoreError::Unavailable(error),
    };
    let error = Arc::new(error);
    for job in jobs {
        job.settle(Err(as_it_was(Box::new(error.clone()))));
    }
}
