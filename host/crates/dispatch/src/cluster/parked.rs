//! Tasks that wait without a run: this host takes those that are due, as many as it has room for.

use crate::cluster::Cluster;
use crate::cluster::recovery::Taking;
use crate::observe::metrics::MeasuredTool;
use crate::slots::admission::SlotRequest;
use futures_util::StreamExt as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::store::StoreError;
use toolyard_task::{Task, TaskId};

/// Tasks that are taken at once.
const AT_ONCE: usize = 64;
/// How long a task is left alone whose tool this host does not have.
const LEFT_ALONE: Duration = Duration::from_secs(5);
/// How long a task is left alone for whose run there is no slot.
const LEFT_FOR_OTHERS: Duration = Duration::from_secs(1);
/// How long one attempt waits for a component that is not in memory.
const LOADING: Duration = Duration::from_secs(1);
/// The most tasks that are left alone. With more of them, others that are due wait for them.
const MAX_LEFT: usize = 10_000;

/// The parked tasks that this host leaves alone for now.
#[derive(Default)]
pub(super) struct ParkedTasks {
    /// Those that this host cannot take, and until when they are left alone.
    left: HashMap<TaskId, Instant>,
}

/// The outcome of an attempt to wake a task that was due.
enum WakeOutcome {
    /// It has a run, here or elsewhere, or is not due any more.
    Settled,
    /// This host cannot take it for so long.
    Left(Duration),
}

impl Cluster {
    /// Takes parked tasks that are due, and continues them.
    pub(super) async fn wake_parked(&self, parked: &mut ParkedTasks) -> Result<(), StoreError> {
        let slots = &self.deps.slots;
        if !self.deps.settings.adopts || slots.leaving.is_set() || slots.closing.is_set() {
            return Ok(());
        }
        let room = self.deps.slots.admission.free().min(AT_ONCE as u32);
        if room == 0 {
            // The end of a run looks again.
            return Ok(());
        }
        let now = Instant::now();
        parked.left.retain(|_, until| now < *until);
        let left = u32::try_from(parked.left.len()).unwrap_or(u32::MAX);
        let mut due = self.deps.tasks.store.wakeable(room.saturating_add(left)).await?;
        due.retain(|id| !parked.left.contains_key(id));
        due.truncate(room as usize);
        if due.len() == room as usize {
            // There may be more.
            self.deps.tasks.due.notify_one();
        }
        let mut waking = futures_util::stream::iter(due)
            .map(async |id| (id, self.wake(id).await))
            .buffer_unordered(AT_ONCE);
        let mut failed = Ok(());
        // To the end even after an error: a task that was taken must get its run.
        while let Some((id, woken)) = waking.next().await {
            match woken {
                Ok(WakeOutcome::Left(time)) if parked.left.len() < MAX_LEFT => {
                    parked.left.insert(id, now + time);
                }
                Ok(WakeOutcome::Settled | WakeOutcome::Left(_)) => {}
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
        let Some(tool) = self.tool_of_journal(&task).await else { return Ok(WakeOutcome::Left(LEFT_ALONE)) };
        let by = self.deps.node.ensure_registered().await?;
        // A task that was parked has begun, so its call is approved.
        let permit = self.deps.access.permit_accepted(&task, tool.clone());
        let slot = SlotRequest::of_call(&permit).ok();
        let Some(Ok(slot)) = slot.map(|request| self.deps.slots.admission.admit(request)) else {
            return Ok(WakeOutcome::Left(LEFT_FOR_OTHERS));
        };
        self.adopt(task, tool, Taking::Woken(slot), by).await?;
        Ok(WakeOutcome::Settled)
    }
}
