//! Runs that record what comes from outside, so that they can be repeated exactly.
//!
//! In such a run, the functions that bring chance into a guest ask the [`GuestJournal`] first: the functions of the
//! contract, outgoing HTTP, and, by a linker of its own, clocks, timers and polls. Everything else is a pure function of
//! the calls of the guest, and is simply executed again. A run without a journal pays for the check whether it has one.

use crate::grant::Grants;
use crate::limits::cpu_meter::CpuMeter;
use crate::limits::memory_limiter::MemoryWaiter;
use crate::limits::run_budget::{HeldBytes, RunBudget};
use async_trait::async_trait;
use parking_lot::Mutex;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::watch;
use toolyard_journal::{Begin, DecidedBy, DoubtDecision, FORMAT, RecordError, Recorder, Seed};
use toolyard_manifest::{LimitRow, Limits};
use toolyard_task::{JournalLost, RunJournal};

/// The step of the clocks, in milliseconds.
const STEP: NonZeroU32 = NonZeroU32::MIN;
/// Entries of this many bytes are stored although nothing waits for them.
const FLUSH_BYTES: u64 = 64 << 10;
/// Entries are stored although nothing waits for them, if the last ones were stored so long ago.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// A wait of at least this many milliseconds may be left to the host of the task.
const LONG_MS: u64 = 2_000;

/// Why a run ended that had a journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JournalFailure {
    /// The run did not repeat what was recorded, or the journal cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The journal cannot be stored.
    #[error(transparent)]
    Lost(#[from] JournalLost),
    /// The manifest of its tool has changed since.
    #[error("the manifest of its tool does not say `durability = \"resume\"` any more")]
    NotDeclared,
    /// The host stopped while a request was under way, and the manifest says that the task fails then.
    #[error(
        "the host stopped while `{request}` was under way; whether it was done is not known. It was not sent again"
    )]
    InDoubt {
        /// The method and the URL of the request.
        request: String,
    },
}

/// Reports the error if it is a divergence.
fn tell_diverged(port: &dyn RunJournal, error: &RecordError) {
    if let RecordError::Diverged(difference) = error {
        port.diverged(difference);
    }
}

/// The journal of one run.
pub(crate) struct GuestJournal {
    recorder: Mutex<Recorder>,
    port: Arc<dyn RunJournal>,
    /// Set when the run begins, with the limit of its processor time.
    meter: OnceLock<(Arc<CpuMeter>, Duration)>,
    /// The processor time of earlier runs of the task, in microseconds.
    spent_before: u64,
    /// The processor time of the repetition, in microseconds, from its end on.
    repeated: AtomicU64,
    /// Whether the guest has passed the end of the past.
    live: watch::Sender<bool>,
    failure: OnceLock<JournalFailure>,
    requests: AtomicU32,
    /// Counts the chunks that it repeats, which are in memory.
    _past: HeldBytes,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The time of this host, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl GuestJournal {
    /// The journal of a run: a new one, or the one that it repeats, which counts among the memory of all runs. `begin` has
    /// the conditions of this run.
    ///
    /// # Errors
    /// If it cannot be read, or is that of a call with other arguments.
    pub async fn open(
        port: Arc<dyn RunJournal>,
        begin: Begin,
        memory: &Arc<RunBudget>,
    ) -> Result<Arc<Self>, JournalFailure> {
        let (past, limit) = (port.past().await?, port.limit());
        let mut held = HeldBytes::none(vec![memory.clone()]);
        while !held.draw(past.iter().map(|chunk| chunk.body.len() as u64).sum()) {
            if !port.wait_for_memory().await {
                return Err(JournalLost::Unavailable.into());
            }
        }
        let recorder = match past.is_empty() {
            true => Recorder::new(begin, limit)?,
            false => {
                let mut recorder = Recorder::load(past, limit).map_err(RecordError::from)?;
                recorder
                    .check_arguments(begin.arguments)
                    .inspect_err(|error| tell_diverged(&*port, error))?;
                recorder
            }
        };
        let (live, _) = watch::channel(recorder.is_live());
        Ok(Arc::new(Self {
            spent_before: recorder.cpu_us(),
            repeated: AtomicU64::new(0),
            recorder: Mutex::new(recorder),
            port,
            meter: OnceLock::new(),
            live,
            failure: OnceLock::new(),
            requests: AtomicU32::new(0),
            _past: held,
        }))
    }

    /// The meter of a run that begins. A repetition computes again what was computed before, which does not count
    /// against the limit: it may take ten times as long and ten seconds more.
    pub fn meter(&self, limit: Duration) -> Arc<CpuMeter> {
        const ALLOWANCE: (u32, Duration) = (10, Duration::from_secs(10));
        let before = Duration::from_micros(self.spent_before);
        let left = limit.saturating_sub(before);
        let (times, more) = ALLOWANCE;
        let budget = match self.is_live() {
            true => left,
            false => before.saturating_mul(times).saturating_add(more),
        };
        let meter = Arc::new(CpuMeter::new(budget));
        // A run begins once.
        drop(self.meter.set((meter.clone(), left)));
        meter
    }

    /// Ends the repetition. From here on the limit counts.
    fn begin_live(&self) {
        if let Some((meter, left)) = self.meter.get() {
            let repeated = meter.spent_now();
            meter.set_budget(repeated.saturating_add(*left));
            self.repeated.store(micros(repeated), Ordering::Release);
        }
        self.live.send_replace(true);
        self.port.live();
    }

    /// The conditions under which the run began.
    pub fn begin(&self) -> Begin {
        self.recorder.lock().begin().clone()
    }

    /// The beginning of the run, in milliseconds since 1970.
    pub fn base_time(&self) -> u64 {
        self.recorder.lock().begin().base_time
    }

    /// Why the run cannot go on, if it cannot.
    pub fn failure(&self) -> Option<JournalFailure> {
        self.failure.get().cloned()
    }

    /// Whether what the guest does now happens for the first time.
    pub fn is_live(&self) -> bool {
        *self.live.borrow()
    }

    /// Waits until the guest has passed the end of the past.
    pub async fn until_live(&self) {
        // The sender lives as long as this.
        let _ = self.live.subscribe().wait_for(|live| *live).await;
    }

    /// Asks or tells the recorder.
    ///
    /// # Errors
    /// If the run cannot go on. The error ends the run, and every later operation has the same.
    pub fn with<T>(
        &self,
        mut operation: impl FnMut(&mut Recorder) -> Result<T, RecordError>,
    ) -> wasmtime::Result<T> {
        if let Some(failure) = self.failure.get() {
            return Err(wasmtime::Error::new(failure.clone()));
        }
        let mut recorder = self.recorder.lock();
        if self.port.is_full() && !recorder.is_abandoned() {
            recorder.abandon().map_err(|error| self.fail(error.into()))?;
        }
        let mut done = operation(&mut recorder);
        if let Err(full @ RecordError::Full { .. }) = &done {
            self.port.give_up(full.to_string());
            done = recorder.abandon().and_then(|()| operation(&mut recorder));
        }
        if recorder.is_live() && !self.is_live() {
            self.begin_live();
        }
        let is_due = recorder.unsaved_bytes() > 0
            && now_ms().saturating_sub(recorder.time_ms()) >= FLUSH_INTERVAL.as_millis() as u64;
        if recorder.unsaved_bytes() >= FLUSH_BYTES || is_due {
            self.push(&mut recorder);
        }
        drop(recorder);
        done.map_err(|error| self.fail(error.into()))
    }

    /// Whether requests are under way.
    pub fn has_request(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0
    }

    /// Whether the run goes on without its journal.
    pub fn is_abandoned(&self) -> bool {
        self.port.is_full() || self.recorder.lock().is_abandoned()
    }

    /// Gives everything that was recorded so far to the port, without waiting until it is durable.
    pub fn push_recorded(&self) {
        self.push(&mut self.recorder.lock());
    }

    /// Makes everything durable that was recorded so far.
    ///
    /// # Errors
    /// If the run cannot go on.
    pub async fn commit(&self) -> wasmtime::Result<()> {
        self.push_recorded();
        self.port.flush().await.map_err(|lost| self.fail(lost.into()))
    }

    /// Ends the run with this failure, unless it has one.
    pub fn fail(&self, failure: JournalFailure) -> wasmtime::Error {
        let first = || {
            if let JournalFailure::Record(error) = &failure {
                tell_diverged(&*self.port, error);
            }
            failure
        };
        wasmtime::Error::new(self.failure.get_or_init(first).clone())
    }

    /// Reports a decision about a request that was under way when an earlier run lost its host.
    pub async fn tell_doubt(&self, request: &str, decision: DoubtDecision, by: DecidedBy<'_>) {
        self.port.doubt(request, decision, by).await;
    }

    /// Leaves a long wait until this time to the host of the task, which may park the run meanwhile. Returns early
    /// if it does not, or if the wait is short.
    ///
    /// # Errors
    /// If the run cannot go on.
    pub async fn wait_long(&self, until_ms: u64) -> wasmtime::Result<()> {
        if until_ms.saturating_sub(now_ms()) < LONG_MS {
            return Ok(());
        }
        self.commit().await?;
        self.port.sleep_until(until_ms).await;
        Ok(())
    }

    /// Drops what was recorded, and lets another run of the task begin with this state. Returns only if that fails.
    pub async fn continue_with(&self, state: String) -> wasmtime::Error {
        if let Err(error) = self.commit().await {
            return error;
        }
        let seed = match new_seed() {
            Ok(seed) => seed,
            Err(_) => return self.fail(RecordError::Misuse(NO_RANDOM).into()),
        };
        // Not by `with`, which may make this entry durable. If the host stops before the next journal is durable, the
        // run is repeated and comes here again, and the guest reads no clock before.
        let base_time = self.recorder.lock().clock(now_ms()).unwrap_or_else(|_| now_ms());
        let requests_before = self.recorder.lock().requests_in_task();
        let begin = Begin { seed, base_time, state: Some(state), requests_before, ..self.begin() };
        let mut next = match Recorder::new(begin, self.port.limit()) {
            Ok(next) => next,
            Err(error) => return self.fail(error.into()),
        };
        let chunk = next.take_chunk(now_ms(), self.spent());
        let lost = match chunk {
            Some(chunk) => self.port.continue_with(chunk).await,
            None => JournalLost::Unavailable,
        };
        self.fail(lost.into())
    }

    /// Counts a request as under way until the value is dropped.
    pub fn request(self: &Arc<Self>) -> RequestUnderWay {
        self.port.set_requests(self.requests.fetch_add(1, Ordering::AcqRel) + 1);
        RequestUnderWay(self.clone())
    }

    /// Records the end of the run with the sha256 of its outcome. It becomes durable with the end of the task.
    ///
    /// # Errors
    /// If the run cannot end like this.
    pub fn end(&self, outcome: [u8; 32]) -> Result<(), JournalFailure> {
        let ended = self.with(|recorder| recorder.end(&outcome));
        ended.map_err(|_| self.failure().unwrap_or(JournalFailure::Lost(JournalLost::Unavailable)))?;
        if let Some(last) = self.recorder.lock().take_chunk(now_ms(), self.spent()) {
            self.port.end(last);
        }
        Ok(())
    }

    fn push(&self, recorder: &mut Recorder) {
        if let Some(chunk) = recorder.take_chunk(now_ms(), self.spent()) {
            self.port.push(chunk);
        }
    }

    /// The processor time that the task has spent, in microseconds, without repetitions.
    fn spent(&self) -> u64 {
        let here = self.meter.get().map_or(0, |(meter, _)| micros(meter.spent_now()));
        let repeated = self.repeated.load(Ordering::Acquire);
        self.spent_before.saturating_add(here.saturating_sub(repeated))
    }
}

#[async_trait]
impl MemoryWaiter for GuestJournal {
    async fn wait_for_memory(&self) -> Option<bool> {
        if self.is_abandoned() { None } else { Some(self.port.wait_for_memory().await) }
    }
}

/// A request that is under way.
pub(crate) struct RequestUnderWay(Arc<GuestJournal>);

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        self.0.port.set_requests(self.0.requests.fetch_sub(1, Ordering::AcqRel) - 1);
    }
}

/// The conditions of a run that begins now.
///
/// # Errors
/// If the system gives no random numbers.
pub(crate) fn begin(
    (tool, digest, version): (&str, &str, &str),
    arguments: &[u8],
    grants: &Grants,
    limits: &Limits,
) -> Result<Begin, getrandom::Error> {
    let seed = new_seed()?;
    Ok(Begin {
        format: FORMAT,
        version: version.to_owned(),
        tool: tool.to_owned(),
        digest: digest.to_owned(),
        seed,
        base_time: now_ms(),
        environment: grants
            .plain_environment()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        limits: noticeable().map(|row| (row.key.to_owned(), row.of(limits))).collect(),
        clock_step: STEP,
        arguments: crc32fast::hash(arguments),
        state: None,
        requests_before: 0,
    })
}

/// Why a run without random numbers of the system cannot begin.
pub(crate) const NO_RANDOM: &str = "the system gives no random numbers";

fn new_seed() -> Result<Seed, getrandom::Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    Ok(Seed(seed))
}

/// The limits that a guest can notice: a repetition has those of its first run, or it would take another course.
fn noticeable() -> impl Iterator<Item = &'static LimitRow> {
    const KEYS: [&str; 8] = [
        "memory",
        "table",
        "instances",
        "handles",
        "hostcall",
        "http-requests",
        "http-request",
        "http-response",
    ];
    Limits::ROWS.iter().filter(|row| KEYS.contains(&row.key))
}

/// The limits under which a run goes on: those that a guest can notice are as they were when its call began.
pub(crate) fn limits_of(begin: &Begin, now: &Limits) -> Limits {
    let mut limits = now.clone();
    for row in noticeable() {
        if let Some(was) = begin.limits.get(row.key) {
            row.set(&mut limits, *was);
        }
    }
    limits
}
