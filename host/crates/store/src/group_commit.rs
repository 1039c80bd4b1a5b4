//! Group commit: one queue of writes, for SQLite and for PostgreSQL.
//!
//! Callers put writes into a bounded [`Queue`]. One [`Committer`] takes all waiting writes, up to
//! [`QueueLimits::batch`], and does them in one transaction, so that many callers share one flush
//! of the disk. A caller gets its result only after the commit. If a caller stops waiting, its
//! write is not undone.
//!
//! The committer is a future and knows no SQL: a [`Database`] runs the transaction. In PostgreSQL
//! it waits for the server, and the committer is a task of the runtime. In SQLite it blocks, and
//! the committer has a thread that does nothing else.

use crate::audit_buffer::{AuditBuffer, AuditEntries};
use crate::metrics::Metrics;
use crate::refusal::StoreRefusal;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use toolyard_task::{StoreError, TaskId};

/// The delay before the same transaction is tried again.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Bounds of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    /// The maximum number of writes in one transaction.
    pub(crate) batch: usize,
    /// The maximum number of writes that wait or are in the open transaction.
    pub(crate) queue: usize,
    /// How long a caller waits for a place in a full queue.
    pub(crate) wait: Duration,
    /// How long a transaction is retried while the database is unavailable. Zero for a database
    /// that waits by itself.
    pub(crate) retry: Duration,
}

/// Passes the result of a write to its caller after the transaction.
pub(crate) type Reply<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// A write in the queue, independent of the type of its result.
pub(crate) trait QueuedWrite: Send {
    /// Gives the caller the result, after the transaction has ended.
    fn settle(self: Box<Self>, ended: Result<(), StoreError>);

    /// The task whose row the write locks. Writes are done in the order of these ids, so
    /// that two hosts never wait for each other's rows.
    fn locked_task(&self) -> Option<TaskId>;

    /// Whether the write must be on the disk when it is settled. A transaction that nothing in it needs on
    /// the disk is not flushed.
    fn needs_flush(&self) -> bool {
        true
    }
}

/// An operation that waits for its transaction. Each database defines how it attempts one.
pub(crate) struct PendingWrite<T, F> {
    pub(crate) operation: F,
    /// The result of the last attempt, which counts once the transaction is committed.
    pub(crate) result: Option<T>,
    pub(crate) task: Option<TaskId>,
    pub(crate) reply: Reply<T>,
}

impl<T: Send, F: Send> QueuedWrite for PendingWrite<T, F> {
    fn settle(self: Box<Self>, ended: Result<(), StoreError>) {
        let Self { result, reply, .. } = *self;
        reply(ended.map(|()| result.expect("only what was attempted is committed")));
    }

    fn locked_task(&self) -> Option<TaskId> {
        self.task
    }
}

/// The reply to a write that no caller waits for: `log` logs its failure.
pub(crate) fn log_failure(log: fn(&StoreError)) -> Reply<()> {
    Box::new(move |ended| {
        if let Err(error) = ended {
            log(&error);
        }
    })
}

/// Logs that the end of this node was not stored.
pub(crate) fn log_resign_failed(error: &StoreError) {
    tracing::warn!(
        event = "cluster.resign_failed",
        error = error as &dyn Error,
        "cannot report the end of this node"
    );
}

/// Logs that the store did not record when sessions were last used.
pub(crate) fn log_sessions_not_updated(error: &StoreError) {
    tracing::warn!(
        event = "session.last_use_not_stored",
        error = error as &dyn Error,
        "cannot store when sessions were last used"
    );
}

/// The reply to a write of audit entries: entries that were not written go back to the buffer.
pub(crate) fn keep_unwritten<T>(buffer: Arc<AuditBuffer<T>>, noted: Arc<AuditEntries<T>>) -> Reply<()>
where
    T: Clone + Send + Sync + 'static,
{
    Box::new(move |ended| {
        if let Err(error) = ended {
            tracing::warn!(
                event = "audit.entries_not_stored",
                error = &error as &dyn Error,
                "cannot store audit entries; trying again"
            );
            buffer.put_back(Arc::unwrap_or_clone(noted));
        }
    })
}

/// Why a transaction was not committed.
pub(crate) enum TransactionError {
    /// The database is locked or unreachable. Nothing was written, and no write caused the failure.
    Unavailable(StoreError),
    /// A write or the commit failed, and nothing was written. `is_lasting` if the next
    /// transaction may fail for the same reason, such as a full disk.
    Rejected { error: StoreError, is_lasting: bool },
    /// The connection broke during the commit, whose outcome is unknown.
    Undecided(StoreError),
}

impl From<TransactionError> for StoreError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Unavailable(error) | TransactionError::Rejected { error, .. } => error,
            TransactionError::Undecided(error) => Self::Undecided(error.into()),
        }
    }
}

/// A database that a committer writes to. Its methods may block.
pub(crate) trait Database {
    /// A write that this database can attempt.
    type Write: QueuedWrite + ?Sized;

    /// Attempts all writes, in their order, in one transaction, and commits it. After `Ok`
    /// they are durable.
    async fn transaction(&mut self, writes: &mut [Box<Self::Write>]) -> Result<(), TransactionError>;

    /// Whether the last transaction, which ended as [`TransactionError::Undecided`], was committed;
    /// `None` if the database does not answer in time.
    async fn find_commit(&mut self, _until: Instant) -> Option<bool> {
        None
    }

    /// When the committer must check [`Database::buffered`] or the database's other periodic work,
    /// although no write waits.
    fn due(&self, now: Instant) -> Option<Instant>;

    /// Writes that have waited outside the queue: those that are due, or all of them if a
    /// transaction is made `anyway`.
    fn buffered(&self, anyway: bool, now: Instant) -> Vec<Box<Self::Write>>;

    /// Called after each batch, even an empty one.
    fn after_batch(&mut self) {}
}

enum QueueMessage<W: ?Sized> {
    Write(Box<W>),
    /// Ask the database again when its work is due.
    Wake,
    /// End, once everything before this is done.
    Stop,
}

/// The callers' end of the queue.
pub(crate) struct Queue<W: ?Sized> {
    messages: mpsc::UnboundedSender<QueueMessage<W>>,
    /// The semaphore bounds the queue. A write releases its place when it is settled.
    places: Arc<Semaphore>,
    wait: Duration,
    metrics: Arc<Metrics>,
    is_failing: Arc<AtomicBool>,
}

impl<W: QueuedWrite + ?Sized> Queue<W> {
    /// Queues the write that `write` creates from the reply, and returns the result when it is
    /// durable.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(Reply<T>) -> Box<W>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let place = place(&self.places, self.wait).await?;
        let (sender, answer) = oneshot::channel();
        let reply = Box::new(move |result| {
            // The caller may have stopped waiting.
            let _ = sender.send(result);
            drop(place);
        });
        self.send(QueueMessage::Write(write(reply)));
        let answer = answer.await.unwrap_or_else(|_| Err(closed()));
        self.metrics.write.ended(began, answer.is_ok());
        answer
    }

    /// Whether the last transaction failed for a reason that may affect the next one as well.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Makes the committer check what is due, because that may have changed.
    pub(crate) fn wake(&self) {
        self.send(QueueMessage::Wake);
    }

    /// Ends the committer after everything in the queue, and after `last`. Further writes fail.
    pub(crate) fn stop(&self, last: Option<Box<W>>) {
        self.places.close();
        last.into_iter().for_each(|last| self.send(QueueMessage::Write(last)));
        self.send(QueueMessage::Stop);
    }

    fn send(&self, message: QueueMessage<W>) {
        // Fails when the committer has ended; then the reply is dropped with the message,
        // which the caller reads as "closed".
        let _ = self.messages.send(message);
    }
}

/// A place in a bounded queue. Waits for a place, but not longer than `wait`.
pub(crate) async fn place(
    places: &Arc<Semaphore>,
    wait: Duration,
) -> Result<OwnedSemaphorePermit, StoreError> {
    if let Ok(place) = places.clone().try_acquire_owned() {
        return Ok(place);
    }
    match tokio::time::timeout(wait, places.clone().acquire_owned()).await {
        Ok(place) => place.map_err(|_| closed()),
        Err(_) => Err(StoreError::Unavailable(StoreRefusal::Full(wait).into())),
    }
}

pub(crate) fn closed() -> StoreError {
    StoreError::Unavailable(StoreRefusal::Closed.into())
}

/// The writing end of the queue.
pub(crate) struct Committer<D: Database> {
    database: D,
    inbox: mpsc::UnboundedReceiver<QueueMessage<D::Write>>,
    limits: QueueLimits,
    metrics: Arc<Metrics>,
    is_failing: Arc<AtomicBool>,
}

impl<D: Database> Committer<D> {
    pub(crate) fn new(database: D, limits: QueueLimits, metrics: Arc<Metrics>) -> (Queue<D::Write>, Self) {
        let (messages, inbox) = mpsc::unbounded_channel();
        let is_failing = Arc::<AtomicBool>::default();
        let queue = Queue {
            messages,
            places: Arc::new(Semaphore::new(limits.queue.max(1))),
            wait: limits.wait,
            metrics: metrics.clone(),
            is_failing: is_failing.clone(),
        };
        (queue, Self { database, inbox, limits, metrics, is_failing })
    }

    /// Commits batch after batch until the queue is stopped.
    pub(crate) async fn run(mut self) {
        let mut is_open = true;
        while is_open {
            let mut writes = Vec::new();
            is_open = self.receive(&mut writes).await;
            // These come first, so that operations which read the same rows see them.
            let buffered = self.database.buffered(!writes.is_empty() || !is_open, Instant::now());
            writes.splice(0..0, buffered);
            if !writes.is_empty() {
                // The sort is stable, so that changes of one task stay in their order of arrival.
                writes.sort_by_key(|write| write.locked_task());
                self.commit(writes).await;
            }
            self.database.after_batch();
        }
    }

    /// Waits for a message, or until the database is due, and takes the other waiting messages.
    /// Returns whether the queue is still open.
    async fn receive(&mut self, writes: &mut Vec<Box<D::Write>>) -> bool {
        let mut messages = Vec::new();
        let received = self.inbox.recv_many(&mut messages, self.limits.batch.max(1));
        let taken = match self.database.due(Instant::now()) {
            None => received.await,
            Some(due) => match tokio::time::timeout_at(due.into(), received).await {
                Ok(taken) => taken,
                Err(_) => return true,
            },
        };
        let mut is_open = taken > 0;
        for message in messages {
            match message {
                QueueMessage::Write(write) => writes.push(write),
                QueueMessage::Wake => {}
                QueueMessage::Stop => is_open = false,
            }
        }
        is_open
    }

    /// Commits all writes together or, if one is rejected, each by itself, so that a rejected write
    /// does not make others fail.
    async fn commit(&mut self, mut writes: Vec<Box<D::Write>>) {
        let until = Instant::now() + self.limits.retry;
        match self.transaction(&mut writes, until).await {
            Ok(()) => writes.into_iter().for_each(|write| write.settle(Ok(()))),
            Err(TransactionError::Rejected { .. }) if writes.len() > 1 => {
                self.commit_each(writes, until).await;
            }
            Err(error) => fail(writes, error.into()),
        }
    }

    async fn commit_each(&mut self, writes: Vec<Box<D::Write>>, until: Instant) {
        let mut writes = writes.into_iter();
        while let Some(mut write) = writes.next() {
            match self.transaction(std::slice::from_mut(&mut write), until).await {
                Ok(()) => write.settle(Ok(())),
                Err(TransactionError::Unavailable(error)) => {
                    // Otherwise each of the others would wait for the database in turn.
                    return fail(std::iter::once(write).chain(writes).collect(), error);
                }
                Err(error) => write.settle(Err(error.into())),
            }
        }
    }

    /// Retries the transaction until it is known to be committed or rejected, but not after
    /// `until`.
    async fn transaction(
        &mut self,
        writes: &mut [Box<D::Write>],
        until: Instant,
    ) -> Result<(), TransactionError> {
        loop {
            let began = Instant::now();
            let done = self.database.transaction(writes).await;
            let flushed = writes.iter().any(|write| write.needs_flush());
            if flushed {
                self.metrics.commit.ended(began, done.is_ok());
            }
            let error = match done {
                Ok(()) => {
                    self.is_failing.store(false, Ordering::Relaxed);
                    if flushed {
                        self.metrics.shared(writes.len());
                    }
                    return Ok(());
                }
                Err(error) => error,
            };
            if let TransactionError::Rejected { is_lasting, .. } = error {
                self.is_failing.fetch_or(is_lasting, Ordering::Relaxed);
                return Err(error);
            }
            self.is_failing.store(true, Ordering::Relaxed);
            if matches!(error, TransactionError::Undecided(_)) {
                match self.database.find_commit(until).await {
                    Some(true) => return Ok(()),
                    Some(false) => {}
                    None => return Err(error),
                }
            }
            if Instant::now() + RETRY_PAUSE >= until {
                return Err(error);
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Returns the same error to all of them.
fn fail<W: QueuedWrite + ?Sized>(mut writes: Vec<Box<W>>, error: StoreError) {
    if writes.len() == 1
        && let Some(write) = writes.pop()
    {
        return write.settle(Err(error));
    }
    let is_undecided = matches!(error, StoreError::Undecided(_));
    let (StoreError::Undecided(source) | StoreError::Unavailable(source) | StoreError::Corrupt(source)) =
        error;
    let source: Arc<dyn Error + Send + Sync> = source.into();
    for write in writes {
        let source = Box::new(source.clone());
        write.settle(Err(match is_undecided {
            true => StoreError::Undecided(source),
            // It is unknown which of them the damage concerns.
            false => StoreError::Unavailable(source),
        }));
    }
}
