//! Questions about tasks in memory. If hosts have leases, a waiting or parked task is offered to one host at a time.

use super::State;
use std::collections::BTreeMap;
use toolyard_task::store::TaskQuestion;
use toolyard_task::wire::{TaskStatus, Timestamp};
use toolyard_task::{Incarnation, Task, TaskId};

/// How long a task that was offered to one host is not offered to another (milliseconds).
const OFFER_PAUSE_MS: u64 = 3_000;

impl State {
    pub(super) fn select(&mut self, question: TaskQuestion, limit: usize, now: Timestamp) -> Vec<TaskId> {
        self.told.retain(|_, until| *until > now);
        let is_leased = self.lease.is_some();
        match question {
            TaskQuestion::Due => {
                let due = self.tasks.values().map(|task| (task.due_at(), task));
                first(due.filter(|(at, _)| *at <= now), limit)
            }
            TaskQuestion::HeldBy(Incarnation::NOBODY) => Vec::new(),
            TaskQuestion::HeldBy(incarnation) => {
                let held = self.live().filter(|task| task.fence.incarnation == incarnation);
                held.map(|task| task.id).take(limit).collect()
            }
            TaskQuestion::WaitingElsewhere { than, components } => {
                let fits = |task: &&Task| {
                    is_leased
                        && task.waits()
                        && task.fence.incarnation != than
                        && components.contains(&task.digest)
                };
                let waiting = self.live().filter(fits).map(|task| (task.created_at, task));
                let chosen = self.in_turns(waiting, limit);
                self.offer(chosen, now)
            }
            TaskQuestion::Wakeable => {
                let due = self.live().filter_map(|task| Some((task.parked()?.wake?, task)));
                let chosen = self.in_turns(due.filter(|(wake, _)| *wake <= now), limit);
                if is_leased { self.offer(chosen, now) } else { chosen }
            }
            TaskQuestion::Asking(owner) => {
                let asks = |task: &&Task| task.owner == owner && task.status() == TaskStatus::InputRequired;
                first(self.live().filter(asks).map(|task| (task.created_at, task)), limit)
            }
            TaskQuestion::LiveOf(owner) => {
                let live = self.live().filter(|task| owner.has(&task.owner));
                live.map(|task| task.id).take(limit).collect()
            }
            TaskQuestion::EndedJournals => {
                let tasks = self.journals.by_task.keys().filter_map(|id| self.tasks.get(id));
                first(tasks.filter(|task| !task.is_live()).map(|task| (task.updated_at, task)), limit)
            }
        }
    }

    fn offer(&mut self, chosen: Vec<TaskId>, now: Timestamp) -> Vec<TaskId> {
        self.told.extend(chosen.iter().map(|id| (*id, now.plus(OFFER_PAUSE_MS))));
        chosen
    }

    /// The tasks among these that were not offered to a host lately: the earliest time first, one owner after
    /// the other.
    fn in_turns<'a>(&self, tasks: impl Iterator<Item = (Timestamp, &'a Task)>, limit: usize) -> Vec<TaskId> {
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
        chosen.truncate(limit);
        chosen.into_iter().map(|(.., id)| id).collect()
    }
}

/// The tasks with the earliest times.
fn first<'a>(tasks: impl Iterator<Item = (Timestamp, &'a Task)>, limit: usize) -> Vec<TaskId> {
    let mut found: Vec<_> = tasks.map(|(at, task)| (at, task.id)).collect();
    found.sort_unstable();
    found.into_iter().take(limit).map(|(_, id)| id).collect()
}
