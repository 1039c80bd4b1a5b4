//! The end: let runs finish, stop those that do not, leave no task behind that
//! claims to be running.

use crate::cluster::Cluster;
use crate::slots::registry::RunKey;
use crate::slots::stop::StopCause;
use crate::task::commit::{CommitOutcome, log_end};
use futures_util::StreamExt as _;
use std::ops::AddAssign;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::audit::By;
use toolyard_task::recovery::{Departure, NotRerun, Recovery, recovery};
use toolyard_task::{Event, StoreError, TaskId};

/// How long stopped guests may take to end. They are interrupted at once, so this is only a safeguard.
const LET_GO: Duration = Duration::from_secs(5);

/// How long running calls may take to become tasks before the end begins.
const PROMOTION: Duration = Duration::from_secs(1);

/// Tasks to end concurrently, so that they share commits.
const MAX_ENDS_AT_ONCE: usize = 64;

/// How often the host looks for runs that wait for a slot and will not get one.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The fate of unfinished tasks when a host ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainMode {
    /// Tasks that have not begun, or may be run again, are left to the next host on the same
    /// store; the others are ended.
    HandOver,
    /// All are ended, because no other host is to run them; but those that resume are left to the next host on the same
    /// store, which repeats nothing.
    End(Departure),
    /// All are ended: the store goes with the host.
    EndAll,
}

/// The calls that a host left unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainReport {
    /// Calls that were stopped before they had ended: plain ones, and tasks that failed because of it.
    pub cut: usize,
    /// Tasks that were left to the next host.
    pub handed_over: usize,
}

impl AddAssign for DrainReport {
    fn add_assign(&mut self, other: Self) {
        self.cut += other.cut;
        self.handed_over += other.handed_over;
    }
}

impl Cluster {
    pub async fn drain(&self, grace: Duration, mode: DrainMode) -> DrainReport {
        if mode == DrainMode::HandOver {
            self.promote_calls().await;
        }
        self.deps.slots.closing.set();
        self.deps.slots.tracker.close();
        let until = Instant::now() + grace;
        // Even a long queue of tasks must not exceed the grace.
        let by = (mode == DrainMode::HandOver).then_some(until);
        let mut drained = DrainReport::default();
        loop {
            // Repeatedly, because a call that was accepted before the end began may still become a task
            // that waits.
            drained += self.end_runs(self.deps.slots.runs.unstopped(true), mode, by).await;
            tokio::select! {
                biased;
                () = self.deps.slots.tracker.wait() => break,
                () = tokio::time::sleep_until(until) => break,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
        if mode == DrainMode::HandOver {
            // Nothing is written about these: they have not begun, and the next host finds them like
            // the tasks of a dead host.
            for key in self.deps.slots.runs.unstopped(true) {
                self.deps.slots.runs.stop_key(key, StopCause::Ended);
                drained.handed_over += 1;
            }
        }
        drained += self.end_runs(self.deps.slots.runs.unstopped(false), mode, None).await;
        if tokio::time::timeout(LET_GO, self.deps.slots.tracker.wait()).await.is_err() {
            tracing::error!(
                event = "shutdown.runs_not_stopped",
                count = self.deps.slots.runs.all().len(),
                "guests did not stop in time"
            );
        } else if mode != DrainMode::EndAll
            && let Some(incarnation) = self.deps.node.current()
            && let Err(error) = self.deps.node.store.forget(incarnation).await
        {
            tracing::warn!(
                event = "cluster.resign_failed", node = %incarnation,
                error = &error as &dyn std::error::Error,
                "cannot report the end of this node"
            );
        }
        drained.handed_over += self.deps.slots.left.load(Ordering::SeqCst);
        // Callers that still wait for a task have to ask another host.
        self.deps.slots.handed_over.set();
        drained
    }

    /// Running calls of clients without tasks become tasks, so that their clients find out what became of
    /// them. The store may not answer; then the end begins without them.
    async fn promote_calls(&self) {
        let slots = &self.deps.slots;
        slots.leaving.set();
        let until = Instant::now() + PROMOTION;
        while slots.promotable.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Ends these runs, as far as the time allows.
    async fn end_runs(&self, runs: Vec<RunKey>, mode: DrainMode, by: Option<Instant>) -> DrainReport {
        let ended = futures_util::stream::iter(runs).map(|key| self.end_run(key, mode));
        let sum = async |mut sum: DrainReport, one| {
            sum += one;
            sum
        };
        let over = async {
            match by {
                Some(by) => tokio::time::sleep_until(by).await,
                None => std::future::pending().await,
            }
        };
        ended.buffer_unordered(MAX_ENDS_AT_ONCE).take_until(over).fold(DrainReport::default(), sum).await
    }

    /// Ends one run.
    async fn end_run(&self, key: RunKey, mode: DrainMode) -> DrainReport {
        let ended = match key {
            RunKey::Plain(_) => DrainReport { cut: 1, handed_over: 0 },
            RunKey::Task(id) => self.end_task(id, mode).await.unwrap_or_else(|error| {
                tracing::error!(
                    event = "shutdown.task_not_ended", task = %id, error = &error as &dyn std::error::Error,
                    "cannot end task"
                );
                DrainReport { cut: 1, handed_over: 0 }
            }),
        };
        self.deps.slots.runs.stop_key(key, StopCause::Ended);
        ended
    }

    async fn end_task(&self, id: TaskId, mode: DrainMode) -> Result<DrainReport, StoreError> {
        let none = DrainReport::default();
        let Some(read) = self.deps.tasks.store.read(id, None).await? else { return Ok(none) };
        let task = read.task;
        let declared = self.deps.catalog.tool(&task.tool).map(|tool| tool.spec().durability);
        let incarnation = task.fence.incarnation;
        // Another host has claimed it, and the run on this host does not know yet.
        if self.deps.node.current() != Some(incarnation) {
            return Ok(none);
        }
        let (is_left, departure) = match mode {
            DrainMode::HandOver => (true, Departure::ShutDown),
            DrainMode::End(departure) => (task.resume.is_some(), departure),
            DrainMode::EndAll => (false, Departure::ShutDown),
        };
        let why = match recovery(&task, declared, self.deps.settings.attempts) {
            Recovery::Run | Recovery::Resume if is_left => {
                let released = Event::Released { incarnation };
                let released =
                    self.deps.tasks.change(id, &released, &By::host().because("host_stops")).await?;
                if let CommitOutcome::Done(task) = &released {
                    tracing::info!(
                        event = "task.handed_over", task = %id, tool = task.tool,
                        "task left to the next host"
                    );
                }
                let handed_over = usize::from(matches!(released, CommitOutcome::Done(_)));
                return Ok(DrainReport { cut: 0, handed_over });
            }
            Recovery::Run | Recovery::Resume => NotRerun::Left,
            Recovery::End(why) => why,
        };
        let orphaned = Event::Orphaned { incarnation, departure, why };
        match self.deps.tasks.change(id, &orphaned, &By::host().because("host_stops")).await? {
            CommitOutcome::Done(task) => {
                log_end(&task, "host_stops");
                Ok(DrainReport { cut: 1, handed_over: 0 })
            }
            CommitOutcome::Refused(..) | CommitOutcome::Gone => Ok(none),
        }
    }
}
