//! Which question of a task is out on which line. What was asked stands in the
//! store; where it went is known to this process only.

use crate::client::client_channel::{Line, Presence};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use toolyard_task::{Task, TaskId};

/// The questions that are out.
#[derive(Default)]
pub(crate) struct Desk {
    by_task: Mutex<BTreeMap<TaskId, BTreeMap<String, Out>>>,
}

/// One question.
#[derive(Default)]
struct Out {
    /// Somebody is about to send it.
    claimed: bool,
    /// It goes out without naming its task (IR-9).
    bare: bool,
    /// The lines it went out on and under which id, the latest last.
    lines: Vec<(String, Arc<dyn Line>)>,
    /// The request that the client has answered: not to be withdrawn.
    answered: Option<String>,
}

/// The right to send a question: nobody else sends it meanwhile (H-20).
pub(crate) struct Claim<'a> {
    desk: &'a Desk,
    task: TaskId,
    key: String,
    /// Whether the question must not name its task.
    pub bare: bool,
}

impl Desk {
    /// The right to send this question on `line`, unless it is out on one where it may
    /// still be answered: with somebody at the other end, or whose other end went away
    /// less than `patience` ago (IR-7).
    ///
    /// What went out before goes out again only to somebody who is there: the waits
    /// of clients that have left would else ask it anew in turn, until the requests that
    /// those clients did see are forgotten.
    pub fn claim(&self, task: TaskId, key: &str, patience: Duration, line: &dyn Line) -> Option<Claim<'_>> {
        let mut by_task = self.lock();
        let out = by_task.entry(task).or_default().entry(key.to_owned()).or_default();
        let is_out = out.lines.last().is_some_and(|(_, line)| match line.presence() {
            Presence::There => true,
            Presence::AwayFor(time) => time < patience,
            Presence::Gone => false,
        });
        let to_nobody = !out.lines.is_empty() && line.presence() != Presence::There;
        if out.claimed || is_out || to_nobody || out.answered.is_some() {
            return None;
        }
        out.claimed = true;
        Some(Claim { desk: self, task, key: key.to_owned(), bare: out.bare })
    }

    /// How many questions are out, or about to go out.
    pub fn open(&self) -> usize {
        self.lock().values().map(BTreeMap::len).sum()
    }

    /// The client has answered this request.
    pub fn answered(&self, task: TaskId, key: &str, request_id: &str) {
        if let Some(out) = self.lock().get_mut(&task).and_then(|keys| keys.get_mut(key)) {
            out.answered = Some(request_id.to_owned());
        }
    }

    /// The client mistook our task for one of its own: next time the question goes
    /// out without it. False if that was tried already.
    pub fn without_task(&self, task: TaskId, key: &str) -> bool {
        let mut by_task = self.lock();
        let Some(out) = by_task.get_mut(&task).and_then(|keys| keys.get_mut(key)) else { return false };
        let first = !out.bare;
        out.bare = true;
        out.lines.clear();
        first
    }

    /// Takes back what is out for questions of this task that no longer wait.
    pub fn settle(&self, task: &Task) {
        let mut settled = Vec::new();
        {
            let mut by_task = self.lock();
            let Entry::Occupied(mut keys) = by_task.entry(task.id) else { return };
            keys.get_mut().retain(|key, out| {
                let open = task.open_questions().any(|question| question.key == *key);
                if !open {
                    settled.push(std::mem::take(out));
                }
                open
            });
            if keys.get().is_empty() {
                keys.remove();
            }
        }
        for out in settled {
            for (id, line) in out.lines.iter().filter(|(id, _)| out.answered.as_ref() != Some(id)) {
                line.withdraw(id, "The question is no longer open.", Some(task.id));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TaskId, BTreeMap<String, Out>>> {
        self.by_task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim<'_> {
    /// The question is out. If it was settled while it was being sent, it is taken
    /// back at once.
    pub fn delivered(self, request_id: String, line: Arc<dyn Line>) {
        {
            let mut by_task = self.desk.lock();
            if let Some(out) = by_task.get_mut(&self.task).and_then(|keys| keys.get_mut(&self.key)) {
                out.lines.push((request_id, line));
                return;
            }
        }
        line.withdraw(&request_id, "The question is no longer open.", Some(self.task));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut by_task = self.desk.lock();
        let Some(keys) = by_task.get_mut(&self.task) else { return };
        if let Some(out) = keys.get_mut(&self.key) {
            out.claimed = false;
            // Nothing is kept of a question that never left.
            if out.lines.is_empty() && !out.bare {
                keys.remove(&self.key);
            }
        }
        if keys.is_empty() {
            by_task.remove(&self.task);
        }
    }
}
