//! Erasure of a principal's data in memory.

use super::MemoryStore;
use super::timeline::TaskTimeline;
use crate::reencryption::MAX_TASKS;
use async_trait::async_trait;
use toolyard_task::audit::{By, Entry};
use toolyard_task::erasure::{DataOwner, Erasure, Holdings};
use toolyard_task::{SessionId, StoreError, TaskId};

/// The records of a timeline that carry this name.
fn runs(timeline: &TaskTimeline, name: &str) -> u64 {
    timeline.runs.values().filter(|run| run.owner == name).count() as u64
}

#[async_trait]
impl Erasure for MemoryStore {
    async fn holdings(&self, of: &DataOwner) -> Result<Holdings, StoreError> {
        let state = self.state()?;
        let name = of.short_name();
        let mut held = Holdings::default();
        for task in state.tasks.values().filter(|task| of.has(&task.owner)) {
            *(if task.is_live() { &mut held.live_tasks } else { &mut held.tasks }) += 1;
        }
        let timelines = state.timelines.by_task.iter();
        let own = timelines.filter(|(id, _)| state.tasks.get(id).is_none_or(|task| of.has(&task.owner)));
        held.runs = own.map(|(_, timeline)| runs(timeline, &name)).sum();
        held.sessions = state.sessions.values().filter(|session| of.has(&session.owner)).count() as u64;
        held.permissions = state.grants.values().filter(|grant| of.has(&grant.owner)).count() as u64;
        Ok(held)
    }

    async fn erase(&self, of: &DataOwner, by: &By) -> Result<Holdings, StoreError> {
        let mut state = self.state()?;
        let name = of.short_name();
        let mut erased = Holdings::default();
        let ended = state.tasks.values().filter(|task| of.has(&task.owner) && !task.is_live());
        let ended: Vec<TaskId> = ended.map(|task| task.id).take(MAX_TASKS).collect();
        for id in &ended {
            state.remove_task(*id);
            erased.tasks += 1;
        }
        if erased.total() == 0 {
            let super::State { timelines, tasks, .. } = &mut *state;
            timelines.by_task.retain(|id, timeline| {
                let runs = if tasks.contains_key(id) { 0 } else { runs(timeline, &name) };
                erased.runs += runs;
                runs == 0
            });
            let before = state.grants.len();
            state.grants.retain(|_, grant| !of.has(&grant.owner));
            erased.permissions = (before - state.grants.len()) as u64;
            let own = state.sessions.values().filter(|session| of.has(&session.owner));
            let own: Vec<SessionId> = own.map(|session| session.id.clone()).collect();
            for id in &own {
                state.end_session(id);
                erased.sessions += 1;
            }
        }
        if erased.total() > 0 {
            let now = self.shared.clock.now();
            state.keep(now, &[Entry::erased(of, &erased, by)])?;
        }
        drop(state);
        ended.into_iter().for_each(|id| self.changed(id));
        self.shared.written.notify_one();
        Ok(erased)
    }
}
