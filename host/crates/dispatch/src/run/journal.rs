//! The journal of the run of a task that resumes: chunks go to the store in their order and share its commits, and a
//! run that waits for long gives up its place and becomes a row.

use crate::run::deps::RunDeps;
use crate::run::run::RunTask;
use crate::slots::stop::Stop;
use crate::task::commit::CommitOutcome;
use async_trait::async_trait;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use toolyard_protocol::Timestamp;
use toolyard_task::audit::By;
use toolyard_task::journal::{Appended, Chunk};
use toolyard_task::{Event, JournalLost, RunJournal};

/// A run that has waited so long is parked, if nothing needs it meanwhile.
pub(crate) const PARK_AFTER: Duration = Duration::from_secs(2);
/// The most bytes of the journal of one task.
const LIMIT: u64 = 16 << 20;
/// Bytes that are read from the store at once.
const PIECE: u64 = 1 << 20;

/// A message to the writer.
enum Message {
    Chunk(Chunk),
    /// Answered when everything before is durable.
    Flush(oneshot::Sender<Result<(), JournalLost>>),
}

/// The journal of a run.
pub(crate) struct TaskJournal {
    deps: Arc<RunDeps>,
    task: RunTask,
    messages: mpsc::UnboundedSender<Message>,
    /// Taken by the writer, which starts with the first chunk.
    received: Mutex<Option<mpsc::UnboundedReceiver<Message>>>,
    /// The number of the next chunk, once the past was read.
    next: AtomicU32,
    /// Entries of the guest's lane that were pushed, those of earlier runs included.
    entries: AtomicU64,
    requests: AtomicU32,
    parked: Stop,
}

impl TaskJournal {
    pub fn new(deps: Arc<RunDeps>, task: RunTask) -> Self {
        let (messages, received) = mpsc::unbounded_channel();
        Self {
            deps,
            task,
            messages,
            received: Mutex::new(Some(received)),
            next: AtomicU32::new(0),
            entries: AtomicU64::new(0),
            requests: AtomicU32::new(0),
            parked: Stop::default(),
        }
    }

    /// Waits until the run is parked. Then it must be dropped.
    pub async fn wait_until_parked(&self) {
        self.parked.wait().await;
    }

    pub fn is_parked(&self) -> bool {
        self.parked.is_set()
    }

    /// Parks the run, unless a request is under way. `wake` is when it is due; `None` means at an answer. Never
    /// returns if the run is parked.
    pub async fn park(&self, wake: Option<Timestamp>) {
        if self.requests.load(Ordering::Acquire) > 0 || self.flush().await.is_err() {
            return;
        }
        let reached = self.entries.load(Ordering::Acquire);
        let parked = Event::Parked { fence: self.task.fence, wake, reached };
        match self.deps.tasks.change(self.task.id, &parked, &By::host()).await {
            Ok(CommitOutcome::Done(_)) => {
                tracing::debug!(task = %self.task.id, ?wake, "task parked");
                self.parked.set();
                std::future::pending().await
            }
            // The task has ended, or cannot resume any more. The run finds out by itself.
            Ok(CommitOutcome::Refused(..) | CommitOutcome::Gone) => {}
            Err(error) => tracing::debug!(
                task = %self.task.id, error = &error as &dyn std::error::Error,
                "task not parked"
            ),
        }
    }

    /// Sends a message to the writer, which starts with the first one.
    fn send(&self, message: Message) {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(received) = received {
            let slots = &self.deps.slots;
            let writer = write(self.deps.clone(), self.task, self.next.load(Ordering::Acquire), received);
            slots.tracker.spawn_on(writer, &slots.guests);
        }
        // The writer ends with this journal.
        drop(self.messages.send(message));
    }
}

#[async_trait]
impl RunJournal for TaskJournal {
    async fn past(&self) -> Result<Vec<Chunk>, JournalLost> {
        let store = &self.deps.tasks.journals;
        let unavailable = |error: toolyard_task::StoreError| {
            tracing::warn!(
                event = "store.retrying", task = %self.task.id, error = &error as &dyn std::error::Error,
                "store failed; trying again"
            );
            JournalLost::Unavailable
        };
        let head = store.journal(self.task.id).await.map_err(unavailable)?.ok_or(JournalLost::Fenced)?;
        let (mut at, mut past) = (head.first, Vec::new());
        while at < head.next {
            let piece = store.chunks(self.task.id, at, PIECE).await.map_err(unavailable)?;
            if piece.is_empty() {
                return Err(JournalLost::Fenced);
            }
            at = at.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX));
            past.extend(piece);
        }
        self.next.store(at, Ordering::Release);
        self.entries.store(head.entries, Ordering::Release);
        Ok(past)
    }

    fn limit(&self) -> u64 {
        LIMIT
    }

    fn push(&self, chunk: Chunk) {
        self.entries.fetch_add(chunk.entries.into(), Ordering::AcqRel);
        self.send(Message::Chunk(chunk));
    }

    async fn flush(&self) -> Result<(), JournalLost> {
        let (done, durable) = oneshot::channel();
        self.send(Message::Flush(done));
        durable.await.unwrap_or(Err(JournalLost::Unavailable))
    }

    fn give_up(&self, reason: String) {
        let (deps, RunTask { id, fence, .. }) = (self.deps.clone(), self.task);
        let given_up = async move {
            let event = Event::Unresumable { fence, why: reason };
            if let Err(error) = deps.tasks.change(id, &event, &By::host()).await {
                tracing::warn!(
                    event = "task.status_not_stored", task = %id, error = &error as &dyn std::error::Error,
                    "cannot store that the task does not resume"
                );
            }
        };
        self.deps.slots.tracker.spawn_on(given_up, &self.deps.slots.guests);
    }

    async fn sleep_until(&self, time_ms: u64) {
        let due = Timestamp(i64::try_from(time_ms).unwrap_or(i64::MAX));
        let left = || Duration::from_millis(due.since(self.deps.clock.now()));
        // Short waits keep their run.
        if left() <= PARK_AFTER * 2 {
            return;
        }
        tokio::time::sleep(PARK_AFTER).await;
        self.park(Some(due)).await;
    }

    fn set_requests(&self, under_way: u32) {
        self.requests.store(under_way, Ordering::Release);
    }
}

/// Stores the chunks of one run, in their order.
async fn write(
    deps: Arc<RunDeps>,
    task: RunTask,
    mut at: u32,
    mut received: mpsc::UnboundedReceiver<Message>,
) {
    let mut lost = None;
    while let Some(first) = received.recv().await {
        let (mut chunks, mut waiting) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Chunk(chunk) => chunks.push(chunk),
                Message::Flush(done) => waiting.push(done),
            }
            next = received.try_recv().ok();
        }
        if lost.is_none() && !chunks.is_empty() {
            let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
            match append(&deps, task, at, chunks).await {
                Ok(()) => at = at.saturating_add(count),
                Err(why) => lost = Some(why),
            }
        }
        for done in waiting {
            // The run may be gone.
            let _ = done.send(lost.map_or(Ok(()), Err));
        }
    }
}

/// Appends chunks. Retries while the store cannot be reached and this host has the task.
async fn append(deps: &RunDeps, task: RunTask, at: u32, chunks: Vec<Chunk>) -> Result<(), JournalLost> {
    let RunTask { id, fence, expires_at, .. } = task;
    let mut pause = Duration::from_millis(20);
    loop {
        match deps.tasks.journals.append_chunks(id, fence, at, chunks.clone()).await {
            Ok(Appended::Done) => return Ok(()),
            Ok(Appended::Fenced | Appended::Gap { .. }) => return Err(JournalLost::Fenced),
            Err(error) => {
                tracing::warn!(
                    event = "store.retrying", task = %id, error = &error as &dyn std::error::Error,
                    "store failed; trying again"
                );
                if deps.clock.now() >= expires_at || deps.node.current() != Some(fence.incarnation) {
                    return Err(JournalLost::Unavailable);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(5));
            }
        }
    }
}
