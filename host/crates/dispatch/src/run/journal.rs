//! The journal of the run of a task that resumes: chunks go to the store in their order and share its commits, and a
//! run that waits for long gives up its place and becomes a row.

use crate::run::as_task::RunTask;
use crate::run::deps::RunDeps;
use crate::run::journal_writer::{JournalShare, Message, StoreRetry, write};
use crate::slots::stop::Stop;
use crate::task::commit::CommitOutcome;
use async_trait::async_trait;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use toolyard_protocol::Timestamp;
use toolyard_task::apply::WAITING_FOR_MEMORY;
use toolyard_task::audit::By;
use toolyard_task::journal::{Chunk, LastChunks};
use toolyard_task::run_journal::{DecidedBy, Divergence, DoubtDecision};
use toolyard_task::task::Resume;
use toolyard_task::timeline::NewEvent;
use toolyard_task::tool::JournalTerms;
use toolyard_task::{Event, JournalLost, Owner, RunJournal, StoreError, TaskId};

/// A run that has waited so long for an answer is parked, if nothing needs it meanwhile.
const PARK_AFTER: Duration = Duration::from_secs(2);
/// The same while others wait for its slot.
const PARK_FOR_OTHERS: Duration = Duration::from_millis(50);
/// A run waits at least this many times as long as it has computed, which its repetition computes again.
const PARK_COST: u32 = 10;
/// The most bytes of the journal of a plain call. A call with more can become a task that does not resume.
const MAX_IN_MEMORY: u64 = 256 << 10;
/// Why a call does not resume that recorded more.
const TOO_MUCH: &str = "it recorded too much before it was a task";
/// How often a host that leaves tries to park a run.
const PARK_AGAIN: Duration = Duration::from_millis(50);
/// Bytes that are read from the store at once.
const PIECE: u64 = 1 << 20;

/// The journal of a run. That of a plain call that may become a task stays in memory until then.
pub(crate) struct TaskJournal {
    deps: Arc<RunDeps>,
    terms: JournalTerms,
    task: OnceLock<RunTask>,
    share: OnceLock<Arc<JournalShare>>,
    keeper: Mutex<Keeper>,
    /// Messages of the run while it is being parked. If it is, another run makes them again.
    held: Mutex<Option<Vec<Message>>>,
    /// The number of the next chunk, once the past was read.
    next: AtomicU32,
    /// Entries of the guest's lane that were pushed, those of earlier runs included.
    entries: AtomicU64,
    /// Those of earlier runs.
    repeated: AtomicU64,
    /// The bytes that this run pushed.
    bytes: AtomicU64,
    requests: AtomicU32,
    /// The processor time of the task, in microseconds.
    spent: AtomicU64,
    /// The last chunk of a run that has ended.
    last: Mutex<Option<Chunk>>,
    is_stuck: AtomicBool,
    /// Held while the run is being parked, so that nothing leaves meanwhile.
    leaving: tokio::sync::Mutex<()>,
    parked: Stop,
}

/// The destination of chunks.
enum Keeper {
    /// The call is plain. While it becomes a task, flushes wait here: from then on, what leaves must be durable.
    Memory { chunks: Vec<Chunk>, bytes: u64, becomes_task: bool, flushes: Vec<Message> },
    /// The call is a task, and nothing was recorded yet.
    Idle,
    /// The writer stores them. The queue is as long as the journal may be, because a guest that records ends at that
    /// limit.
    Writer(mpsc::UnboundedSender<Message>),
    /// The call recorded too much before it was a task, so it cannot resume.
    Nowhere,
}

impl TaskJournal {
    /// For a plain call that may become a task.
    pub fn of_call(deps: Arc<RunDeps>, terms: JournalTerms) -> Self {
        let (chunks, flushes) = (Vec::new(), Vec::new());
        Self::new(deps, terms, Keeper::Memory { chunks, bytes: 0, becomes_task: false, flushes })
    }

    /// For a task that begins or goes on.
    pub fn of_task(deps: Arc<RunDeps>, (task, owner): (RunTask, &Owner), terms: JournalTerms) -> Self {
        let share = OnceLock::from(Arc::new(JournalShare::of(owner)));
        Self { task: OnceLock::from(task), share, ..Self::new(deps, terms, Keeper::Idle) }
    }

    fn new(deps: Arc<RunDeps>, terms: JournalTerms, keeper: Keeper) -> Self {
        Self {
            deps,
            terms,
            task: OnceLock::new(),
            share: OnceLock::new(),
            keeper: Mutex::new(keeper),
            held: Mutex::default(),
            next: AtomicU32::new(0),
            entries: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            requests: AtomicU32::new(0),
            spent: AtomicU64::new(0),
            last: Mutex::default(),
            is_stuck: AtomicBool::new(false),
            leaving: tokio::sync::Mutex::default(),
            parked: Stop::default(),
        }
    }

    /// The state of the task that this call becomes; without [`Resume`] if it cannot resume. Until the value is dropped
    /// or the call is the task, nothing leaves the run.
    pub fn become_task(&self) -> BecomingTask<'_> {
        let mut keeper = self.keeper.lock();
        let resume = match &mut *keeper {
            Keeper::Nowhere => None,
            Keeper::Memory { becomes_task, .. } => {
                *becomes_task = true;
                // At least the first entry: the store may report a failure although it created the task, and then
                // the call goes on as a plain one. No other run must begin it again.
                Some(Resume {
                    reached: self.entries.load(Ordering::Acquire).max(1),
                    retention: self.terms.retention,
                    ..Resume::default()
                })
            }
            Keeper::Idle | Keeper::Writer(_) => {
                Some(Resume { retention: self.terms.retention, ..Resume::default() })
            }
        };
        drop(keeper);
        BecomingTask { journal: self, resume }
    }

    /// The call is this task from now on.
    pub fn set_task(&self, task: RunTask, owner: &Owner) {
        let share = self.share.get_or_init(|| Arc::new(JournalShare::of(owner)));
        if self.task.set(task).is_err() {
            return;
        }
        let mut keeper = self.keeper.lock();
        let messages = match &mut *keeper {
            Keeper::Memory { chunks, flushes, .. } => {
                let chunks = std::mem::take(chunks).into_iter().map(Message::Chunk);
                chunks.chain(std::mem::take(flushes)).collect()
            }
            // It has recorded too much since.
            Keeper::Nowhere => vec![Message::GiveUp(TOO_MUCH.to_owned())],
            Keeper::Idle | Keeper::Writer(_) => return,
        };
        let writer = self.writer(task, share);
        for message in messages {
            // The writer ends with this journal.
            drop(writer.send(message));
        }
        *keeper = Keeper::Writer(writer);
    }

    /// How long the run waits before it is parked.
    pub fn park_after(&self) -> Duration {
        // Its host was lost while it waited, and it waits for the same again: a place would be of no use to it.
        let repeated = self.repeated.load(Ordering::Acquire);
        if repeated > 0 && repeated == self.entries.load(Ordering::Acquire) {
            return PARK_FOR_OTHERS;
        }
        let spent = Duration::from_micros(self.spent.load(Ordering::Acquire));
        let least = if self.deps.slots.admission.has_queue() { PARK_FOR_OTHERS } else { PARK_AFTER };
        least.max(spent.saturating_mul(PARK_COST))
    }

    /// Notes the processor time of a chunk.
    fn note_spent(&self, chunk: &Chunk) {
        if let Ok((head, _)) = chunk.frames(0) {
            self.spent.store(head.cpu_us, Ordering::Release);
        }
    }

    /// Whether the run ends because it cannot continue with its journal.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Acquire)
    }

    /// Waits until the run is parked. Then it must be dropped.
    pub async fn wait_until_parked(&self) {
        self.parked.wait().await;
    }

    pub fn is_parked(&self) -> bool {
        self.parked.is_set()
    }

    /// The last chunks of the journal, which are stored with the end of the task. Waits until all chunks before them are
    /// stored.
    ///
    /// # Errors
    /// If the journal cannot be stored: the end of the run is not that of the task.
    pub async fn last_chunks(&self) -> Result<Option<LastChunks>, JournalLost> {
        let _stays = self.leaving.lock().await;
        let (done, written) = oneshot::channel();
        self.send(Message::End(done));
        let next = written.await.unwrap_or(Err(JournalLost::Unavailable))?;
        let last = self.last.lock().take();
        Ok(next.zip(last).map(|(at, last)| LastChunks { at, chunks: vec![last] }))
    }

    /// Parks the run, unless it is no task yet or a request is under way. `wake` is when it is due; `None` means at an
    /// answer, or at once if no question is open. Never returns if the run is parked.
    pub async fn park(&self, wake: Option<Timestamp>) {
        let Some(task) = self.task.get() else { return };
        let _leaving = self.leaving.lock().await;
        let Some((held, durable)) = self.hold() else { return };
        if !matches!(durable.await, Ok(Ok(()))) {
            return;
        }
        let parked = Event::Parked { fence: task.fence, wake, reached: held.reached };
        match self.deps.tasks.change(task.id, &parked, &By::host()).await {
            Ok(CommitOutcome::Done(_)) => {}
            // By this run itself: the store had reported a failure, but had written.
            Ok(CommitOutcome::Refused(now, _))
                if now.parked().is_some() && now.fence.attempt == task.fence.attempt => {}
            // The task has ended, or cannot resume any more. The run finds out by itself.
            Ok(CommitOutcome::Refused(..) | CommitOutcome::Gone) => return,
            Err(error) => {
                return tracing::debug!(
                    task = %task.id, error = &error as &dyn std::error::Error,
                    "task not parked"
                );
            }
        }
        tracing::debug!(task = %task.id, ?wake, "task parked");
        self.parked.set();
        // With the messages that it held, which another run makes again.
        std::future::pending().await
    }

    /// Holds what the run records from now on, unless a request is under way: a task that is parked must not have
    /// an intent in its journal that nothing followed. Everything recorded before is durable when the receiver says so.
    fn hold(&self) -> Option<(HeldJournal<'_>, oneshot::Receiver<Result<(), JournalLost>>)> {
        let (done, durable) = oneshot::channel();
        let mut held = self.held.lock();
        if self.requests.load(Ordering::Acquire) > 0 {
            return None;
        }
        self.send_now(Message::Flush(done));
        let reached = self.entries.load(Ordering::Acquire);
        *held = Some(Vec::new());
        Some((HeldJournal { journal: self, reached }, durable))
    }

    /// Parks the run because its host leaves. Never returns.
    pub async fn leave(&self) {
        loop {
            self.park(None).await;
            tokio::time::sleep(PARK_AGAIN).await;
        }
    }

    /// The chunks of earlier runs; `None` if another run has the task by now.
    async fn read_past(&self, task: TaskId) -> Result<Option<Vec<Chunk>>, StoreError> {
        let store = &self.deps.tasks.journals;
        let Some(head) = store.journal(task).await? else { return Ok(None) };
        let (mut at, mut past) = (head.first, Vec::new());
        while at < head.next {
            let piece = store.chunks(task, at, PIECE).await?;
            if piece.is_empty() {
                return Ok(None);
            }
            at = at.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX));
            past.extend(piece);
        }
        if let Some(last) = past.last() {
            self.note_spent(last);
        }
        self.next.store(at, Ordering::Release);
        self.entries.store(head.entries, Ordering::Release);
        self.repeated.store(head.entries, Ordering::Release);
        Ok(Some(past))
    }

    /// Waits until all chunks that were pushed are durable.
    async fn write_all(&self) -> Result<(), JournalLost> {
        let (done, durable) = oneshot::channel();
        self.send(Message::Flush(done));
        durable.await.unwrap_or(Err(JournalLost::Unavailable))
    }

    fn send(&self, message: Message) {
        let mut held = self.held.lock();
        match &mut *held {
            Some(held) => held.push(message),
            None => self.send_now(message),
        }
    }

    fn send_now(&self, message: Message) {
        let mut keeper = self.keeper.lock();
        if let Message::Chunk(chunk) = &message {
            self.note_spent(chunk);
            self.entries.fetch_add(chunk.entries.into(), Ordering::AcqRel);
            self.bytes.fetch_add(chunk.body.len() as u64, Ordering::AcqRel);
        }
        if let (Keeper::Idle, Some(task), Some(share)) = (&*keeper, self.task.get(), self.share.get()) {
            *keeper = Keeper::Writer(self.writer(*task, share));
        }
        match (&mut *keeper, message) {
            (Keeper::Writer(writer), message) => {
                // The writer ends with this journal.
                drop(writer.send(message));
            }
            (Keeper::Memory { chunks, bytes, flushes, .. }, Message::Chunk(chunk)) => {
                *bytes += chunk.body.len() as u64;
                chunks.push(chunk);
                if *bytes > MAX_IN_MEMORY {
                    let flushes = std::mem::take(flushes);
                    *keeper = Keeper::Nowhere;
                    answer(flushes);
                }
            }
            (Keeper::Memory { becomes_task: true, flushes, .. }, flush @ Message::Flush(_)) => {
                flushes.push(flush)
            }
            // Nothing of a plain call is durable.
            (Keeper::Memory { .. } | Keeper::Nowhere | Keeper::Idle, Message::Live) => {}
            (Keeper::Memory { .. } | Keeper::Nowhere | Keeper::Idle, Message::Flush(done)) => {
                // The run may be gone.
                let _ = done.send(Ok(()));
            }
            (Keeper::Memory { .. } | Keeper::Nowhere | Keeper::Idle, Message::End(done)) => {
                // The run may be gone.
                let _ = done.send(Ok(None));
            }
            (keeper @ Keeper::Memory { .. }, Message::GiveUp(_)) => {
                if let Keeper::Memory { flushes, .. } = std::mem::replace(keeper, Keeper::Nowhere) {
                    answer(flushes);
                }
            }
            (_, Message::Chunk(_) | Message::Restart(..) | Message::GiveUp(_)) => {}
        }
    }

    fn writer(&self, task: RunTask, share: &Arc<JournalShare>) -> mpsc::UnboundedSender<Message> {
        let (messages, received) = mpsc::unbounded_channel();
        let slots = &self.deps.slots;
        let writer =
            write(self.deps.clone(), (task, share.clone()), self.next.load(Ordering::Acquire), received);
        slots.tracker.spawn_on(writer, &slots.guests);
        messages
    }
}

/// Flushes of a plain call, of which nothing is durable.
fn answer(flushes: Vec<Message>) {
    for flush in flushes {
        if let Message::Flush(done) = flush {
            // The run may be gone.
            let _ = done.send(Ok(()));
        }
    }
}

/// A call that is becoming a task.
pub(crate) struct BecomingTask<'a> {
    journal: &'a TaskJournal,
    /// The state of the task, if it resumes.
    pub resume: Option<Resume>,
}

impl Drop for BecomingTask<'_> {
    fn drop(&mut self) {
        if let Keeper::Memory { becomes_task, flushes, .. } = &mut *self.journal.keeper.lock() {
            // It stays a plain call.
            *becomes_task = false;
            answer(std::mem::take(flushes));
        }
    }
}

/// The journal of a run that is being parked. Dropping this stores everything that the run recorded meanwhile.
struct HeldJournal<'a> {
    journal: &'a TaskJournal,
    /// The entries before.
    reached: u64,
}

impl Drop for HeldJournal<'_> {
    fn drop(&mut self) {
        let mut held = self.journal.held.lock();
        for message in held.take().into_iter().flatten() {
            self.journal.send_now(message);
        }
    }
}

#[async_trait]
impl RunJournal for TaskJournal {
    async fn past(&self) -> Result<Vec<Chunk>, JournalLost> {
        let Some(task) = self.task.get() else { return Ok(Vec::new()) };
        let mut retry = StoreRetry::new(&self.deps, *task);
        loop {
            match self.read_past(task.id).await {
                Ok(past) => return past.ok_or(JournalLost::Fenced),
                Err(error) => retry.pause(&error).await?,
            }
        }
    }

    fn limit(&self) -> u64 {
        self.terms.limit
    }

    fn is_full(&self) -> bool {
        self.share.get().is_some_and(|share| share.is_full.load(Ordering::Acquire))
    }

    fn push(&self, chunk: Chunk) {
        self.send(Message::Chunk(chunk));
    }

    fn end(&self, last: Chunk) {
        *self.last.lock() = Some(last);
    }

    async fn flush(&self) -> Result<(), JournalLost> {
        let _stays = self.leaving.lock().await;
        self.write_all().await
    }

    fn give_up(&self, reason: String) {
        self.send(Message::GiveUp(reason));
    }

    async fn sleep_until(&self, time_ms: u64) {
        let due = Timestamp(i64::try_from(time_ms).unwrap_or(i64::MAX));
        let left = || Duration::from_millis(due.since(self.deps.clock.now()));
        let after = self.park_after();
        // The clock of the store woke it, and that of this host is behind: parked again, it would be woken at once.
        let started_at = self.task.get().and_then(|task| task.started_at);
        let has_come = started_at.is_some_and(|started_at| due <= started_at);
        // Short waits keep their run. The others give it up at once, because nothing ends them earlier.
        while !has_come && left() > after * 2 {
            self.park(Some(due)).await;
            tokio::time::sleep(after).await;
        }
    }

    async fn wait_for_memory(&self) -> bool {
        let Some(task) = self.task.get() else { return false };
        let pause = u64::try_from(self.park_after().max(PARK_AFTER).as_millis()).unwrap_or(u64::MAX);
        if self.requests.load(Ordering::Acquire) == 0 {
            let said = Event::Said { fence: task.fence, message: WAITING_FOR_MEMORY.to_owned() };
            // Only for people, so a failure does not matter.
            drop(self.deps.tasks.change(task.id, &said, &By::host()).await);
        }
        self.park(Some(self.deps.clock.now().plus(pause))).await;
        // A request is under way, or the store fails.
        tokio::time::sleep(PARK_AGAIN).await;
        self.write_all().await.is_ok()
    }

    async fn continue_with(&self, begin: Chunk) -> JournalLost {
        let (Some(task), Some(share)) = (self.task.get(), self.share.get()) else {
            return JournalLost::Unavailable;
        };
        let (entries, bytes) = (u64::from(begin.entries), begin.body.len() as u64);
        let continued = Event::Continued { fence: task.fence };
        match self.deps.tasks.change(task.id, &continued, &By::host()).await {
            Ok(CommitOutcome::Done(_)) => {}
            Ok(CommitOutcome::Refused(..) | CommitOutcome::Gone) => return JournalLost::Fenced,
            Err(_) => return JournalLost::Unavailable,
        }
        let (done, durable) = oneshot::channel();
        self.send(Message::Restart(begin, done));
        if let Err(lost) = durable.await.unwrap_or(Err(JournalLost::Unavailable)) {
            return lost;
        }
        self.entries.fetch_add(entries, Ordering::AcqRel);
        let written = bytes + self.bytes.load(Ordering::Acquire);
        let pause = self.deps.tasks.pause_before_restart(&share.owner, written);
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
        if self.task.get().is_some_and(|task| task.is_stalled) {
            self.send(Message::Live);
        }
    }

    fn set_requests(&self, under_way: u32) {
        self.requests.store(under_way, Ordering::Release);
    }

    async fn doubt(&self, request: &str, decision: DoubtDecision, by: DecidedBy<'_>) {
        self.deps.observers.metrics.count_doubt(decision);
        let Some(task) = self.task.get() else { return };
        let event = NewEvent::doubt(task.fence.attempt, request, decision, by);
        self.deps.tasks.timeline.append(task.id, event);
        let mut retry = StoreRetry::new(&self.deps, *task);
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
        let task = self.task.get().map(|task| task.id);
        tracing::warn!(
            event = "run.diverged", task = task.map(tracing::field::display), entry = difference.entry,
            difference = %difference, "a run did not repeat its journal"
        );
        self.deps.observers.metrics.count_diverged();
        self.stuck();
    }

    fn stuck(&self) {
        self.is_stuck.store(true, Ordering::Release);
    }
}
