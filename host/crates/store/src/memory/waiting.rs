//! Tasks that wait on other hosts, if hosts have leases, and parked tasks that are due.

use super::State;
use std::collections::BTreeMap;
use toolyard_task::wire::{TaskStatus, Timestamp};
use toolyard_task::{Digest, Incarnation, Owner, Task, TaskId};

/// How long a task that was offered to one host is not offered to another (milliseconds).
const OFFER_PAUSE_MS: u64 = 3_000;

impl State {
    pub(super) fn tell_waiting(
        &mut self,
        than: Incarnation,
        components: &[Digest],
        limit: u32,
        now: Timestamp,
    ) -> Vec<TaskId> {
        if self.lease.is_none() {
            return Vec::new();
        }
        self.told.retain(|_, until| *until > now);
        let fits = |task: &&Task| {
            task.waits() && task.fence.incarnation != than && components.contains(&task.digest)
        };
        let waiting = self.live().filter(fits).map(|task| (task.created_at, task));
        let chosen = self.in_turns(waiting, limit);
        self.told.extend(chosen.iter().map(|id| (*id, now.plus(OFFER_PAUSE_MS))));
        chosen
    }

    pub(super) fn wakeable(&mut self, limit: u32, now: Timestamp) -> Vec<TaskId> {
        self.told.retain(|_, until| *until > now);
        let due = self.live().filter_map(|task| Some((task.parked()?.wake?, task)));
        let chosen = self.in_turns(due.filter(|(wake, _)| *wake <= now), limit);
        if self.lease.is_some() {
            self.told.extend(chosen.iter().map(|id| (*id, now.plus(OFFER_PAUSE_MS))));
        }
        chosen
    }

    pub(super) fn asking(&self, owner: &Owner, limit: u32) -> Vec<TaskId> {
        let asks = |task: &&Task| task.owner == *owner && task.status() == TaskStatus::InputRequired;
        let mut asking: Vec<_> = self.live().filter(asks).map(|task| (task.created_at, task.id)).collect();
        asking.sort_unstable();
        asking.truncate(limit as usize);
        asking.into_iter().map(|(_, id)| id).collect()
    }

    /// The tasks among these that were not offered to a host lately: the earliest time first, one owner after
    /// the other.
    fn in_turns<'a>(&self, tasks: impl Iterator<Item = (Timestamp, &'a Task)>, limit: u32) -> Vec<TaskId> {
        let untold = tasks.filter(|(_, task)| !self.told.contains_key(&task.id));
        let mut waiting: Vec<_> = untold.map(|(at, task)| (at, task.id, task.owner.key())).collect();
        waiting.sort_unstable();
        // The position of each task in its owner's queue.
        let mut lines = BTreeMap::<String, u32>::new();
        let mut chosen = Vec::new();
        for (at, id, owner) in waiting {
            let place = lines.entry(owner).or_default();
            chosen.push((*place, at, id));
            *place += 1;
        }
        chosen.sort_unstable();
        chosen.truncate(limit as usize);
        chosen.into_iter().map(|(.., id)| id).collect()
    }
}
