//! Bounds the bytes kept of tasks, for each principal and for all together. Over the bound of a
//! principal, the host removes the tasks of that principal that ended first. Over the bound of all,
//! it removes tasks of the principals that keep the most. It never removes a live task: if only
//! live tasks are left, it creates no new one.
//!
//! The store sums an index, which the host does not request for every task. The host remembers a
//! sum and adds the bytes that it writes. It asks the store again when the sum is old or has
//! reached the bound. A remembered sum lacks the bytes that other hosts write meanwhile, and still
//! includes removed ones.

use crate::error::{Fault, RETRY_AFTER_MS};
use crate::task::Tasks;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;
use toolyard_task::audit::Entry;
use toolyard_task::store::{Removable, Total};
use toolyard_task::{Outcome, Owner, StoreError, Task};

/// A sum is valid for this long, or for this many times as long as it took, if that is longer.
const GOOD_FOR: Duration = Duration::from_secs(10);
const TIMES_AS_LONG: u32 = 100;
/// A full principal is refused for this long without a question to the store.
const FULL_FOR: Duration = Duration::from_secs(1);
/// Principals whose sums are remembered.
const MAX_OWNERS: usize = 10_000;
/// Tasks that are removed in one transaction.
const MAX_TASKS_AT_ONCE: u32 = 64;
/// The most principals whose tasks are removed because of the bound of all, before the host gives up.
const MAX_LARGEST: u32 = 16;
/// Principals that one tick checks.
const MAX_OWNERS_PER_TICK: usize = 32;
/// About as much as a record takes, besides the arguments and the outcome.
const RECORD: u64 = 1024;

/// The sums that this host remembers.
#[derive(Default)]
pub(crate) struct RetentionSums {
    state: Mutex<RetentionState>,
    /// Held while a call makes room; the call before may have made enough.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct RetentionState {
    owners: HashMap<Owner, Sum>,
    all: Option<Sum>,
    /// Principals whose ended tasks may exceed the bound.
    to_look_at: HashSet<Owner>,
}

#[derive(Clone, Copy)]
struct Sum {
    bytes: u64,
    until: Instant,
    /// Nothing could be removed, so it is full until then.
    full_until: Option<Instant>,
}

impl RetentionState {
    fn sum(&mut self, of: Option<&Owner>) -> Option<&mut Sum> {
        match of {
            Some(owner) => self.owners.get_mut(owner),
            None => self.all.as_mut(),
        }
    }
}

impl RetentionSums {
    fn with<T>(&self, look: impl FnOnce(&mut RetentionState) -> T) -> T {
        look(&mut self.state.lock())
    }

    /// The sum, if it is not too old.
    fn known(&self, of: Option<&Owner>) -> Option<u64> {
        self.with(|state| state.sum(of).filter(|sum| Instant::now() < sum.until).map(|sum| sum.bytes))
    }

    fn is_full(&self, of: Option<&Owner>) -> bool {
        let now = Instant::now();
        self.with(|state| state.sum(of).is_some_and(|sum| sum.full_until.is_some_and(|until| now < until)))
    }

    fn mark_full(&self, of: Option<&Owner>) {
        self.with(|state| {
            if let Some(sum) = state.sum(of) {
                sum.full_until = Some(Instant::now() + FULL_FOR);
            }
        });
    }

    fn learn(&self, of: Option<&Owner>, bytes: u64, took: Duration) {
        let until = Instant::now() + GOOD_FOR.max(took * TIMES_AS_LONG);
        self.with(|state| {
            let sum = Sum { bytes, until, full_until: None };
            match of {
                None => state.all = Some(sum),
                Some(owner) => {
                    if state.owners.len() >= MAX_OWNERS && !state.owners.contains_key(owner) {
                        state.owners.clear();
                    }
                    state.owners.insert(owner.clone(), sum);
                }
            }
        });
    }

    fn grew(&self, owner: &Owner, bytes: u64) {
        self.with(|state| {
            for of in [Some(owner), None] {
                if let Some(sum) = state.sum(of) {
                    sum.bytes = sum.bytes.saturating_add(bytes);
                }
            }
        });
    }

    fn shrank(&self, owner: &Owner, bytes: u64) {
        self.with(|state| {
            for of in [Some(owner), None] {
                if let Some(sum) = state.sum(of) {
                    sum.bytes = sum.bytes.saturating_sub(bytes);
                }
            }
        });
    }
}

/// A bound, and its name for the operator.
#[derive(Clone, Copy)]
struct Bound {
    bytes: u64,
    setting: &'static str,
}

impl Bound {
    /// How many bytes to remove so that there is room for this many more and for some time.
    const fn excess(self, kept: u64, more: u64) -> u64 {
        if kept.saturating_add(more) <= self.bytes {
            return 0;
        }
        kept.saturating_add(more).saturating_sub(self.bytes - self.bytes / 16)
    }
}

impl Tasks {
    fn bound_of_one(&self) -> Bound {
        Bound { bytes: self.settings.kept_bytes_per_owner, setting: "tasks.kept-bytes-per-principal" }
    }

    fn bound_of_all(&self) -> Bound {
        Bound { bytes: self.settings.kept_bytes, setting: "tasks.kept-bytes" }
    }

    /// Makes room for a new task.
    ///
    /// # Errors
    /// [`Fault::Busy`] if there is no room, and no ended task to remove.
    pub(crate) async fn make_room_for(&self, task: &Task) -> Result<(), Fault> {
        let bytes = task.arguments.as_bytes().len() as u64 + RECORD;
        let fits = |of, bound: Bound| {
            self.kept.known(of).is_some_and(|kept| kept.saturating_add(bytes) <= bound.bytes)
        };
        if !(fits(Some(&task.owner), self.bound_of_one()) && fits(None, self.bound_of_all())) {
            Box::pin(self.make_room(&task.owner, bytes)).await?;
        }
        self.kept.grew(&task.owner, bytes);
        Ok(())
    }

    /// A task has ended, and its outcome is kept.
    pub(crate) fn count_outcome(&self, task: &Task) {
        let bytes = match &task.outcome {
            Some(Outcome::Result { result, .. }) => result.as_bytes().len(),
            Some(Outcome::Error(error)) => error.data.as_ref().map_or(0, |data| data.as_bytes().len()),
            Some(Outcome::Cancelled | Outcome::Expired) | None => 0,
        } as u64;
        self.kept.grew(&task.owner, bytes);
        let is_over = |of, bound: Bound| self.kept.known(of).is_none_or(|kept| kept > bound.bytes);
        if is_over(Some(&task.owner), self.bound_of_one()) || is_over(None, self.bound_of_all()) {
            self.kept.with(|state| {
                if state.to_look_at.len() < MAX_OWNERS {
                    state.to_look_at.insert(task.owner.clone());
                }
            });
        }
    }

    /// Removes ended tasks that exceed a bound since they ended.
    pub(crate) async fn tidy_kept(&self) -> Result<(), StoreError> {
        let some: Vec<Owner> = self.kept.with(|state| {
            let some: Vec<_> = state.to_look_at.iter().take(MAX_OWNERS_PER_TICK).cloned().collect();
            state.to_look_at.retain(|owner| !some.contains(owner));
            some
        });
        for owner in some {
            // Any other fault says that only live tasks are left: their ends come here again.
            if let Err(Fault::Store(error)) = self.make_room(&owner, 0).await {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn make_room(&self, owner: &Owner, bytes: u64) -> Result<(), Fault> {
        self.make_room_within(Some(owner), self.bound_of_one(), bytes).await?;
        self.make_room_within(None, self.bound_of_all(), bytes).await
    }

    /// Makes room for this many more bytes of this owner, or in all.
    async fn make_room_within(&self, of: Option<&Owner>, bound: Bound, bytes: u64) -> Result<(), Fault> {
        let known = match self.kept.known(of) {
            Some(known) => known,
            None => self.sum(of).await?,
        };
        if bound.excess(known, bytes) == 0 {
            return Ok(());
        }
        if self.kept.is_full(of) {
            return Err(self.full(of, bound));
        }
        let _turn = self.kept.turn.lock().await;
        // Tasks may be gone since, and another caller may have made room.
        let mut kept = self.sum(of).await?;
        let excess = bound.excess(kept, bytes);
        if excess == 0 {
            return Ok(());
        }
        let freed = match of {
            Some(owner) => self.discard_ended(owner, excess, bound.setting).await?,
            None => {
                let mut freed = 0;
                for owner in self.store.largest_owners(MAX_LARGEST).await? {
                    if freed >= excess {
                        break;
                    }
                    freed += self.discard_ended(&owner, excess - freed, bound.setting).await?;
                }
                freed
            }
        };
        kept = kept.saturating_sub(freed);
        if kept.saturating_add(bytes) <= bound.bytes {
            return Ok(());
        }
        self.kept.mark_full(of);
        Err(self.full(of, bound))
    }

    /// The bytes kept, as the store counts them.
    async fn sum(&self, of: Option<&Owner>) -> Result<u64, StoreError> {
        let begun = Instant::now();
        let bytes = self.store.total(Total::Bytes(of)).await?;
        self.kept.learn(of, bytes, begun.elapsed());
        Ok(bytes)
    }

    /// Removes the tasks of this owner that ended first, until this many bytes are free or none is
    /// left. Returns how many are free.
    async fn discard_ended(
        &self,
        owner: &Owner,
        excess: u64,
        setting: &'static str,
    ) -> Result<u64, StoreError> {
        let mut freed = 0;
        while freed < excess {
            let ended = self.store.ended_first(owner, MAX_TASKS_AT_ONCE).await?;
            let mut discarded = Vec::new();
            let mut bytes = 0;
            for (task, kept) in &ended {
                if freed + bytes >= excess {
                    break;
                }
                bytes += kept;
                discarded.push((task.id, vec![Entry::discarded(task, setting)]));
            }
            if discarded.is_empty() {
                break;
            }
            let count = self.store.remove(discarded, Removable::Ended).await?;
            self.observers.metrics.discarded.inc_by(count.into());
            self.waiters.count_change();
            tracing::warn!(
                event = "task.removed_early",
                owner = toolyard_task::audit::name_of(owner),
                count,
                bytes,
                setting,
                "ended tasks removed before their ttl"
            );
            self.kept.shrank(owner, bytes);
            freed += bytes;
            if count == 0 {
                // Another host removes the same ones.
                break;
            }
        }
        Ok(freed)
    }

    fn full(&self, of: Option<&Owner>, bound: Bound) -> Fault {
        let whose = if of.is_some() { "of your tasks" } else { "of all tasks together" };
        Fault::Busy {
            what: format!(
                "{} bytes {whose} are kept at most, and none that have ended are left to be removed",
                bound.bytes
            ),
            limit: bound.setting,
            retry_after_ms: RETRY_AFTER_MS,
        }
    }
}
