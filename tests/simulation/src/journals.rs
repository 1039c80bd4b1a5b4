//! The journals as they were written, and the promises about tasks that resume.

use crate::ledger::Writer;
use crate::saga::{Lines, value_in};
use crate::trace::{Observed as _, demand};
use crate::world::{Seen, short};
use toolyard_dispatch::Timestamp;
use toolyard_task::journal::{Chunk, Flush};
use toolyard_task::recovery::MAX_STALLED;
use toolyard_task::{Fence, Task, TaskId};

/// The journal of a task as it was written.
#[derive(Default)]
pub struct JournalLedger {
    /// The number of the first chunk.
    pub first: u32,
    /// The chunks, since it was last restarted.
    pub chunks: Vec<Chunk>,
    /// The entries of all chunks, those before a restart included.
    entries: u64,
    /// Whether a power failure may lose the last chunks.
    pub has_unflushed: bool,
    /// The entries when the last run lost its host, and how many runs in a row did so with as many.
    lost: (u64, u32),
}

impl JournalLedger {
    fn next(&self) -> u32 {
        self.first + self.chunks.len() as u32
    }

    fn add(&mut self, chunks: &[Chunk]) {
        self.entries += chunks.iter().map(|chunk| u64::from(chunk.entries)).sum::<u64>();
        self.chunks.extend_from_slice(chunks);
    }
}

impl crate::ledger::Ledger {
    /// The journal of a task; empty if it has none.
    pub fn lines(&self, id: TaskId) -> Lines {
        self.entries.get(&id).map(|entry| Lines::of(&entry.journal.chunks)).unwrap_or_default()
    }
}

impl Seen {
    /// Records that chunks were appended to a journal.
    pub fn appended(&mut self, id: TaskId, fence: Fence, at: u32, chunks: &[Chunk], flush: Flush) {
        self.look_at_append(id, fence);
        let Some(entry) = self.ledger.entries.get_mut(&id) else { return };
        let journal = &mut entry.journal;
        journal.has_unflushed = flush == Flush::Later;
        let follows = at == journal.next();
        if follows {
            journal.add(chunks);
        }
        let from = at.checked_sub(journal.first).map(|from| from as usize);
        let stored = from.and_then(|from| journal.chunks.get(from..from + chunks.len()));
        let same = stored == Some(chunks);
        demand!(self, same, "{}: chunk {at} is stored, and another one was", short(id));
        self.note(format_args!("{}: {fence:?} appends {chunks:?} at {at}", short(id)));
    }

    /// Records that a journal was replaced.
    pub fn restarted(&mut self, id: TaskId, fence: Fence, at: u32, chunks: &[Chunk]) {
        self.look_at_append(id, fence);
        let Some(entry) = self.ledger.entries.get_mut(&id) else { return };
        let journal = &mut entry.journal;
        if at == journal.next() {
            (journal.first, journal.chunks) = (at, Vec::new());
            journal.add(chunks);
        }
        let same = journal.first == at && journal.chunks == chunks;
        demand!(self, same, "{}: restarted at {at}, and not stored", short(id));
        self.count("restarts of journals");
        self.note(format_args!("{}: {fence:?} restarts with {chunks:?} at {at}", short(id)));
    }

    /// Checks that only the run that has the task writes its journal.
    fn look_at_append(&mut self, id: TaskId, fence: Fence) {
        let task = self.ledger.entries.get(&id).map(|entry| &entry.task);
        // A run whose task can no longer resume may still write.
        let may = task.is_some_and(|task| match task.resume {
            Some(_) => task.journal_fence() == Some(fence),
            None => task.fence == fence || !task.is_live(),
        });
        demand!(self, may, "{}: {fence:?} writes its journal, and does not have it", short(id));
    }

    /// Records that a run was refused to write a journal.
    pub fn append_refused(&mut self, id: TaskId, fence: Fence) {
        let task = self.ledger.entries.get(&id).map(|entry| &entry.task);
        let may = task.and_then(Task::journal_fence) == Some(fence);
        demand!(self, !may, "{}: {fence:?} has the journal, and may not write it", short(id));
        self.count("refused appends");
        self.note(format_args!("{}: {fence:?} may not append", short(id)));
    }

    /// Checks that a task is parked by its run, and woken by one host when it is due.
    pub(crate) fn look_at_parking(&mut self, writer: &Writer<'_>, before: &Task, next: &Task) {
        let id = short(next.id);
        match (before.parked(), next.parked()) {
            (None, None) => {}
            (None, Some(parked)) => {
                self.count("parks");
                let holds = writer.incarnations.contains(&before.fence.incarnation);
                demand!(self, holds, "{id}: parked for {:?} by another host", before.fence);
                let reached = self.ledger.entries[&next.id].journal.entries;
                let resume = next.resume.unwrap_or_default();
                let holds = reached >= resume.reached;
                demand!(self, holds, "{id}: parked with {reached} entries of {}", resume.reached);
                demand!(self, parked.wake.is_some(), "{id}: parked for ever");
                self.runs.parked(next.id, before.fence);
            }
            (Some(was), Some(is)) => {
                demand!(self, next.fence == before.fence, "{id}: parked, and {:?} has it", next.fence);
                let answered = before.open_questions().count() > next.open_questions().count();
                if answered {
                    self.count("answers to parked tasks");
                }
                let due = is.wake.is_some_and(|wake| wake <= writer.time);
                let must = answered && next.open_questions().count() == 0;
                demand!(self, due || !must, "{id}: answered, and not due");
                demand!(self, answered || is == was, "{id}: {was:?} became {is:?}");
            }
            (Some(_), None) if !next.is_live() => {}
            (Some(was), None) => {
                self.count("wakes");
                let due = was.wake.is_some_and(|wake| wake <= writer.time);
                demand!(self, due, "{id}: woken at {}, before {:?}", writer.time, was.wake);
                let holds = writer.incarnations.contains(&next.fence.incarnation);
                demand!(self, holds, "{id}: woken for {}, which is another host", next.fence.incarnation);
                let holds = next.fence.attempt == before.fence.attempt + 1 && next.started_at.is_some();
                demand!(self, holds, "{id}: woken from {:?} as {:?}", before.fence, next.fence);
            }
        }
    }

    /// The run of a task that resumes has lost its host.
    pub(crate) fn lost_run(&mut self, before: &Task) {
        let Some(entry) = self.ledger.entries.get_mut(&before.id).filter(|_| before.started_at.is_some())
        else {
            return;
        };
        let journal = &mut entry.journal;
        journal.lost = match journal.lost {
            (entries, count) if entries == journal.entries => (entries, count + 1),
            _ => (journal.entries, 1),
        };
    }

    /// Whether a task that has begun and whose host is gone must go on. Not if it stood still too often, and not
    /// if its host took the beginning of its journal with it.
    pub(crate) fn may_resume(&self, before: &Task) -> bool {
        let Some(resume) = before.resume else { return false };
        let journal = &self.ledger.entries[&before.id].journal;
        let is_complete = journal.entries >= resume.reached || journal.first > 0;
        let (entries, lost) = journal.lost;
        let stalled = entries == journal.entries && lost >= MAX_STALLED;
        !before.has_begun() || (is_complete && !stalled)
    }

    /// Checks that a task that resumes ends with what its journal says.
    pub(crate) fn look_at_value(&mut self, task: &Task, text: &str) {
        if task.resume.is_none() {
            return;
        }
        let (said, recorded) = (value_in(text), self.ledger.lines(task.id).value());
        let holds = said.is_some() && said == recorded;
        demand!(self, holds, "{}: ended with {said:?}, and its journal with {recorded:?}", short(task.id));
    }

    /// Parked tasks that are due.
    pub fn due_tasks(&self, now: Timestamp) -> Vec<TaskId> {
        let tasks = self.ledger.entries.values().map(|entry| &entry.task);
        let due = |task: &&Task| task.parked().and_then(|parked| parked.wake).is_some_and(|wake| wake <= now);
        tasks.filter(due).map(|task| task.id).collect()
    }
}
