//! Tasks that wait on other hosts, if hosts have leases.

use super::State;
use std::collections::BTreeMap;
use toolyard_task::wire::Timestamp;
use toolyard_task::{Digest, Incarnation, TaskId};

/// How long a task that was offered to one host is not offered to another (milliseconds).
const TOLD: u64 = 3_000;

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
        let fits = |task: &&toolyard_task::Task| {
            task.waits() && task.fence.incarnation != than && components.contains(&task.digest)
        };
        let mut waiting: Vec<_> = self
            .live()
            .filter(fits)
            .filter(|task| !self.told.contains_key(&task.id))
            .map(|task| (task.created_at, task.id, task.owner.key()))
            .collect();
        waiting.sort_unstable();
        // The position of each task in its owner's queue.
        let mut lines = BTreeMap::<String, u32>::new();
        let mut chosen = Vec::new();
        for (created, id, owner) in waiting {
            let place = lines.entry(owner).or_default();
            chosen.push((*place, created, id));
            *place += 1;
        }
        chosen.sort_unstable();
        chosen.truncate(limit as usize);
        self.told.extend(chosen.iter().map(|(.., id)| (*id, now.plus(TOLD))));
        chosen.into_iter().map(|(.., id)| id).collect()
    }
}
