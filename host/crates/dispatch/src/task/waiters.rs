//! Waiters for changes of tasks. A wake-up is a hint: on waking, read again.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use toolyard_task::TaskId;

/// The waiters, by task.
#[derive(Default)]
pub(crate) struct Waiters {
    by_task: Mutex<BTreeMap<TaskId, (usize, Arc<Notify>)>>,
    /// Grows with every wake-up, for those who look at many tasks.
    changes: watch::Sender<u64>,
}

/// A waiter. To miss nothing: watch, then read, then wait.
pub(crate) struct TaskWatch<'a> {
    waiters: &'a Waiters,
    id: TaskId,
    notify: Arc<Notify>,
}

impl Waiters {
    pub fn watch(&self, id: TaskId) -> TaskWatch<'_> {
        let mut by_task = self.by_task.lock();
        let (count, notify) = by_task.entry(id).or_insert_with(|| (0, Arc::new(Notify::new())));
        *count += 1;
        let notify = notify.clone();
        drop(by_task);
        TaskWatch { waiters: self, id, notify }
    }

    /// Whether someone waits for this task.
    pub fn has(&self, id: TaskId) -> bool {
        self.by_task.lock().contains_key(&id)
    }

    pub fn wake(&self, id: TaskId) {
        let notify = self.by_task.lock().get(&id).map(|(_, notify)| notify.clone());
        if let Some(notify) = notify {
            notify.notify_waiters();
        }
        self.count_change();
    }

    /// The tasks with waiters.
    pub fn ids(&self) -> Vec<TaskId> {
        self.by_task.lock().keys().copied().collect()
    }

    pub fn wake_all(&self) {
        let all: Vec<_> = self.by_task.lock().values().map(|(_, notify)| notify.clone()).collect();
        for notify in all {
            notify.notify_waiters();
        }
        self.count_change();
    }

    /// A number that grows with every change that this host makes or hears of.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Counts a change that no waiter waits for.
    pub fn count_change(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl TaskWatch<'_> {
    /// The wake-up to wait for. Enable it before reading the task.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for TaskWatch<'_> {
    fn drop(&mut self) {
        let mut by_task = self.waiters.by_task.lock();
        if let Some((count, _)) = by_task.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                by_task.remove(&self.id);
            }
        }
    }
}
