//! Work stealing between hosts on one store: hosts publish their components, and a host with room
//! runs tasks that wait for a slot on another one.
//!
//! Not here: tasks of dead hosts, which is [`crate::cluster::recovery`].

use crate::cluster::Cluster;
use crate::cluster::recovery::Adoption;
use std::sync::atomic::Ordering;
use toolyard_task::store::TaskQuestion;
use toolyard_task::{Event, Incarnation, StoreError, TaskId};

/// Tasks that are taken over at once.
const MAX_TAKEN_AT_ONCE: u32 = 64;

impl Cluster {
    /// Tells the other hosts which components this host has, if that has changed. Hosts on other
    /// machines know this host from then on, even if it has not taken a task yet.
    pub(crate) async fn tell_components(&self, to_all: bool) -> Result<(), StoreError> {
        let stays = self.deps.settings.adopts && !self.deps.slots.closing.is_set();
        let me = match self.deps.node.current() {
            Some(me) => me,
            None if self.deps.node.is_shared && stays => self.deps.node.ensure_registered().await?,
            None => return Ok(()),
        };
        let announced = self.announced.load(Ordering::Relaxed);
        if announced == me.0 && !to_all {
            return Ok(());
        }
        self.deps.node.store.renew(me, Some(&self.deps.catalog.components())).await?;
        self.announced.store(me.0, Ordering::Relaxed);
        Ok(())
    }

    /// Takes tasks over that wait on other hosts, as far as there is room for them here.
    pub(crate) async fn help_others(&self) -> Result<(), StoreError> {
        if !self.deps.settings.shares || !self.deps.settings.adopts || self.deps.slots.closing.is_set() {
            return Ok(());
        }
        let spare = self.deps.slots.admission.spare().min(MAX_TAKEN_AT_ONCE);
        if spare == 0 {
            return Ok(());
        }
        let me = self.deps.node.ensure_registered().await?;
        let waiting = TaskQuestion::WaitingElsewhere { than: me, components: self.deps.catalog.components() };
        for id in self.deps.tasks.store.select(waiting, spare).await? {
            if self.deps.slots.admission.spare() == 0 {
                break;
            }
            self.take_waiting(id, me).await?;
        }
        Ok(())
    }

    async fn take_waiting(&self, id: TaskId, me: Incarnation) -> Result<(), StoreError> {
        let Some(read) = self.deps.tasks.store.read(id, None).await? else { return Ok(()) };
        let task = read.task;
        let Some(tool) = self.deps.catalog.tool(&task.tool) else { return Ok(()) };
        // This host may have another plugin of the same component, but not this tool.
        if !task.waits() || task.fence.incarnation == me || tool.spec().digest != task.digest {
            return Ok(());
        }
        let taking = Event::Taken { from: task.fence.incarnation, by: me };
        self.adopt(task, tool, Adoption::TakeOver(taking), me).await.map(drop)
    }
}
