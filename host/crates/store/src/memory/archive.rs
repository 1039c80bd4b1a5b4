//! Exports and imports all tasks in memory.

use super::MemoryStore;
use super::nodes::Life;
use crate::jsonl::MAX_COUNTER;
use async_trait::async_trait;
use toolyard_task::archive::{Archive, Export, Unreadable, without_journal};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Incarnation, StoreError, Task};

/// The number of tasks returned at a time.
const MAX_ROWS: usize = 256;

#[async_trait]
impl Archive for MemoryStore {
    async fn export(&self) -> Result<Box<dyn Export>, StoreError> {
        let mut all: Vec<Task> = self.state()?.tasks.values().cloned().collect();
        all.sort_by_key(|task| (task.created_at, task.id));
        Ok(Box::new(Snapshot(all.into_iter())))
    }

    async fn import(&self, tasks: Vec<Task>) -> Result<u32, StoreError> {
        let mut taken = Vec::new();
        {
            let mut state = self.state()?;
            let now = self.shared.clock.now();
            for mut task in tasks.into_iter().map(without_journal) {
                if state.tasks.contains_key(&task.id) {
                    continue;
                }
                if task.is_live() {
                    task.fence.incarnation = state.dead_host(task.fence.incarnation, now);
                }
                taken.push(task.id);
                state.put(task);
            }
        }
        taken.iter().for_each(|id| self.changed(*id));
        Ok(u32::try_from(taken.len()).unwrap_or(u32::MAX))
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.shared.clock.now())
    }
}

impl super::State {
    /// The number of a host that is dead here: this number, unless its host is live, or the later
    /// numbers, which follow it, would exceed the bounds of a line.
    fn dead_host(&mut self, former: Incarnation, now: Timestamp) -> Incarnation {
        let dead = match (1..=MAX_COUNTER).contains(&former.0) && !self.lives(former, now) {
            true => former,
            false => Incarnation(self.incarnations + 1),
        };
        self.incarnations = self.incarnations.max(dead.0);
        self.hosts.entry(dead).or_insert(Life::OVER);
        dead
    }
}

struct Snapshot(std::vec::IntoIter<Task>);

#[async_trait]
impl Export for Snapshot {
    async fn next(&mut self) -> Result<Vec<Result<Task, Unreadable>>, StoreError> {
        Ok(self.0.by_ref().take(MAX_ROWS).map(Ok).collect())
    }
}
