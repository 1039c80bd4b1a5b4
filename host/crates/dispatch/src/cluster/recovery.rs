//! The tasks of hosts that are gone: each is run, for the first time or again, or is ended with a
//! message about what may have happened. Tasks of a living host are never touched.

use crate::client::client_lookup::RecoveredClient;
use crate::cluster::Cluster;
use crate::observe::metrics::{MeasuredTool, ResumedWhy};
use crate::run::client::Client;
use crate::run::run::{CheckedTool, Run};
use crate::run::setup::Setup;
use crate::run::task_run::SlotTurn;
use crate::slots::admission::{Slot, SlotRequest};
use crate::slots::work::RunTarget;
use crate::task::commit::{CommitOutcome, log_end};
use futures_util::{StreamExt as _, TryStreamExt as _};
use std::sync::Arc;
use std::time::Duration;
use toolyard_task::apply::waiting_for_tool;
use toolyard_task::audit::{By, name_of};
use toolyard_task::recovery::{Departure, NotRerun, Recovery, recovery};
use toolyard_task::store::TaskQuestion;
use toolyard_task::tool::ArgumentCheck;
use toolyard_task::{Digest, Event, Incarnation, Owner, StoreError, Task, TaskId};

/// Tasks to recover concurrently, so that they share commits.
const MAX_RECOVERIES_AT_ONCE: usize = 64;
/// The longest time before a task is run again.
const MAX_BACK_OFF: Duration = Duration::from_secs(60);

/// The outcome of the recovery of one task.
pub(crate) enum RecoveryOutcome {
    /// The task has ended.
    Ended,
    /// The task belongs to this host now.
    Claimed,
    /// The task stays as it is: no host can run it now, or another host takes it over. Recovery looks again.
    Left,
}

/// How a task becomes one of this host.
pub(crate) enum Adoption {
    /// The task was parked, and is due. Its run begins at once, in this slot.
    Resume(Slot),
    /// The task was another host's. Its run waits for its turn.
    TakeOver(Event),
}

impl Cluster {
    /// Recovers the tasks of dead hosts before the first answer to a request about a task.
    pub(crate) async fn recover_once(&self) -> Result<(), StoreError> {
        let first = || async {
            self.deps.tasks.load_rejoins().await?;
            self.recover().await
        };
        self.recovered.get_or_try_init(first).await.copied()
    }

    pub async fn recover_now(&self) {
        let seen = match self.recovered.get() {
            Some(()) => self.recover().await,
            None => self.recover_once().await,
        };
        if let Err(error) = seen {
            tracing::warn!(
                event = "cluster.recovery_failed",
                error = &error as &dyn std::error::Error,
                "cannot recover the tasks of dead nodes; trying again"
            );
        }
    }

    pub(crate) async fn recover(&self) -> Result<(), StoreError> {
        for dead in self.deps.node.store.dead().await? {
            if self.deps.node.current() == Some(dead) {
                // The other hosts noticed first that this host had lost its incarnation. It must
                // recover its own tasks under another one, or two runs would have one fence.
                self.deps.node.fence_off(dead);
            }
            let orphans = self.deps.tasks.store.select(TaskQuestion::HeldBy(dead), u32::MAX).await?;
            let seeing = futures_util::stream::iter(orphans).map(async |id| {
                let seen = self.recover_task(id, dead, Departure::Died).await;
                // The other tasks are recovered all the same.
                if let Err(error @ StoreError::Corrupt(_)) = &seen {
                    tracing::error!(event = "task.unreadable", task = %id, error = error as &dyn std::error::Error, "a record cannot be read; its task is left");
                    return Ok(RecoveryOutcome::Left);
                }
                seen
            });
            let (mut ended, mut claimed, mut left) = (0_usize, 0_usize, 0_usize);
            let mut seen = seeing.buffered(MAX_RECOVERIES_AT_ONCE);
            while let Some(seen) = seen.try_next().await? {
                match seen {
                    RecoveryOutcome::Ended => ended += 1,
                    RecoveryOutcome::Claimed => claimed += 1,
                    RecoveryOutcome::Left => left += 1,
                }
            }
            if left == 0 {
                self.deps.node.store.forget(dead).await?;
            }
            if left == 0 || ended + claimed > 0 {
                tracing::info!(
                    event = "cluster.node_recovered", from_node = %dead, claimed, ended, left,
                    "tasks of a dead node recovered"
                );
            }
        }
        Ok(())
    }

    /// Compares the store's tasks of this host with its runs. The store may have reported a failure
    /// of a write that succeeded: then a task may have no run, or a run no task.
    pub(crate) async fn recover_strays(&self) -> Result<(), StoreError> {
        let Some(me) = self.deps.node.current() else { return Ok(()) };
        // Taken before the store is asked: tasks that are stored later are not in its answer.
        let running = self.deps.slots.runs.stored_tasks();
        let held = self.deps.tasks.store.select(TaskQuestion::HeldBy(me), u32::MAX).await?;
        self.stop_others(&running, &held).await?;
        // Checked after the store was asked: a run is registered before its record is written, and
        // forgotten after its end is.
        for id in held.into_iter().filter(|id| !self.deps.slots.runs.has(*id)) {
            // A task that ended since the store was asked is left as it is.
            if let RecoveryOutcome::Ended | RecoveryOutcome::Claimed =
                self.recover_task(id, me, Departure::LostSight).await?
            {
                tracing::warn!(
                    event = "task.run_missing", task = %id,
                    "task had no run on its node; task recovered"
                );
            }
        }
        Ok(())
    }

    /// Recovers one task of a host that does not run it.
    async fn recover_task(
        &self,
        id: TaskId,
        dead: Incarnation,
        departure: Departure,
    ) -> Result<RecoveryOutcome, StoreError> {
        let Some(read) = self.deps.tasks.store.read(id, None).await? else {
            return Ok(RecoveryOutcome::Left);
        };
        let task = read.task;
        if !task.is_live() || task.fence.incarnation != dead {
            return Ok(RecoveryOutcome::Left);
        }
        let tool = self.deps.catalog.tool(&task.tool);
        let declared = tool.as_ref().map(|tool| tool.spec().durability);
        let why = match recovery(&task, declared, self.deps.settings.attempts) {
            Recovery::End(why) => why,
            // The record stays unchanged; another host takes the task over.
            Recovery::Run | Recovery::Resume
                if !self.deps.settings.adopts || self.deps.slots.closing.is_set() =>
            {
                return Ok(RecoveryOutcome::Left);
            }
            Recovery::Resume => match self.tool_of_journal(&task).await {
                None => return self.wait_for_tool(&task).await,
                Some(tool) => {
                    let journal = self.deps.tasks.journals.journal(id).await?;
                    let reached = journal.map_or(0, |journal| journal.entries);
                    if task.resume.is_some_and(|resume| reached < resume.reached) {
                        NotRerun::Incomplete
                    } else {
                        let digest = task.digest.clone();
                        return self.claim(task, tool, digest, reached).await;
                    }
                }
            },
            Recovery::Run => match self.tool_of(&task, tool).await {
                None => return self.wait_for_tool(&task).await,
                Some(tool) => match argument_error(&task, &tool) {
                    Some(what) => NotRerun::Misfit(what),
                    None => {
                        let digest = tool.spec().digest.clone();
                        return self.claim(task, tool, digest, 0).await;
                    }
                },
            },
        };
        let orphaned = Event::Orphaned { incarnation: dead, departure, why };
        match self.deps.tasks.change(id, &orphaned, &By::host().because("host_died")).await? {
            CommitOutcome::Done(task) => {
                log_end(&task, "host_died");
                Ok(RecoveryOutcome::Ended)
            }
            CommitOutcome::Refused(..) | CommitOutcome::Gone => Ok(RecoveryOutcome::Left),
        }
    }

    /// The tool that runs a task: this one, unless the task resumes. Then its journal names the component of all runs,
    /// the first one included.
    async fn tool_of(&self, task: &Task, loaded: Option<Arc<MeasuredTool>>) -> Option<Arc<MeasuredTool>> {
        match task.resume {
            Some(_) => self.tool_of_journal(task).await,
            None => loaded,
        }
    }

    /// Leaves the task until its ttl, because its tool may come back, here or elsewhere. If another
    /// host has the tool, that host takes the task over.
    pub(super) async fn wait_for_tool(&self, task: &Task) -> Result<RecoveryOutcome, StoreError> {
        let hosts = self.deps.node.store.living().await?;
        if hosts.iter().any(|host| host.components.contains(&task.digest)) {
            return Ok(RecoveryOutcome::Left);
        }
        let message = waiting_for_tool(&task.tool);
        if task.status_message.as_ref() != Some(&message) {
            let said = Event::Said { fence: task.fence, message };
            self.deps.tasks.change(task.id, &said, &By::host()).await?;
        }
        Ok(RecoveryOutcome::Left)
    }

    /// Takes the task of a host that is gone.
    async fn claim(
        &self,
        task: Task,
        tool: Arc<MeasuredTool>,
        digest: Digest,
        reached: u64,
    ) -> Result<RecoveryOutcome, StoreError> {
        let by = self.deps.node.ensure_registered().await?;
        let claimed = Event::Claimed { from: task.fence.incarnation, by, digest, reached };
        self.adopt(task, tool, Adoption::TakeOver(claimed), by).await
    }

    /// Takes a task over, which assigns it to this incarnation, and runs it.
    pub(crate) async fn adopt(
        &self,
        task: Task,
        tool: Arc<MeasuredTool>,
        adoption: Adoption,
        by: Incarnation,
    ) -> Result<RecoveryOutcome, StoreError> {
        let permit = self.deps.access.permit_accepted(&task, tool.clone());
        let work = RunTarget::Tool(tool.clone());
        let name = name_of(&task.owner);
        let client = Client {
            channel: Arc::new(RecoveredClient {
                clients: self.deps.clients.clone(),
                session: task.session.clone(),
            }),
            share: permit.share().clone(),
            session: task.session.clone(),
            owner: Some(task.owner.clone()).filter(|owner| *owner != Owner::Anyone),
            principal: None,
            capabilities: task.client_capabilities.clone(),
            progress_token: task.progress_token.clone(),
        };
        let setup = Setup {
            observation: self.deps.observers.observe(&name, tool.spec().name(), &task.arguments),
            ..Setup::new(work, Arc::default(), client)
        };
        let is_checked = check_arguments(&task, &tool) == ArgumentCheck::Fits;
        let run = Run::new(self.deps.clone(), setup);
        let (event, slot) = match adoption {
            Adoption::Resume(slot) => (Event::Woken { by }, Some(slot)),
            Adoption::TakeOver(event) => (event, None),
        };
        // Registered before it is claimed, so that a cancel which finds the record finds
        // the run as well.
        let guard = self.deps.slots.register(Some(task.id), run.registration(), slot.is_none());
        let by_host = match event {
            Event::Claimed { .. } => By::host().because("host_died"),
            _ => By::host(),
        };
        let taken = self.deps.tasks.change(task.id, &event, &by_host).await?;
        let from_node = task.fence.incarnation;
        let CommitOutcome::Done(task) = taken else { return Ok(RecoveryOutcome::Left) };
        run.set_task(&task);
        guard.mark_stored(|| self.deps.node.current() == Some(by));
        let turn = match slot {
            Some(slot) => {
                self.deps.observers.metrics.count_resumed(ResumedWhy::Woken);
                SlotTurn::Now(slot)
            }
            None => {
                let pause = match task.resume {
                    // A task that gets further may be resumed any number of times.
                    Some(resume) => self.back_off(1 + resume.stalled),
                    None => self.back_off(task.fence.attempt),
                };
                if task.resume.is_some() && matches!(event, Event::Claimed { .. }) {
                    self.deps.observers.metrics.count_resumed(ResumedWhy::Claimed);
                }
                self.deps.observers.metrics.claimed.inc();
                tracing::info!(
                    event = "task.recovered", task = %task.id, tool = task.tool,
                    attempt = task.fence.attempt, %from_node, ?pause,
                    "task recovered"
                );
                // Computed from the current task: a changed component needs a new approval.
                match SlotRequest::of_call(&self.deps.access.permit_accepted(&task, tool.clone())) {
                    Ok(request) => SlotTurn::After(pause, request),
                    Err(unapproved) => SlotTurn::Approval(unapproved),
                }
            }
        };
        self.deps.spawn_task(task, CheckedTool { tool, is_checked }, run, turn, guard);
        Ok(RecoveryOutcome::Claimed)
    }

    /// How long a task waits before it runs again. The time doubles with each attempt, because the task
    /// may be the reason why its hosts end.
    fn back_off(&self, attempt: u32) -> Duration {
        let first = Duration::from_millis(self.deps.settings.rerun_after_ms);
        match attempt.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => first.saturating_mul(1 << doublings.min(16)).min(MAX_BACK_OFF),
        }
    }
}

/// The error in the task's arguments, if its tool has changed since.
fn argument_error(task: &Task, tool: &MeasuredTool) -> Option<String> {
    match check_arguments(task, tool) {
        ArgumentCheck::Misfit(what) => Some(what),
        // Its run does the checks that take longer.
        ArgumentCheck::Fits | ArgumentCheck::Unfinished => None,
    }
}

fn check_arguments(task: &Task, tool: &MeasuredTool) -> ArgumentCheck {
    if tool.spec().digest == task.digest { ArgumentCheck::Fits } else { tool.check(&task.arguments) }
}
