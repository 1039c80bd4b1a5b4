//! Journals in memory.

use super::{MemoryStore, State};
use crate::codec::CodecError;
use crate::components::{check, is_old};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use toolyard_task::journal::{Appended, Chunk, ChunkWrite, JournalHead, JournalStore, LastChunks};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Digest, Fence, StoreError, Task, TaskId};

#[derive(Default)]
pub(super) struct Journals {
    pub(super) by_task: BTreeMap<TaskId, Journal>,
    /// The components, and when each was last put.
    components: BTreeMap<Digest, (Bytes, Timestamp)>,
}

pub(super) struct Journal {
    fence: Option<Fence>,
    first: u32,
    chunks: Vec<Chunk>,
    entries: u64,
    component: Digest,
}

fn bytes_of(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|chunk| chunk.body.len() as u64).sum()
}

impl Journal {
    fn add(&mut self, chunks: Vec<Chunk>) {
        self.entries += chunks.iter().map(|chunk| u64::from(chunk.entries)).sum::<u64>();
        self.chunks.extend(chunks);
    }

    fn next(&self) -> Result<u32, StoreError> {
        let count = u32::try_from(self.chunks.len()).ok();
        let next = count.and_then(|count| self.first.checked_add(count));
        Ok(next.ok_or(CodecError::TooManyChunks)?)
    }

    /// The chunks with these numbers.
    fn stored(&self, at: u32, count: usize) -> Option<&[Chunk]> {
        let from = at.checked_sub(self.first)? as usize;
        self.chunks.get(from..from.checked_add(count)?)
    }
}

impl Journals {
    /// The task was created.
    pub(super) fn create(&mut self, task: &Task) {
        if let Some(fence) = task.journal_fence() {
            let component = task.digest.clone();
            let journal = Journal { fence: Some(fence), first: 0, chunks: Vec::new(), entries: 0, component };
            self.by_task.insert(task.id, journal);
        }
    }

    /// The task was changed.
    pub(super) fn move_fence(&mut self, task: &Task) {
        if task.resume.is_some()
            && let Some(journal) = self.by_task.get_mut(&task.id)
        {
            journal.fence = task.journal_fence();
        }
    }

    /// The task was ended by its run.
    pub(super) fn end(&mut self, task: TaskId, last: LastChunks) {
        if let Some(journal) = self.by_task.get_mut(&task)
            && journal.next().is_ok_and(|next| next == last.at)
        {
            journal.add(last.chunks);
        }
    }

    /// The bytes of the journals of these tasks.
    pub(super) fn bytes<'a>(&self, tasks: impl Iterator<Item = &'a TaskId>) -> u64 {
        tasks.filter_map(|id| self.by_task.get(id)).map(|journal| bytes_of(&journal.chunks)).sum()
    }

    /// The task was removed.
    pub(super) fn remove(&mut self, task: TaskId) {
        self.by_task.remove(&task);
    }
}

#[async_trait]
impl JournalStore for MemoryStore {
    async fn write_chunks(
        &self,
        task: TaskId,
        fence: Fence,
        at: u32,
        chunks: Vec<Chunk>,
        how: ChunkWrite,
    ) -> Result<Appended, StoreError> {
        let mut state = self.state()?;
        let replaces = how == ChunkWrite::Replace;
        let journal = state.journals.by_task.get_mut(&task).filter(|journal| journal.fence == Some(fence));
        let Some(journal) = journal else { return Ok(Appended::Fenced) };
        let next = journal.next()?;
        if at != next {
            let begins = !replaces || at == journal.first;
            let is_stored = begins && journal.stored(at, chunks.len()).is_some_and(|stored| stored == chunks);
            return Ok(if is_stored { Appended::Done } else { Appended::Gap { next } });
        }
        if replaces {
            journal.chunks.clear();
            journal.first = at;
        }
        journal.add(chunks);
        Ok(Appended::Done)
    }

    async fn journal(&self, task: TaskId) -> Result<Option<JournalHead>, StoreError> {
        let state = self.state()?;
        let Some(journal) = state.journals.by_task.get(&task) else { return Ok(None) };
        Ok(Some(JournalHead {
            fence: journal.fence,
            first: journal.first,
            next: journal.next()?,
            entries: journal.entries,
            bytes: bytes_of(&journal.chunks),
            component: journal.component.clone(),
        }))
    }

    async fn chunks(&self, task: TaskId, from: u32, max_bytes: u64) -> Result<Vec<Chunk>, StoreError> {
        let state = self.state()?;
        let Some(journal) = state.journals.by_task.get(&task) else { return Ok(Vec::new()) };
        let Some(from) = from.checked_sub(journal.first) else { return Ok(Vec::new()) };
        let mut bytes = 0;
        let chunks = journal.chunks.iter().skip(from as usize).take_while(|chunk| {
            let fits = bytes == 0 || bytes < max_bytes;
            bytes += chunk.body.len() as u64;
            fits
        });
        Ok(chunks.cloned().collect())
    }

    async fn drop_journal(&self, task: TaskId) -> Result<Option<u64>, StoreError> {
        let mut state = self.state()?;
        let resumes = |task: &Task| task.is_live() && task.resume.is_some();
        if state.tasks.get(&task).is_some_and(resumes) {
            return Ok(None);
        }
        Ok(state.journals.by_task.remove(&task).map(|journal| bytes_of(&journal.chunks)))
    }

    async fn put_component(&self, digest: &Digest, bytes: Bytes) -> Result<(), StoreError> {
        check(digest, &bytes)?;
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        state.journals.components.insert(digest.clone(), (bytes, now));
        Ok(())
    }

    async fn component(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        Ok(self.state()?.journals.components.get(digest).map(|(bytes, _)| bytes.clone()))
    }

    async fn sweep_components(&self, keep: &[Digest]) -> Result<u32, StoreError> {
        let mut state = self.state()?;
        let now = self.shared.clock.now();
        let Journals { by_task, components } = &mut state.journals;
        let before = components.len();
        components.retain(|digest, (_, put)| {
            if keep.contains(digest) {
                *put = now;
            }
            !is_old(*put, now) || by_task.values().any(|journal| journal.component == *digest)
        });
        Ok(u32::try_from(before - components.len()).unwrap_or(u32::MAX))
    }
}

impl State {
    /// Removes a task with its events and its journal.
    pub(super) fn remove_task(&mut self, id: TaskId) {
        self.tasks.remove(&id);
        self.forget_events(id);
        self.journals.remove(id);
    }
}
