//! Periodic maintenance: ttls, removal, tasks of dead hosts, changes of other hosts in the shared
//! store.

use crate::cluster::Cluster;
use crate::cluster::parked::ParkedTasks;
use crate::slots::stop::StopCause;
use crate::task::commit::CommitOutcome;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use toolyard_task::store::{Hint, Removable, TaskQuestion};
use toolyard_task::{Incarnation, StoreError, TaskId};

const TICK: Duration = Duration::from_millis(250);
/// The number of ticks between two looks at the shared state of hosts and sessions.
const SLOW_TICKS: u32 = 20;
/// How often the host reads a store that other machines share: which hosts live, and which awaited
/// tasks have changed, in case hints are lost.
const LOOK: Duration = Duration::from_secs(1);
/// The number of ticks after which the counts of rate limits are tidied.
const TIDY_TICKS: u32 = 240;
const MAX_DUE_AT_ONCE: u32 = 500;
/// How often the host says which components it needs for tasks that resume. A component stays for an hour after
/// that ([`COMPONENT_KEPT_MS`](toolyard_task::journal::COMPONENT_KEPT_MS)).
const SWEEP: Duration = Duration::from_secs(900);

/// Tidying reads the records of all stored runs. It takes at most this part of the time.
const TIDY_SHARE: u32 = 100;

/// The extra duties of a tick.
struct Tick {
    /// Whether to look at the shared state of hosts and sessions.
    slow: bool,
    /// Whether other machines share the store.
    shared: bool,
    /// Whether to look for changes of other machines.
    look: bool,
}

impl Cluster {
    pub async fn keep_time(&self, stop: CancellationToken) {
        // Concurrently, so that a caller that waits for the end of a task does not also wait for
        // periodic work.
        tokio::join!(
            self.run_ticks(stop.clone()),
            self.wake_due(stop.clone()),
            self.receive_hints(stop.clone()),
            self.receive_broadcasts(stop)
        );
    }

    async fn run_ticks(&self, stop: CancellationToken) {
        let shared = self.deps.node.is_shared;
        let mut seen = HashMap::new();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut count = 0_u32;
        let mut look_at = Instant::now() + LOOK;
        let mut sweep_at = Instant::now() + SWEEP;
        let mut tidy_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            count = count.wrapping_add(1);
            if count.is_multiple_of(TIDY_TICKS) {
                self.deps.access.tidy_rates();
            }
            // By the clock, because ticks are skipped when one takes long; at the nearest tick.
            let now = Instant::now();
            let look = shared && now + TICK / 2 >= look_at;
            if look {
                look_at = now + LOOK;
            }
            if now >= sweep_at {
                sweep_at = now + SWEEP;
                log_failure(self.sweep_components().await);
            }
            let slow = count.is_multiple_of(SLOW_TICKS);
            let tick = Tick { slow, shared, look };
            log_failure(self.tick(&tick, &mut seen).await);
            if slow && now >= tidy_at && self.recovered.get().is_some() {
                let begun = Instant::now();
                log_failure(self.deps.tasks.timeline.tidy_timeline().await);
                tidy_at = Instant::now() + begun.elapsed() * TIDY_SHARE;
            }
        }
    }

    /// Keeps the components of loaded tools that resume, and removes those that nothing needs.
    async fn sweep_components(&self) -> Result<(), StoreError> {
        if !self.deps.settings.adopts || !self.deps.catalog.is_loaded() {
            return Ok(());
        }
        let keep = self.deps.catalog.resuming_components();
        // A process that has not used the store leaves it alone. One that loaded such a tool has used it.
        if !keep.is_empty() || self.recovered.get().is_some() {
            self.deps.tasks.journals.sweep_components(&keep).await?;
        }
        Ok(())
    }

    /// Gives parked tasks a run when they are due.
    async fn wake_due(&self, stop: CancellationToken) {
        let mut parked = ParkedTasks::default();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.deps.tasks.due.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
            log_failure(self.wake_parked(&mut parked).await);
        }
    }

    async fn receive_hints(&self, stop: CancellationToken) {
        let mut hints = self.deps.tasks.store.hints();
        while let Some(Some(hint)) = stop.run_until_cancelled(hints.next()).await {
            log_failure(self.on_hint(hint).await);
        }
    }

    async fn receive_broadcasts(&self, stop: CancellationToken) {
        if !self.deps.node.is_shared {
            return;
        }
        let mut messages = self.deps.node.broadcast.subscribe();
        while let Some(Some(message)) = stop.run_until_cancelled(messages.next()).await {
            self.on_broadcast(&message).await;
        }
    }

    async fn tick(&self, tick: &Tick, seen: &mut HashMap<TaskId, u64>) -> Result<(), StoreError> {
        let Tick { slow, shared, look } = *tick;
        self.deps.access.settle_refusals();
        if look {
            self.deps.node.send_use();
            self.deps.slots.admission.forget_silent();
            self.wake_what_changed(seen).await?;
        }
        if self.recovered.get().is_none() {
            // Other hosts rely on this one even if no client sends it requests, and a call that became
            // a task while it ran has not waited for the recovery.
            if !look && self.deps.node.current().is_none() {
                return Ok(());
            }
            self.recover_once().await?;
        }
        let due = self.deps.tasks.store.select(TaskQuestion::Due, MAX_DUE_AT_ONCE).await?;
        let mut over = Vec::new();
        for id in due {
            match self.deps.tasks.expire(id).await {
                Ok(CommitOutcome::Done(_)) => {}
                // A record that cannot be read is removed after its time, too.
                Ok(CommitOutcome::Refused(..) | CommitOutcome::Gone) | Err(StoreError::Corrupt(_)) => {
                    over.push((id, Vec::new()))
                }
                Err(error) => return Err(error),
            }
        }
        if !over.is_empty() {
            self.deps.tasks.store.remove(over, Removable::Gone).await?;
            self.deps.tasks.waiters.count_change();
        }
        self.deps.tasks.tidy_kept().await?;
        let published = self.deps.catalog.take_published();
        if shared {
            self.tell_components(published).await?;
        }
        if published || slow || look {
            self.recover().await?;
        }
        if published || slow {
            self.recover_strays().await?;
        }
        if shared {
            self.help_others().await?;
        }
        if slow {
            self.sessions.sweep(self.deps.settings.session_idle_ms).await?;
            if self.deps.settings.adopts {
                self.deps.tasks.tidy_journals().await?;
            }
        }
        Ok(())
    }

    /// Another process, or another host, changed something.
    async fn on_hint(&self, hint: Hint) -> Result<(), StoreError> {
        if hint == Hint::Anything {
            self.deps.node.note_other_writer();
        }
        let Some(me) = self.deps.node.current() else {
            self.deps.tasks.waiters.wake_all();
            return Ok(());
        };
        match hint {
            Hint::Task(id) => {
                self.deps.tasks.waiters.wake(id);
                // A run whose record is still being written is not in the store under this host yet.
                let running = if self.deps.slots.runs.is_stored(id) { vec![id] } else { Vec::new() };
                self.stop_unless_held(&running, me).await
            }
            Hint::Anything => {
                self.deps.tasks.waiters.wake_all();
                // Taken before the store is asked: tasks that are stored later are not in its answer
                // and must not be stopped because of that.
                let running = self.deps.slots.runs.stored_tasks();
                self.stop_unless_held(&running, me).await
            }
        }
    }

    /// Wakes the waiters of tasks that have changed since the last look.
    async fn wake_what_changed(&self, seen: &mut HashMap<TaskId, u64>) -> Result<(), StoreError> {
        let waited = self.deps.tasks.waiters.ids();
        if waited.is_empty() {
            seen.clear();
            return Ok(());
        }
        let found: HashMap<TaskId, u64> =
            self.deps.tasks.store.versions(&waited).await?.into_iter().collect();
        for id in
            waited.into_iter().filter(|id| found.get(id).is_none_or(|version| seen.get(id) != Some(version)))
        {
            self.deps.tasks.waiters.wake(id);
        }
        *seen = found;
        Ok(())
    }

    /// Stops the runs whose tasks another host has ended or taken from this incarnation.
    async fn stop_unless_held(&self, running: &[TaskId], me: Incarnation) -> Result<(), StoreError> {
        if running.is_empty() {
            return Ok(());
        }
        let held = self.deps.tasks.store.select(TaskQuestion::HeldBy(me), u32::MAX).await?;
        self.stop_others(running, &held).await
    }

    /// Stops the runs whose tasks this incarnation does not hold.
    pub(crate) async fn stop_others(&self, running: &[TaskId], held: &[TaskId]) -> Result<(), StoreError> {
        let held: HashSet<&TaskId> = held.iter().collect();
        for id in running.iter().filter(|id| !held.contains(id)) {
            if let Some(read) = self.deps.tasks.store.read(*id, None).await? {
                self.deps.tasks.inflight.settle(&read.task);
                self.deps.slots.runs.tell_status(&read.task);
            }
            self.deps.slots.runs.stop(*id, StopCause::Ended);
        }
        Ok(())
    }
}

fn log_failure(done: Result<(), StoreError>) {
    if let Err(error) = done {
        tracing::warn!(
            event = "maintenance.failed",
            error = &error as &dyn std::error::Error,
            "periodic maintenance failed; trying again"
        );
    }
}
