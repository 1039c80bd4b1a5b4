//! The destination of the journal of a run: its chunks go to the store in their order and share its commits. The chunks
//! of a plain call that may become a task stay in memory until then.

use crate::run::as_task::RunTask;
use crate::run::deps::RunDeps;
use crate::run::journal_writer::{JournalTask, Message, StoreRetry, write};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use toolyard_task::journal::{Chunk, LastChunks};
use toolyard_task::task::Resume;
use toolyard_task::tool::JournalTerms;
use toolyard_task::{JournalLost, Owner, StoreError, TaskId};

/// The most bytes of the journal of a plain call. A call with more can become a task that does not resume.
const MAX_IN_MEMORY: u64 = 256 << 10;
/// Why a call does not resume that recorded more.
const TOO_MUCH: &str = "it recorded too much before it was a task";
/// Bytes that are read from the store at once.
const PIECE: u64 = 1 << 20;

/// Accepts the chunks of a run.
pub(super) struct JournalSink {
    deps: Arc<RunDeps>,
    pub terms: JournalTerms,
    task: OnceLock<Arc<JournalTask>>,
    destination: Mutex<Destination>,
    /// Messages of the run while it is being parked. If it is, another run makes them again.
    paused: Mutex<Option<Vec<Message>>>,
    /// The number of the next chunk, once the past was read.
    next: AtomicU32,
    /// Entries of the guest's lane that were pushed, those of earlier runs included.
    entries: AtomicU64,
    /// Entries of earlier runs.
    repeated: AtomicU64,
    /// The bytes that this run pushed.
    bytes: AtomicU64,
    /// The processor time of the task, in microseconds.
    spent: AtomicU64,
    /// The last chunk of a run that has ended.
    last: Mutex<Option<Chunk>>,
}

/// The destination of chunks.
enum Destination {
    /// The call is plain. While it becomes a task, flushes wait here: from then on, what leaves must be durable.
    Memory { chunks: Vec<Chunk>, bytes: u64, becomes_task: bool, flushes: Vec<Message> },
    /// The call is a task, and nothing was recorded yet.
    Idle,
    /// The writer stores them. The queue is as long as the journal may be, because a guest that records ends at that
    /// limit.
    Writer(mpsc::UnboundedSender<Message>),
    /// The call recorded too much before it was a task, so it cannot resume.
    Dropped,
}

impl JournalSink {
    /// For a plain call that may become a task.
    pub fn of_call(deps: Arc<RunDeps>, terms: JournalTerms) -> Self {
        let (chunks, flushes) = (Vec::new(), Vec::new());
        Self::new(deps, terms, Destination::Memory { chunks, bytes: 0, becomes_task: false, flushes })
    }

    /// For a task that begins or goes on.
    pub fn of_task(deps: Arc<RunDeps>, task: RunTask, owner: &Owner, terms: JournalTerms) -> Self {
        let task = OnceLock::from(Arc::new(JournalTask::new(task, owner)));
        Self { task, ..Self::new(deps, terms, Destination::Idle) }
    }

    fn new(deps: Arc<RunDeps>, terms: JournalTerms, destination: Destination) -> Self {
        Self {
            deps,
            terms,
            task: OnceLock::new(),
            destination: Mutex::new(destination),
            paused: Mutex::default(),
            next: AtomicU32::new(0),
            entries: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            last: Mutex::default(),
        }
    }

    /// The task, once the run works on one.
    pub fn task(&self) -> Option<&JournalTask> {
        self.task.get().map(AsRef::as_ref)
    }

    /// The state of the task that this call becomes; without [`Resume`] if it cannot resume. Until the value is dropped
    /// or the call is the task, nothing leaves the run.
    pub fn become_task(&self) -> BecomingTask<'_> {
        let retention = self.terms.retention;
        let resume = match &mut *self.destination.lock() {
            Destination::Dropped => None,
            Destination::Memory { becomes_task, .. } => {
                *becomes_task = true;
                // At least the first entry: the store may report a failure although it created the task, and then
                // the call goes on as a plain one. No other run must begin it again.
                let reached = self.entries.load(Ordering::Acquire).max(1);
                Some(Resume { reached, retention, ..Resume::default() })
            }
            Destination::Idle | Destination::Writer(_) => Some(Resume { retention, ..Resume::default() }),
        };
        BecomingTask { sink: self, resume }
    }

    /// The call is this task from now on.
    pub fn set_task(&self, task: RunTask, owner: &Owner) {
        let task = Arc::new(JournalTask::new(task, owner));
        if self.task.set(task.clone()).is_err() {
            return;
        }
        let mut destination = self.destination.lock();
        let messages: Vec<_> = match &mut *destination {
            Destination::Memory { chunks, flushes, .. } => {
                let chunks = std::mem::take(chunks).into_iter().map(Message::Chunk);
                chunks.chain(std::mem::take(flushes)).collect()
            }
            // It has recorded too much since.
            Destination::Dropped => vec![Message::GiveUp(TOO_MUCH.to_owned())],
            Destination::Idle | Destination::Writer(_) => return,
        };
        let writer = self.start_writer(task);
        for message in messages {
            // The writer ends with this journal.
            drop(writer.send(message));
        }
        *destination = Destination::Writer(writer);
    }

    /// The entries that the journal has.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// Whether the run has repeated entries of earlier runs, and recorded none of its own.
    pub fn is_repetition(&self) -> bool {
        let repeated = self.repeated.load(Ordering::Acquire);
        repeated > 0 && repeated == self.entries()
    }

    /// The processor time of the task so far.
    pub fn spent(&self) -> Duration {
        Duration::from_micros(self.spent.load(Ordering::Acquire))
    }

    /// The bytes that this run recorded.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Notes the processor time of a chunk.
    fn note_spent(&self, chunk: &Chunk) {
        if let Ok((head, _)) = chunk.frames(0) {
            self.spent.store(head.cpu_us, Ordering::Release);
        }
    }

    /// The last chunk, which goes to the store with the end of the task.
    pub fn set_last(&self, last: Chunk) {
        *self.last.lock() = Some(last);
    }

    /// The last chunks of the journal, once all chunks before them are stored.
    ///
    /// # Errors
    /// If the journal cannot be stored.
    pub async fn last_chunks(&self) -> Result<Option<LastChunks>, JournalLost> {
        let next = self.ask_writer(Message::End).await?;
        let last = self.last.lock().take();
        Ok(next.zip(last).map(|(at, last)| LastChunks { at, chunks: vec![last] }))
    }

    /// Waits until all chunks that were pushed are durable.
    pub async fn flush(&self) -> Result<(), JournalLost> {
        self.ask_writer(Message::Flush).await
    }

    /// Replaces the journal by the beginning of another run, and waits until that is durable.
    pub async fn restart(&self, begin: Chunk) -> Result<(), JournalLost> {
        let entries = u64::from(begin.entries);
        self.ask_writer(|done| Message::Restart(begin, done)).await?;
        self.entries.fetch_add(entries, Ordering::AcqRel);
        Ok(())
    }

    async fn ask_writer<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, JournalLost>>) -> Message,
    ) -> Result<T, JournalLost> {
        let (done, written) = oneshot::channel();
        self.send(message(done));
        written.await.unwrap_or(Err(JournalLost::Unavailable))
    }

    /// Pauses the journal, unless the run `is_busy`: nothing that the run records from now on is stored before the value
    /// is dropped. Everything recorded before is durable when the receiver says so.
    pub fn pause(
        &self,
        is_busy: impl FnOnce() -> bool,
    ) -> Option<(PausedJournal<'_>, oneshot::Receiver<Result<(), JournalLost>>)> {
        let (done, durable) = oneshot::channel();
        let mut paused = self.paused.lock();
        if is_busy() {
            return None;
        }
        self.send_now(Message::Flush(done));
        *paused = Some(Vec::new());
        Some((PausedJournal { sink: self, reached: self.entries() }, durable))
    }

    /// The chunks of earlier runs.
    ///
    /// # Errors
    /// If another run has the task by now, or the store cannot be reached for as long as the task lives.
    pub async fn past(&self) -> Result<Vec<Chunk>, JournalLost> {
        let Some(task) = self.task() else { return Ok(Vec::new()) };
        let mut retry = StoreRetry::new(&self.deps, task.run);
        loop {
            match self.read_past(task.run.id).await {
                Ok(past) => return past.ok_or(JournalLost::Fenced),
                Err(error) => retry.pause(&error).await?,
            }
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

    pub fn send(&self, message: Message) {
        match &mut *self.paused.lock() {
            Some(paused) => paused.push(message),
            None => self.send_now(message),
        }
    }

    fn send_now(&self, message: Message) {
        let mut destination = self.destination.lock();
        if let Message::Chunk(chunk) = &message {
            self.note_spent(chunk);
            self.entries.fetch_add(chunk.entries.into(), Ordering::AcqRel);
            self.bytes.fetch_add(chunk.body.len() as u64, Ordering::AcqRel);
        }
        // A flush may come before the past was read, when no number of a next chunk is known.
        if let (Destination::Idle, Some(task)) = (&*destination, self.task.get())
            && !matches!(message, Message::Flush(_))
        {
            *destination = Destination::Writer(self.start_writer(task.clone()));
        }
        match (&mut *destination, message) {
            (Destination::Writer(writer), message) => {
                // The writer ends with this journal.
                drop(writer.send(message));
            }
            (Destination::Memory { chunks, bytes, .. }, Message::Chunk(chunk)) => {
                *bytes += chunk.body.len() as u64;
                chunks.push(chunk);
                if *bytes > MAX_IN_MEMORY {
                    destination.give_up();
                }
            }
            (Destination::Memory { becomes_task: true, flushes, .. }, flush @ Message::Flush(_)) => {
                flushes.push(flush);
            }
            (Destination::Memory { .. }, Message::GiveUp(_)) => destination.give_up(),
            // Nothing of a plain call is durable, and nothing of this run was recorded. The run may be gone.
            (_, Message::Flush(done)) => drop(done.send(Ok(()))),
            (_, Message::End(done)) => drop(done.send(Ok(None))),
            (_, Message::Live | Message::Chunk(_) | Message::Restart(..) | Message::GiveUp(_)) => {}
        }
    }

    fn start_writer(&self, task: Arc<JournalTask>) -> mpsc::UnboundedSender<Message> {
        let (messages, received) = mpsc::unbounded_channel();
        let slots = &self.deps.slots;
        let writer = write(self.deps.clone(), task, self.next.load(Ordering::Acquire), received);
        slots.tracker.spawn_on(writer, &slots.guests);
        messages
    }
}

impl Destination {
    /// The call recorded too much to resume.
    fn give_up(&mut self) {
        if let Self::Memory { flushes, .. } = std::mem::replace(self, Self::Dropped) {
            answer(flushes);
        }
    }
}

/// Answers flushes of a plain call, of which nothing is durable.
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
    sink: &'a JournalSink,
    /// The state of the task, if it resumes.
    pub resume: Option<Resume>,
}

impl Drop for BecomingTask<'_> {
    fn drop(&mut self) {
        if let Destination::Memory { becomes_task, flushes, .. } = &mut *self.sink.destination.lock() {
            // It stays a plain call.
            *becomes_task = false;
            answer(std::mem::take(flushes));
        }
    }
}

/// The journal of a run that is being parked. Dropping this stores everything that the run recorded meanwhile.
pub(super) struct PausedJournal<'a> {
    sink: &'a JournalSink,
    /// The entries before.
    pub reached: u64,
}

impl Drop for PausedJournal<'_> {
    fn drop(&mut self) {
        let mut paused = self.sink.paused.lock();
        for message in paused.take().into_iter().flatten() {
            self.sink.send_now(message);
        }
    }
}
