//! The journal of the run of a task that resumes, as its guest's recorder sees it: chunks go to the store, and a run that
//! waits for long is parked.

use crate::run::deps::RunDeps;
use crate::run::journal_sink::JournalSink;
use crate::run::journal_writer::{Message, StoreRetry};
use crate::run::parking::{PARK_AFTER, PARK_AGAIN, Parking};
use crate::task::commit::CommitOutcome;
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::Timestamp;
use toolyard_task::apply::WAITING_FOR_MEMORY;
use toolyard_task::audit::By;
use toolyard_task::journal::{Chunk, LastChunks};
use toolyard_task::run_journal::{DecidedBy, Divergence, DoubtDecision};
use toolyard_task::timeline::NewEvent;
use toolyard_task::{Event, JournalLost, RunJournal};

/// The journal of a run.
pub(crate) struct TaskJournal {
    deps: Arc<RunDeps>,
    pub(super) sink: JournalSink,
    pub parking: Parking,
    is_stuck: AtomicBool,
}

impl TaskJournal {
    /// The journal of the run whose chunks go into this sink.
    pub(super) fn new(deps: Arc<RunDeps>, sink: JournalSink) -> Self {
        Self { sink, parking: Parking::new(deps.clone()), deps, is_stuck: AtomicBool::new(false) }
    }

    /// Whether the run ends because it cannot continue with its journal.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Acquire)
    }

    /// How long the run waits for an answer before it is parked.
    pub fn park_after(&self) -> Duration {
        self.parking.after(&self.sink)
    }

    /// Waits until a run is to be parked that has waited since `began`.
    pub async fn until_parks(&self, began: Instant) {
        self.parking.until_due(&self.sink, began).await;
    }

    /// Parks the run, unless it is no task yet or a request is under way. `wake` is when it is due; `None` means at an
    /// answer, or at once if no question is open. Never returns if the run is parked.
    pub async fn park(&self, wake: Option<Timestamp>) {
        self.parking.park(&self.sink, wake).await;
    }

    /// Parks the run because its host leaves. Never returns.
    pub async fn leave(&self) {
        self.parking.leave(&self.sink).await;
    }

    /// The last chunks of the journal, which are stored with the end of the task. Waits until all chunks before them are
    /// stored.
    ///
    /// # Errors
    /// If the journal cannot be stored: the end of the run is not that of the task.
    pub async fn last_chunks(&self) -> Result<Option<LastChunks>, JournalLost> {
        let _stays = self.parking.stay().await;
        self.sink.last_chunks().await
    }
}

#[async_trait]
impl RunJournal for TaskJournal {
    async fn past(&self) -> Result<Vec<Chunk>, JournalLost> {
        self.sink.past().await
    }

    fn limit(&self) -> u64 {
        self.sink.terms.limit
    }

    fn is_full(&self) -> bool {
        self.sink.task().is_some_and(|task| task.is_full.load(Ordering::Acquire))
    }

    fn push(&self, chunk: Chunk) {
        self.sink.send(Message::Chunk(chunk));
    }

    fn end(&self, last: Chunk) {
        self.sink.set_last(last);
    }

    async fn flush(&self) -> Result<(), JournalLost> {
        let _stays = self.parking.stay().await;
        self.sink.flush().await
    }

    fn give_up(&self, reason: String) {
        self.sink.send(Message::GiveUp(reason));
    }

    async fn sleep_until(&self, time_ms: u64) {
        let due = Timestamp(i64::try_from(time_ms).unwrap_or(i64::MAX));
        let left = || Duration::from_millis(due.since(self.deps.clock.now()));
        let after = self.park_after();
        // The clock of the store woke it, and that of this host is behind: parked again, it would be woken at once.
        let started_at = self.sink.task().and_then(|task| task.run.started_at);
        let has_come = started_at.is_some_and(|started_at| due <= started_at);
        // Short waits keep their run. The others give it up at once, because nothing ends them earlier.
        while !has_come && left() > after * 2 {
            self.park(Some(due)).await;
            tokio::time::sleep(after).await;
        }
    }

    async fn wait_for_memory(&self) -> bool {
        let Some(task) = self.sink.task().map(|task| task.run) else { return false };
        let pause = u64::try_from(self.park_after().max(PARK_AFTER).as_millis()).unwrap_or(u64::MAX);
        if !self.parking.has_requests() {
            let said = Event::Said { fence: task.fence, message: WAITING_FOR_MEMORY.to_owned() };
            // Only for people, so a failure does not matter.
            drop(self.deps.tasks.change(task.id, &said, &By::host()).await);
        }
        self.park(Some(self.deps.clock.now().plus(pause))).await;
        // A request is under way, or the store fails.
        tokio::time::sleep(PARK_AGAIN).await;
        self.sink.flush().await.is_ok()
    }

    async fn continue_with(&self, begin: Chunk) -> JournalLost {
        let Some(task) = self.sink.task() else { return JournalLost::Unavailable };
        let bytes = begin.body.len() as u64;
        let continued = Event::Continued { fence: task.run.fence };
        match self.deps.tasks.change(task.run.id, &continued, &By::host()).await {
            Ok(CommitOutcome::Done(_)) => {}
            Ok(CommitOutcome::Refused(..) | CommitOutcome::Gone) => return JournalLost::Fenced,
            Err(_) => return JournalLost::Unavailable,
        }
        if let Err(lost) = self.sink.restart(begin).await {
            return lost;
        }
        let pause = self.deps.tasks.pause_before_restart(&task.owner, bytes + self.sink.bytes());
        if pause > PARK_AFTER {
            let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            self.park(Some(self.deps.clock.now().plus(pause))).await;
        }
        // With its run: one that is parked for an instant is woken later than that.
        tokio::time::sleep(pause).await;
        self.park(Some(self.deps.clock.now())).await;
        // The next host continues it, as if this one had stopped.
        JournalLost::Unavailable
    }

    fn live(&self) {
        if self.sink.task().is_some_and(|task| task.run.is_stalled) {
            self.sink.send(Message::Live);
        }
    }

    fn set_requests(&self, under_way: u32) {
        self.parking.set_requests(under_way);
    }

    async fn doubt(&self, request: &str, decision: DoubtDecision, by: DecidedBy<'_>) {
        self.deps.observers.metrics.count_doubt(decision);
        let Some(task) = self.sink.task().map(|task| task.run) else { return };
        let event = NewEvent::doubt(task.fence.attempt, request, decision, by);
        self.deps.tasks.timeline.append(task.id, event);
        let mut retry = StoreRetry::new(&self.deps, task);
        loop {
            match self.deps.tasks.store.read(task.id, None).await {
                Ok(read) => {
                    if let Some(read) = read {
                        self.deps.access.note_doubt(&read.task, request, decision, by);
                    }
                    return;
                }
                Err(error) => {
                    if retry.pause(&error).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn diverged(&self, difference: &Divergence) {
        let task = self.sink.task().map(|task| task.run.id);
        tracing::warn!(
            event = "run.diverged", task = task.map(tracing::field::display), entry = difference.entry,
            difference = %difference, "a run did not repeat its journal"
        );
        self.deps.observers.metrics.diverged.inc();
        self.stuck();
    }

    fn stuck(&self) {
        self.is_stuck.store(true, Ordering::Release);
    }
}
