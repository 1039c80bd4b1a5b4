//! Tasks that wait without a run: this host takes those that are due, as many as it has room for.

use crate::cluster::Cluster;
use crate::cluster::recovery::Adoption;
use crate::observe::metrics::MeasuredTool;
use crate::slots::admission::{LimitReached, SlotRequest};
use futures_util::StreamExt as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::store::TaskQuestion;
use toolyard_task::{StoreError, Task, TaskId};

/// Tasks that are taken at once.
const MAX_WAKES_AT_ONCE: usize = 64;
/// How long a task is left alone whose tool this host does not have.
const LEFT_ALONE: Duration = Duration::from_secs(5);
/// How long a task is left alone for whose run there is no slot, unless its principal has one again.
const LEFT_FOR_OTHERS: Duration = Duration::from_secs(1);
/// How long one attempt waits for a component that is not in memory.
const LOADING: Duration = Duration::from_secs(1);
/// The most tasks that are left alone. With more of them, others that are due wait for them.
const MAX_LEFT: usize = 10_000;

/// The parked tasks that this host leaves alone for now.
#[derive(Default)]
pub(super) struct ParkedTasks {
    /// The tasks that this host cannot take.
    left: HashMap<TaskId, LeftTask>,
}

/// A task that is left alone.
struct LeftTask {
    until: Instant,
    /// The account that has no free slot.
    account: Option<Arc<str>>,
}

impl ParkedTasks {
    /// Forgets those that this host may take now: as many of each account as it has free slots.
    fn look_again(&mut self, free: impl Fn(&Arc<str>) -> u32) {
        let (now, mut freed) = (Instant::now(), HashMap::<Arc<str>, u32>::new());
        self.left.retain(|_, left| {
            let Some(account) = left.account.as_ref().filter(|_| now < left.until) else {
                return now < left.until;
            };
            let free = freed.entry(account.clone()).or_insert_with(|| free(account));
            let stays = *free == 0;
            *free = free.saturating_sub(1);
            stays
        });
    }
}

/// The outcome of an attempt to wake a task that was due.
enum WakeOutcome {
    /// The task has a run, here or elsewhere, or is not due any more.
    Settled,
    /// The host cannot take the task for so long, or until this account has a free slot.
    Left(Duration, Option<Arc<str>>),
}

impl Cluster {
    /// Takes parked tasks that are due, and continues them.
    pub(super) async fn wake_parked(&self, parked: &mut ParkedTasks) -> Result<(), StoreError> {
        let slots = &self.deps.slots;
        // Until the plugins are loaded, the catalog lacks tools that this host has.
        let may = self.deps.settings.adopts && self.deps.catalog.is_loaded();
        if !may || slots.leaving.is_set() || slots.closing.is_set() {
            return Ok(());
        }
        let room = self.deps.slots.admission.free().min(MAX_WAKES_AT_ONCE as u32);
        if room == 0 {
            // The end of a run looks again.
            return Ok(());
        }
        let now = Instant::now();
        parked.look_again(|account| slots.admission.free_of_account(account));
        let left = u32::try_from(parked.left.len()).unwrap_or(u32::MAX);
        let mut due = self.deps.tasks.store.select(TaskQuestion::Wakeable, room.saturating_add(left)).await?;
        due.retain(|id| !parked.left.contains_key(id));
        due.truncate(room as usize);
        if due.len() == room as usize {
            // There may be more.
            self.deps.tasks.due.notify_one();
        }
        let mut waking = futures_util::stream::iter(due)
            .map(async |id| (id, self.wake(id).await))
            .buffer_unordered(MAX_WAKES_AT_ONCE);
        let mut failed = Ok(());
        // To the end even after an error: a task that was taken must get its run.
        while let Some((id, woken)) = waking.next().await {
            match woken {
                Ok(WakeOutcome::Left(time, account)) if parked.left.len() < MAX_LEFT => {
                    parked.left.insert(id, LeftTask { until: now + time, account });
                }
                Ok(WakeOutcome::Settled | WakeOutcome::Left(..)) => {}
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    /// The tool of a task that resumes. The task ends on the component on which it began, under the manifest in force.
    pub(super) async fn tool_of_journal(&self, task: &Task) -> Option<Arc<MeasuredTool>> {
        let tool = self.deps.catalog.tool(&task.tool)?;
        if tool.spec().digest == task.digest {
            return Some(tool);
        }
        // Detached: a compilation goes on after this attempt, and the next one finds it.
        let former = self.deps.slots.tracker.spawn(tool.tool().of_component(task.digest.clone()));
        match tokio::time::timeout(LOADING, former).await {
            Ok(Ok(Ok(former))) => Some(Arc::new(tool.with(former))),
            Ok(Ok(Err(reason))) => {
                tracing::warn!(
                    event = "task.component_missing", task = %task.id, tool = task.tool, digest = %task.digest,
                    reason,
                    "cannot load the component on which a task began"
                );
                None
            }
            // Being loaded, or the engine panicked, which it logs.
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Takes a parked task.
    async fn wake(&self, id: TaskId) -> Result<WakeOutcome, StoreError> {
        let Some(read) = self.deps.tasks.store.read(id, None).await? else { return Ok(WakeOutcome::Settled) };
        let task = read.task;
        // Another host may have taken it meanwhile.
        if task.parked().and_then(|parked| parked.wake).is_none_or(|wake| wake > read.now) {
            return Ok(WakeOutcome::Settled);
        }
        let Some(tool) = self.tool_of_journal(&task).await else {
            self.wait_for_tool(&task).await?;
            return Ok(WakeOutcome::Left(LEFT_ALONE, None));
        };
        let by = self.deps.node.ensure_registered().await?;
        // A task that was parked has begun, so its call is approved.
        let permit = self.deps.access.permit_accepted(&task, tool.clone());
        let Ok(request) = SlotRequest::of_call(&permit) else {
            return Ok(WakeOutcome::Left(LEFT_FOR_OTHERS, None));
        };
        let slot = match self.deps.slots.admission.admit(request) {
            Ok(slot) => slot,
            Err(limit) => {
                let is_full = limit == LimitReached::Principal;
                let account = is_full.then(|| permit.share().account.clone());
                return Ok(WakeOutcome::Left(LEFT_FOR_OTHERS, account));
            }
        };
        self.adopt(task, tool, Adoption::Resume(slot), by).await?;
        Ok(WakeOutcome::Settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_a_principal_take_all_slots_that_become_free_and_no_more() {
        let account: Arc<str> = "alice".into();
        let until = Instant::now() + Duration::from_secs(3600);
        let id = |number: u128| TaskId(uuid::Uuid::from_u128(number));
        let task = |account: Option<&Arc<str>>| LeftTask { until, account: account.cloned() };
        let mut parked = ParkedTasks::default();
        parked.left.extend((0..9).map(|number| (id(number), task(Some(&account)))));
        parked.left.insert(id(9), task(None));
        for (free, left) in [(0, 10), (2, 8), (1, 7), (64, 1), (64, 1)] {
            parked.look_again(|of| if *of == account { free } else { 0 });
            assert_eq!(parked.left.len(), left, "{free} free");
        }
        assert!(parked.left.contains_key(&id(9)), "what stands against it is no slot");
    }
}
