//! A run that waits for long gives up its slot: it is dropped, and its task becomes a row in the store, from which
//! another run goes on (resume).

use crate::run::deps::RunDeps;
use crate::run::journal_sink::JournalSink;
use crate::slots::stop::Stop;
use crate::task::commit::CommitOutcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use toolyard_protocol::Timestamp;
use toolyard_task::Event;
use toolyard_task::audit::By;

/// A run that has waited so long for an answer is parked, if nothing needs it meanwhile.
pub(super) const PARK_AFTER: Duration = Duration::from_secs(2);
/// The same while others wait for its slot.
const PARK_FOR_OTHERS: Duration = Duration::from_millis(50);
/// A run waits at least this many times as long as it has computed, which its repetition computes again.
const PARK_COST: u32 = 10;
/// How often a host that leaves tries to park a run.
pub(super) const PARK_AGAIN: Duration = Duration::from_millis(50);
/// How often a run that waits for an answer looks whether others wait for its slot.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(100);

/// When a run is parked, and whether it is.
pub(crate) struct Parking {
    deps: Arc<RunDeps>,
    /// Requests of the guest that are under way.
    requests: AtomicU32,
    /// Held while the run is being parked, so that nothing leaves meanwhile.
    leaving: tokio::sync::Mutex<()>,
    parked: Stop,
}

impl Parking {
    pub fn new(deps: Arc<RunDeps>) -> Self {
        Self {
            deps,
            requests: AtomicU32::new(0),
            leaving: tokio::sync::Mutex::default(),
            parked: Stop::default(),
        }
    }

    pub fn set_requests(&self, under_way: u32) {
        self.requests.store(under_way, Ordering::Release);
    }

    pub fn has_requests(&self) -> bool {
        self.requests.load(Ordering::Acquire) > 0
    }

    /// Waits until the run is parked. Then it must be dropped.
    pub async fn wait_until_parked(&self) {
        self.parked.wait().await;
    }

    pub fn is_parked(&self) -> bool {
        self.parked.is_set()
    }

    /// Keeps the run from being parked. Never returns if it is.
    pub async fn stay(&self) -> MutexGuard<'_, ()> {
        self.leaving.lock().await
    }

    /// How long the run waits before it is parked.
    pub(super) fn after(&self, journal: &JournalSink) -> Duration {
        // Its host was lost while it waited, and it waits for the same again: a place would be of no use to it.
        if journal.is_repetition() {
            return PARK_FOR_OTHERS;
        }
        let least = if self.deps.slots.admission.has_queue() { PARK_FOR_OTHERS } else { PARK_AFTER };
        least.max(journal.spent().saturating_mul(PARK_COST))
    }

    /// Waits until a run is to be parked that has waited since `began`. Others may come to wait for its slot meanwhile.
    pub(super) async fn until_due(&self, journal: &JournalSink, began: Instant) {
        loop {
            let left = self.after(journal).saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LOOK_FOR_OTHERS)).await;
        }
    }

    /// Parks the run, unless it is no task yet or a request is under way. `wake` is when it is due; `None` means at an
    /// answer, or at once if no question is open. Never returns if the run is parked.
    pub(super) async fn park(&self, journal: &JournalSink, wake: Option<Timestamp>) {
        let Some(task) = journal.task().map(|task| task.run) else { return };
        let _leaving = self.leaving.lock().await;
        // A task that is parked must not have an intent in its journal that nothing followed.
        let Some((paused, durable)) = journal.pause(|| self.has_requests()) else { return };
        if !matches!(durable.await, Ok(Ok(()))) {
            return;
        }
        let parked = Event::Parked { fence: task.fence, wake, reached: paused.reached };
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

    /// Parks the run because its host leaves. Never returns.
    pub(super) async fn leave(&self, journal: &JournalSink) {
        loop {
            self.park(journal, None).await;
            tokio::time::sleep(PARK_AGAIN).await;
        }
    }
}
