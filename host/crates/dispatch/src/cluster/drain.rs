//! The end: let runs finish, stop those that do not, leave no task behind that
//! claims to be running.

use crate::cluster::Cluster;
use crate::slots::registry::RunKey;
use crate::task::commit::Changed;
use futures_util::StreamExt as _;
use std::ops::AddAssign;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::audit::By;
use toolyard_task::recovery::{Departure, NotRerun, Recovery, recovery};
use toolyard_task::store::StoreError;
use toolyard_task::{Event, TaskId};

/// How long stopped guests may take to let go. They are interrupted at once, so
/// this is a net.
const LET_GO: Duration = Duration::from_secs(5);

/// Tasks that are seen to at once, so that they share commits.
const AT_ONCE: usize = 64;

/// How often it is looked who waits for a slot that will not be given any more.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What becomes of tasks that are not over when a host ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// Those that have not begun, or may be run again, are left to the next host on
    /// the same store; the others are ended.
    HandOver,
    /// All are ended: no other host is to run them.
    End(Departure),
}

/// What a host left unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Calls that were stopped before they had ended: plain ones, and tasks that have
    /// failed for it.
    pub cut: usize,
    /// Tasks that were left to the next host.
    pub handed_over: usize,
}

impl AddAssign for Drained {
    fn add_assign(&mut self, other: Self) {
        self.cut += other.cut;
        self.handed_over += other.handed_over;
    }
}

impl Cluster {
    /// Takes no more calls, lets what runs go on for `grace`, then stops it. Tasks
    /// that did not end are failed with a message that says why, or handed over; tasks
    /// that wait for a slot are seen to at once.
    pub async fn drain(&self, grace: Duration, parting: Parting) -> Drained {
        self.deps.slots.closing.set();
        self.deps.slots.tracker.close();
        let until = Instant::now() + grace;
        // The longest line keeps nobody beyond the grace.
        let by = (parting == Parting::HandOver).then_some(until);
        let mut drained = Drained::default();
        loop {
            // Again and again: a call that was taken in before the end began may still
            // become a task that waits.
            drained += self.part_with(self.deps.slots.runs.unstopped(true), parting, by).await;
            tokio::select! {
                biased;
                () = self.deps.slots.tracker.wait() => break,
                () = tokio::time::sleep_until(until) => break,
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
        if parting == Parting::HandOver {
            // Of these nothing is written: they have not begun, and are found by the next
            // host like those of one that died.
            for key in self.deps.slots.runs.unstopped(true) {
                self.deps.slots.runs.stop_key(key);
                drained.handed_over += 1;
            }
        }
        drained += self.part_with(self.deps.slots.runs.unstopped(false), parting, None).await;
        if tokio::time::timeout(LET_GO, self.deps.slots.tracker.wait()).await.is_err() {
            tracing::error!(runs = self.deps.slots.runs.all().len(), "guests did not let go in time");
        } else if let (Parting::HandOver, Some(incarnation)) = (parting, self.deps.node.current())
            && let Err(error) = self.deps.node.store.resign(incarnation).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "this host could not say that it ends");
        }
        // Who still waits for a task waits for another host.
        self.deps.slots.parted.set();
        drained
    }

    /// Sees to these, as far as the time allows.
    async fn part_with(&self, runs: Vec<RunKey>, parting: Parting, by: Option<Instant>) -> Drained {
        let parted = futures_util::stream::iter(runs).map(|key| self.part(key, parting));
        let sum = async |mut sum: Drained, one| {
            sum += one;
            sum
        };
        let over = async {
            match by {
                Some(by) => tokio::time::sleep_until(by).await,
                None => std::future::pending().await,
            }
        };
        parted.buffer_unordered(AT_ONCE).take_until(over).fold(Drained::default(), sum).await
    }

    /// Sees to one run, and stops it.
    async fn part(&self, key: RunKey, parting: Parting) -> Drained {
        let parted = match key {
            RunKey::Plain(_) => Drained { cut: 1, handed_over: 0 },
            RunKey::Task(id) => self.part_with_task(id, parting).await.unwrap_or_else(|error| {
                tracing::error!(task = %id, error = &error as &dyn std::error::Error, "a task could not be seen to; the next start does it");
                Drained { cut: 1, handed_over: 0 }
            }),
        };
        self.deps.slots.runs.stop_key(key);
        parted
    }

    async fn part_with_task(&self, id: TaskId, parting: Parting) -> Result<Drained, StoreError> {
        let none = Drained::default();
        let Some(read) = self.deps.tasks.store.read(id, None).await? else { return Ok(none) };
        let task = read.task;
        let declared = self.deps.catalog.tool(&task.tool).map(|tool| tool.spec().durability);
        let incarnation = task.fence.incarnation;
        // Another host has claimed it, and this one's run of it just has not been told.
        if self.deps.node.current() != Some(incarnation) {
            return Ok(none);
        }
        let (departure, why) = match (parting, recovery(&task, declared, self.deps.settings.attempts)) {
            (Parting::HandOver, Recovery::Run) => {
                let released = Event::Released { incarnation };
                let released =
                    self.deps.tasks.change(id, &released, &By::host().because("host_stops")).await?;
                if let Changed::Done(task) = &released {
                    tracing::info!(task = %id, tool = task.tool, "task left to the next host");
                }
                let handed_over = usize::from(matches!(released, Changed::Done(_)));
                return Ok(Drained { cut: 0, handed_over });
            }
            (Parting::HandOver, Recovery::End(why)) => (Departure::ShutDown, why),
            (Parting::End(departure), Recovery::Run) => (departure, NotRerun::Left),
            (Parting::End(departure), Recovery::End(why)) => (departure, why),
        };
        let orphaned = Event::Orphaned { incarnation, departure, why };
        match self.deps.tasks.change(id, &orphaned, &By::host().because("host_stops")).await? {
            Changed::Done(task) => {
                tracing::info!(task = %id, tool = task.tool, "task ended because the host stops");
                Ok(Drained { cut: 1, handed_over: 0 })
            }
            Changed::Refused(..) | Changed::Gone => Ok(none),
        }
    }
}
