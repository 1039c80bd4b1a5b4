//! Stores the chunks of the journal of one run, in their order. Chunks that come while others are being stored share
//! the next write.

use crate::run::as_task::RunTask;
use crate::run::deps::RunDeps;
use crate::task::commit::{CommitOutcome, log_store_retry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use toolyard_task::audit::By;
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, Flush};
use toolyard_task::{Event, JournalLost, Owner, Refusal, StoreError};

/// Why a task does not resume whose owner's journals have their share.
const FULL: &str = "the journals of its owner's live tasks have their share of `tasks.journals`";

/// The task of a journal, and its account.
pub(super) struct JournalTask {
    pub run: RunTask,
    pub owner: Owner,
    /// Whether the journals of the owner had no room for a chunk. From then on, the run goes on without this one.
    pub is_full: AtomicBool,
}

impl JournalTask {
    pub fn new(run: RunTask, owner: &Owner) -> Self {
        Self { run, owner: owner.clone(), is_full: AtomicBool::new(false) }
    }
}

/// A message to the writer.
pub(super) enum Message {
    Chunk(Chunk),
    /// Answered when everything before is durable.
    Flush(oneshot::Sender<Result<(), JournalLost>>),
    /// Answered with the number of the next chunk when everything before is written; with `None` if nothing is kept.
    End(oneshot::Sender<Result<Option<u32>, JournalLost>>),
    /// The beginning of another run, which takes the place of everything before. Answered when it is durable.
    Restart(Chunk, oneshot::Sender<Result<(), JournalLost>>),
    /// The run has repeated everything that was recorded.
    Live,
    /// The run goes on without a journal, for this reason. A flush after it waits until the task says so.
    GiveUp(String),
}

/// Stores chunks until the journal is dropped.
pub(super) async fn write(
    deps: Arc<RunDeps>,
    of: Arc<JournalTask>,
    mut at: u32,
    mut received: mpsc::UnboundedReceiver<Message>,
) {
    let task = of.run;
    let (mut lost, mut is_given_up, mut is_flushed) = (None, false, true);
    while let Some(first) = received.recv().await {
        let (mut chunks, mut waiting, mut mode, mut is_live) = (Vec::new(), Vec::new(), None, false);
        let (mut given_up, mut ended) = (None, None);
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Chunk(chunk) => chunks.push(chunk),
                Message::Flush(done) => waiting.push(done),
                // The run has ended, so nothing comes after it.
                Message::End(done) => ended = Some(done),
                // The recorder gives no chunks after it.
                Message::GiveUp(reason) => given_up = Some(reason),
                Message::Live => is_live = true,
                // The run waits for it, so nothing comes after it.
                Message::Restart(begin, done) => {
                    (chunks, mode) = (vec![begin], Some(ChunkWrite::Replace));
                    waiting.push(done);
                }
            }
            next = received.try_recv().ok();
        }
        if is_live {
            // Without it, the next loss of its host would count as one more; no reason to stop.
            drop(deps.tasks.change(task.id, &Event::Repeated { fence: task.fence }, &By::host()).await);
        }
        // Nothing leaves the run before it has waited. So what it does not wait for may be flushed later.
        let flush = if waiting.is_empty() { Flush::Later } else { Flush::Now };
        let mode = mode.unwrap_or(ChunkWrite::Append(flush));
        let is_behind = flush == Flush::Now && !is_flushed;
        let bytes = chunks.iter().map(|chunk| chunk.body.len() as u64).sum();
        // A new beginning makes room.
        let grows = bytes > 0 && !is_given_up && matches!(mode, ChunkWrite::Append(_));
        if grows && !deps.tasks.take_journal_bytes(&of.owner, bytes).await.unwrap_or(true) {
            of.is_full.store(true, Ordering::Release);
            given_up = Some(FULL.to_owned());
            chunks.clear();
        }
        if lost.is_none() && !is_given_up && (!chunks.is_empty() || is_behind) {
            is_flushed = flush == Flush::Now;
            let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
            match store(&deps, task, (at, mode), chunks).await {
                Ok(()) => at = at.saturating_add(count),
                Err(why) => lost = Some(why),
            }
        }
        if let Some(reason) = given_up
            && lost.is_none()
        {
            lost = give_up(&deps, task, reason).await.err();
            is_given_up = true;
        }
        for done in waiting {
            // The run may be gone.
            let _ = done.send(lost.map_or(Ok(()), Err));
        }
        if let Some(done) = ended {
            let next = (!is_given_up).then_some(at);
            // The run may be gone.
            let _ = done.send(lost.map_or(Ok(next), Err));
        }
    }
}

/// Stores chunks. Retries while the store cannot be reached and this host has the task.
async fn store(
    deps: &RunDeps,
    task: RunTask,
    (at, how): (u32, ChunkWrite),
    chunks: Vec<Chunk>,
) -> Result<(), JournalLost> {
    let journals = &deps.tasks.journals;
    let mut retry = StoreRetry::new(deps, task);
    loop {
        match journals.write_chunks(task.id, task.fence, at, chunks.clone(), how).await {
            Ok(Appended::Done) => {
                deps.count_journal(&chunks);
                return Ok(());
            }
            Ok(Appended::Fenced | Appended::Gap { .. }) => return Err(JournalLost::Fenced),
            Err(error) => retry.pause(&error).await?,
        }
    }
}

impl RunDeps {
    /// Counts chunks that were stored.
    pub(super) fn count_journal(&self, chunks: &[Chunk]) {
        let entries = chunks.iter().map(|chunk| u64::from(chunk.entries)).sum();
        let bytes = chunks.iter().map(|chunk| chunk.body.len() as u64).sum();
        self.observers.metrics.count_flush(entries, bytes);
        self.tasks.count_journal_bytes(bytes);
    }
}

/// Stores that the task does not resume. Until then another run would repeat what the run does without its journal.
async fn give_up(deps: &RunDeps, task: RunTask, why: String) -> Result<(), JournalLost> {
    let event = Event::Unresumable { fence: task.fence, why };
    let mut retry = StoreRetry::new(deps, task);
    loop {
        match deps.tasks.change(task.id, &event, &By::host()).await {
            Ok(CommitOutcome::Done(_) | CommitOutcome::Refused(_, Refusal::NotResumable)) => return Ok(()),
            Ok(CommitOutcome::Refused(..) | CommitOutcome::Gone) => return Err(JournalLost::Fenced),
            Err(error) => retry.pause(&error).await?,
        }
    }
}

/// The pauses between attempts of a run to reach the store.
pub(super) struct StoreRetry<'a> {
    deps: &'a RunDeps,
    task: RunTask,
    pause: Duration,
}

impl<'a> StoreRetry<'a> {
    pub(super) const fn new(deps: &'a RunDeps, task: RunTask) -> Self {
        Self { deps, task, pause: Duration::from_millis(20) }
    }

    /// Waits for the next attempt.
    ///
    /// # Errors
    /// If this host does not have the task any more.
    pub(super) async fn pause(&mut self, error: &StoreError) -> Result<(), JournalLost> {
        let RunTask { id, fence, expires_at, .. } = self.task;
        log_store_retry(Some(id), error);
        if self.deps.clock.now() >= expires_at || self.deps.node.current() != Some(fence.incarnation) {
            return Err(JournalLost::Unavailable);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_secs(5));
        Ok(())
    }
}
