//! The tasks of hosts that are gone: each is run, for the first time or again, or is
//! ended with a word about what may have happened. Tasks of a host that lives are
//! never touched.

use crate::client::client_lookup::Reached;
use crate::cluster::Cluster;
use crate::observe::metrics::Measured;
use crate::run::client::Client;
use crate::run::run::Run;
use crate::run::setup::Setup;
use crate::run::task_run::Turn;
use crate::slots::admission::Claim;
use crate::task::commit::Changed;
use futures_util::{StreamExt as _, TryStreamExt as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use toolyard_task::audit::{By, name_of};
use toolyard_task::recovery::{Departure, NotRerun, Recovery, recovery};
use toolyard_task::store::StoreError;
use toolyard_task::tool::Checked;
use toolyard_task::{Event, Incarnation, Owner, Task, TaskId};

/// Tasks that are seen to at once, so that they share commits.
const AT_ONCE: usize = 64;
/// The longest time before a task is run again.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// What was done about one task.
pub(crate) enum Seen {
    /// It is over.
    Ended,
    /// It is this host's now.
    Claimed,
    /// Nothing, for now or for ever.
    Left,
    /// Nothing, because that is for another host to do.
    Unadopted,
}

impl Cluster {
    /// Sees to the tasks of dead hosts before the first request about a task is
    /// answered.
    pub(crate) async fn recover_once(&self) -> Result<(), StoreError> {
        self.recovered.get_or_try_init(|| self.recover()).await.copied()
    }

    /// Sees to the tasks of dead hosts now, where a host need not wait for its first
    /// request, or for the next time that it looks. A store that fails is tried again.
    pub async fn recover_now(&self) {
        let seen = match self.recovered.get() {
            Some(()) => self.recover().await,
            None => self.recover_once().await,
        };
        if let Err(error) = seen {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the tasks of earlier hosts could not be seen to; it is tried again"
            );
        }
    }

    /// Whether there are tasks to be taken over, and this host is one that takes none
    /// over: somebody may want to start one that does.
    #[must_use]
    pub fn unadopted(&self) -> watch::Receiver<bool> {
        self.unadopted.subscribe()
    }

    pub(crate) async fn recover(&self) -> Result<(), StoreError> {
        let mut unadopted = false;
        for dead in self.deps.node.store.dead().await? {
            if self.deps.node.current() == Some(dead) {
                // The others know it before this host does. What it takes over from itself,
                // it takes over as another one, or two of its runs would have one fence.
                self.deps.node.fence_off(dead);
            }
            let orphans = self.deps.tasks.store.held_by(dead).await?;
            let seeing = futures_util::stream::iter(orphans).map(|id| self.see_to(id, dead, Departure::Died));
            let (mut ended, mut claimed, mut left) = (0_usize, 0_usize, 0_usize);
            let mut seen = seeing.buffered(AT_ONCE);
            while let Some(seen) = seen.try_next().await? {
                match seen {
                    Seen::Ended => ended += 1,
                    Seen::Claimed => claimed += 1,
                    Seen::Left => left += 1,
                    Seen::Unadopted => (left, unadopted) = (left + 1, true),
                }
            }
            if left == 0 {
                self.deps.node.store.forget(dead).await?;
            }
            if left == 0 || ended + claimed > 0 {
                tracing::info!(incarnation = %dead, claimed, ended, left, "tasks of a host that stopped were seen to");
            }
        }
        self.unadopted.send_replace(unadopted);
        Ok(())
    }

    /// Compares what is on record as this host's with what it runs: where the store said
    /// that it had failed, and had written all the same, a task may be run by nobody, and
    /// a run may have no task any more.
    pub(crate) async fn see_to_strays(&self) -> Result<(), StoreError> {
        let Some(me) = self.deps.node.current() else { return Ok(()) };
        // Taken before the store is asked: what is stored later is not among the answers.
        let running = self.deps.slots.runs.stored_tasks();
        let held = self.deps.tasks.store.held_by(me).await?;
        self.stop_others(&running, &held).await?;
        // Looked at after the store was asked: a run is registered before its record is
        // written, and forgotten after its end is.
        for id in held.into_iter().filter(|id| !self.deps.slots.runs.has(*id)) {
            // A task that ended since the store was asked is left as it is.
            if let Seen::Ended | Seen::Claimed = self.see_to(id, me, Departure::LostSight).await? {
                tracing::warn!(task = %id, "a task was on record as this host's and did not run; this host has seen to it");
            }
        }
        Ok(())
    }

    /// Sees to one task of a host that does not run it.
    async fn see_to(&self, id: TaskId, dead: Incarnation, departure: Departure) -> Result<Seen, StoreError> {
        let Some(read) = self.deps.tasks.store.read(id, None).await? else { return Ok(Seen::Left) };
        let task = read.task;
        if !task.is_live() || task.fence.incarnation != dead {
            return Ok(Seen::Left);
        }
        let tool = self.deps.catalog.tool(&task.tool);
        let declared = tool.as_ref().map(|tool| tool.spec().durability);
        let why = match recovery(&task, declared, self.deps.settings.attempts) {
            Recovery::End(why) => why,
            // What is on record stays as it was; a host takes it over.
            Recovery::Run if !self.deps.settings.adopts && tool.is_some() => return Ok(Seen::Unadopted),
            Recovery::Run if !self.deps.settings.adopts || self.deps.slots.closing.is_set() => {
                return Ok(Seen::Left);
            }
            Recovery::Run => match tool {
                None => return self.wait_for_tool(&task).await,
                Some(tool) => match misfit(&task, &tool) {
                    Some(what) => NotRerun::Misfit(what),
                    None => {
                        let by = self.deps.node.registered().await?;
                        let (from, digest) = (task.fence.incarnation, tool.spec().digest.clone());
                        return self.adopt(task, tool, Event::Claimed { from, by, digest }, by).await;
                    }
                },
            },
        };
        let orphaned = Event::Orphaned { incarnation: dead, departure, why };
        match self.deps.tasks.change(id, &orphaned, &By::host().because("host_died")).await? {
            Changed::Done(task) => {
                tracing::info!(task = %id, tool = task.tool, "task ended because its host is gone");
                Ok(Seen::Ended)
            }
            Changed::Refused(..) | Changed::Gone => Ok(Seen::Left),
        }
    }

    /// Its tool may come back, here or elsewhere, until its ttl. Where another host has it,
    /// that one takes the task over.
    async fn wait_for_tool(&self, task: &Task) -> Result<Seen, StoreError> {
        let hosts = self.deps.node.store.living().await?;
        if hosts.iter().any(|host| host.components.contains(&task.digest)) {
            return Ok(Seen::Left);
        }
        let message = format!("Waiting for the tool `{}`, which is not loaded now.", task.tool);
        if task.status_message.as_ref() != Some(&message) {
            let said = Event::Said { fence: task.fence, message };
            self.deps.tasks.change(task.id, &said, &By::host()).await?;
        }
        Ok(Seen::Left)
    }

    /// Takes a task over by this event, which makes it this incarnation's, and runs it.
    pub(crate) async fn adopt(
        &self,
        task: Task,
        tool: Arc<Measured>,
        taking: Event,
        by: Incarnation,
    ) -> Result<Seen, StoreError> {
        let permit = self.deps.access.permit_accepted(&task, tool.clone());
        let claim = Claim::of_call(&permit);
        let work = claim.work().clone();
        let name = name_of(&task.owner);
        let client = Client {
            outlet: Arc::new(Reached { clients: self.deps.clients.clone(), session: task.session.clone() }),
            share: permit.share().clone(),
            session: task.session.clone(),
            owner: Some(task.owner.clone()).filter(|owner| *owner != Owner::Anyone),
            by: By::client(),
            capabilities: task.client_capabilities.clone(),
            progress_token: task.progress_token.clone(),
            name: name.clone(),
        };
        let setup = Setup {
            observation: self.deps.observers.observe(&name, tool.spec().name(), &task.arguments),
            is_checked: checked(&task, &tool) == Checked::Fits,
            ..Setup::new(work, Arc::default(), client)
        };
        let run = Run::new(self.deps.clone(), setup);
        // Registered before it is claimed, so that a cancel which finds the record finds
        // the run as well.
        let guard = self.deps.slots.register(Some(task.id), run.registration(), true);
        let taken = self.deps.tasks.change(task.id, &taking, &By::host().because("host_died")).await?;
        let Changed::Done(task) = taken else { return Ok(Seen::Left) };
        run.set_task(&task);
        guard.stored(|| self.deps.node.current() == Some(by));
        self.deps.observers.metrics.task_claimed();
        let pause = self.back_off(task.fence.attempt);
        tracing::info!(task = %task.id, tool = task.tool, attempt = task.fence.attempt, ?pause, "task taken over from another host");
        self.deps.spawn_task(task, tool, run, Turn::After(pause, claim), guard);
        Ok(Seen::Claimed)
    }

    /// How long a task waits before it is run again; doubled with each attempt, since
    /// what it does may be what ends its hosts.
    fn back_off(&self, attempt: u32) -> Duration {
        let first = Duration::from_millis(self.deps.settings.rerun_after_ms);
        match attempt.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => first.saturating_mul(1 << doublings.min(16)).min(LONGEST_BACK_OFF),
        }
    }
}

/// What is wrong with the task's arguments, if its tool is another one by now.
fn misfit(task: &Task, tool: &Measured) -> Option<String> {
    match checked(task, tool) {
        Checked::Misfit(what) => Some(what),
        // Its run checks what takes longer.
        Checked::Fits | Checked::Unfinished => None,
    }
}

fn checked(task: &Task, tool: &Measured) -> Checked {
    if tool.spec().digest == task.digest { Checked::Fits } else { tool.check(&task.arguments) }
}
