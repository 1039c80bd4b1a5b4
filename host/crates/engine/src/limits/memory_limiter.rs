//! Bounds the memory and tables of one run, over all its instances, and by the memory that the host
//! has left for all runs together.
//!
//! wasmtime asks before each growth. A refusal makes `memory.grow` return -1, and most guests then
//! trap. So the refusal is recorded, and a subsequent trap is reported as the limit that caused it.
//!
//! A run with a journal never sees a refusal of the host: its repetition may get the memory, and would diverge. Its task
//! waits for memory instead.

use crate::limits::run_budget::{Amounts, RunBudget};
use async_trait::async_trait;
use std::sync::Arc;
use toolyard_manifest::Limits;
use wasmtime::{ResourceLimiter, ResourceLimiterAsync};

/// The maximum number of core instances that a manifest can allow (Python needs 20).
pub(crate) const MAX_INSTANCES: usize = 200;
/// The maximum number of linear memories in one component (QuickJS needs 3).
pub(crate) const MAX_MEMORIES: usize = 32;
/// The maximum number of tables in one component.
pub(crate) const MAX_TABLES: usize = 64;

/// The first growth that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeniedGrowth {
    Memory,
    Table,
    /// The host's memory for all guests together, in bytes.
    Host(u64),
}

/// Counts the memory and tables of a run and refuses growth beyond its limits.
pub(crate) struct MemoryLimiter {
    memory: Counter,
    table: Counter,
    instances: usize,
    budget: Arc<RunBudget>,
    /// Bytes of memory that the run's reservation already includes.
    prepaid: u64,
    pub denied: Option<DeniedGrowth>,
    /// Present if the run has a journal.
    pub waiter: Option<Arc<dyn MemoryWaiter>>,
}

/// The journal of a run, which may not see that the host refuses memory.
#[async_trait]
pub(crate) trait MemoryWaiter: Send + Sync {
    /// Waits until there may be memory, and returns whether the run may try again; if not, it ends. `None` if the run is
    /// not repeated, so that it may see the refusal.
    async fn wait_for_memory(&self) -> Option<bool>;
}

struct Counter {
    used: u64,
    most: u64,
}

/// The outcome of a growth.
enum Growth {
    /// The total use after it.
    To(u64),
    /// The growth exceeds the memory's or the table's own maximum.
    Fails,
    TooMuch,
}

impl Counter {
    /// A granted growth stays counted even if it then fails, which happens only on a machine
    /// without free memory. Undoing the count would rely on each failure following a grant.
    fn growth(&self, current: usize, desired: usize, maximum: Option<usize>) -> Growth {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Growth::Fails;
        }
        let wanted = self.used.saturating_add(desired.saturating_sub(current) as u64);
        if wanted > self.most { Growth::TooMuch } else { Growth::To(wanted) }
    }
}

impl MemoryLimiter {
    /// Creates the limiter of a run whose reservation has `prepaid` bytes for its memories.
    pub fn new(limits: &Limits, budget: Arc<RunBudget>, prepaid: u64) -> Self {
        let counter = |most| Counter { used: 0, most };
        Self {
            memory: counter(limits.memory),
            table: counter(limits.table),
            instances: limits.instances as usize,
            budget,
            prepaid,
            denied: None,
            waiter: None,
        }
    }

    /// The budgets of what the host holds for this run beside its memories: once more as much as its memories may have,
    /// and part of what all runs have.
    pub fn outside(&self) -> Vec<Arc<RunBudget>> {
        let own = RunBudget::new(Amounts { bytes: self.memory.most, ..Amounts::default() });
        vec![own, self.budget.clone()]
    }

    /// The linear memory granted so far, in bytes. It never decreases.
    pub fn memory(&self) -> u64 {
        self.memory.used
    }

    /// The bytes taken from the host's budget beyond the prepaid ones.
    fn drawn(&self) -> u64 {
        self.memory.used.saturating_sub(self.prepaid)
    }

    fn grow_memory(&mut self, wanted: u64) -> Result<(), DeniedGrowth> {
        let more = wanted.saturating_sub(self.prepaid) - self.drawn();
        if more > 0 && !self.budget.draw(more) {
            return Err(DeniedGrowth::Host(self.budget.most().bytes));
        }
        self.memory.used = wanted;
        Ok(())
    }

    fn grow(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<(), DeniedGrowth> {
        match self.memory.growth(current, desired, maximum) {
            Growth::Fails => Ok(()),
            Growth::TooMuch => Err(DeniedGrowth::Memory),
            Growth::To(wanted) => self.grow_memory(wanted),
        }
    }
}

impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        let drawn = self.drawn();
        if drawn > 0 {
            self.budget.give_back(drawn);
        }
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = self.grow(current, desired, maximum);
        Ok(granted.map_err(|denied| self.denied.get_or_insert(denied)).is_ok())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        match self.table.growth(current, desired, maximum) {
            Growth::Fails => return Ok(true),
            Growth::To(wanted) => self.table.used = wanted,
            Growth::TooMuch => {
                self.denied.get_or_insert(DeniedGrowth::Table);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}

/// For runs with a journal.
#[async_trait]
impl ResourceLimiterAsync for MemoryLimiter {
    async fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        loop {
            let granted = self.grow(current, desired, maximum);
            let waits = match (granted, &self.waiter) {
                (Err(DeniedGrowth::Host(_)), Some(waiter)) => waiter.wait_for_memory().await,
                _ => None,
            };
            if waits != Some(true) {
                let is_granted = granted.map_err(|denied| self.denied.get_or_insert(denied)).is_ok();
                let needs_memory = || wasmtime::Error::msg("a run with a journal needs memory");
                return if waits.is_none() { Ok(is_granted) } else { Err(needs_memory()) };
            }
        }
    }

    async fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        ResourceLimiter::table_growing(self, current, desired, maximum)
    }

    fn instances(&self) -> usize {
        ResourceLimiter::instances(self)
    }

    fn tables(&self) -> usize {
        ResourceLimiter::tables(self)
    }

    fn memories(&self) -> usize {
        ResourceLimiter::memories(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grow(limiter: &mut MemoryLimiter, from: usize, to: usize) -> bool {
        ResourceLimiter::memory_growing(limiter, from, to, Some(90)).expect("never fails")
    }

    #[test]
    fn growth_counts_over_all_memories_and_what_the_memory_itself_forbids_does_not() {
        let limits = Limits { memory: 100, ..Limits::default() };
        let budget = RunBudget::new(Amounts { bytes: 1_000, ..Amounts::default() });
        let mut limiter = MemoryLimiter::new(&limits, budget, 0);
        assert!(grow(&mut limiter, 0, 95), "fails later, by the memory's maximum");
        assert!(grow(&mut limiter, 0, 60));
        assert_eq!(limiter.denied, None);
        assert!(!grow(&mut limiter, 0, 41), "a second memory");
        assert_eq!(limiter.denied, Some(DeniedGrowth::Memory));
        assert!(grow(&mut limiter, 0, 40));
    }

    #[test]
    fn growth_beyond_what_is_prepaid_is_drawn_from_the_host_and_given_back() {
        let limits = Limits { memory: 1_000, ..Limits::default() };
        let budget = RunBudget::new(Amounts { bytes: 30, ..Amounts::default() });
        let mut limiter = MemoryLimiter::new(&limits, budget.clone(), 50);
        assert!(grow(&mut limiter, 0, 40) && grow(&mut limiter, 40, 60));
        assert_eq!(budget.taken().bytes, 10);
        assert!(!grow(&mut limiter, 0, 21));
        assert_eq!(limiter.denied, Some(DeniedGrowth::Host(30)));
        assert!(grow(&mut limiter, 0, 20));
        assert_eq!((limiter.memory(), budget.taken().bytes), (80, 30));
        drop(limiter);
        assert_eq!(budget.taken().bytes, 0);
    }
}
