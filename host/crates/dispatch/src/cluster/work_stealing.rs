//! Work for hosts that have room, where several share a store: what they tell each other of
//! their components, and tasks that wait for their turn on one and are run by another.
//!
//! What may not live here: tasks of hosts that are gone, which is [`crate::cluster::recovery`].

use crate::Dispatch;
use std::sync::atomic::Ordering;
use toolyard_task::store::StoreError;
use toolyard_task::{Digest, Event, Incarnation, TaskId};

/// Tasks that are taken over at once.
const AT_ONCE: u32 = 64;

impl Dispatch {
    /// Whether hosts on other machines share the store.
    #[must_use]
    pub fn has_neighbours(&self) -> bool {
        self.stores.tasks.is_shared()
    }

    /// Tells the others which components this host has, if that is news. Where they are on
    /// other machines, they know it from then on, though it may have taken no task yet.
    pub(crate) async fn tell_components(&self, to_all: bool) -> Result<(), StoreError> {
        let stays = self.settings.adopts && !self.closing.is_set();
        let me = match self.membership.current() {
            Some(me) => me,
            None if self.has_neighbours() && stays => self.registered().await?,
            None => return Ok(()),
        };
        let announced = self.announced.load(Ordering::Relaxed);
        if announced == me.0 && !to_all {
            return Ok(());
        }
        self.stores.nodes.announce(me, &self.components()).await?;
        self.announced.store(me.0, Ordering::Relaxed);
        Ok(())
    }

    /// Takes tasks over that wait on other hosts, as far as there is room for them here.
    pub(crate) async fn help_others(&self) -> Result<(), StoreError> {
        if !self.settings.shares || !self.settings.adopts || self.closing.is_set() {
            return Ok(());
        }
        let spare = self.admission.spare().min(AT_ONCE);
        if spare == 0 {
            return Ok(());
        }
        let me = self.registered().await?;
        let waiting = self.stores.tasks.waiting_elsewhere(me, &self.components(), spare).await?;
        for id in waiting {
            if self.admission.spare() == 0 {
                break;
            }
            self.take_waiting(id, me).await?;
        }
        Ok(())
    }

    async fn take_waiting(&self, id: TaskId, me: Incarnation) -> Result<(), StoreError> {
        let Some(read) = self.stores.tasks.read(id, None).await? else { return Ok(()) };
        let task = read.task;
        let Some(tool) = self.offer.load().tool(&task.tool) else { return Ok(()) };
        // Another host has another plugin of the same component, perhaps, but not this tool.
        if !task.waits() || task.fence.incarnation == me || tool.spec().digest != task.digest {
            return Ok(());
        }
        let taking = Event::Taken { from: task.fence.incarnation, by: me };
        self.adopt(task, tool, taking, me).await.map(drop)
    }

    /// The components that tools come from here.
    fn components(&self) -> Vec<Digest> {
        let catalog = self.catalog();
        let mut components: Vec<Digest> = catalog.tools().map(|tool| tool.spec().digest.clone()).collect();
        components.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        components.dedup();
        components
    }
}
