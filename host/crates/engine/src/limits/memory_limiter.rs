//! Memory and tables of one run, bounded over all its instances, and by what the
//! host has left for all runs together.
//!
//! wasmtime asks before each growth. A refusal makes `memory.grow` return -1,
//! which most guests answer with a trap; so the refusal is remembered, and a trap
//! that follows is reported as the limit that caused it.

use crate::limits::run_budget::RunBudget;
use std::sync::Arc;
use toolyard_manifest::Limits;
use wasmtime::ResourceLimiter;

/// The most core instances that a component can be allowed (Python needs 20).
pub(crate) const MAX_INSTANCES: usize = 200;
/// Linear memories of one component (QuickJS needs 3).
pub(crate) const MAX_MEMORIES: usize = 32;
/// Tables of one component.
pub(crate) const MAX_TABLES: usize = 64;

/// What was refused first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeniedGrowth {
    Memory,
    Table,
    /// The memory of the host for all guests together, so many bytes.
    Host(u64),
}

/// Counts what a run has and refuses what is above its limits.
pub(crate) struct MemoryLimiter {
    memory: Counter,
    table: Counter,
    instances: usize,
    budget: Arc<RunBudget>,
    /// Bytes of memory that the run's room already has.
    prepaid: u64,
    pub denied: Option<DeniedGrowth>,
}

struct Counter {
    used: u64,
    most: u64,
}

/// What a growth comes to.
enum Growth {
    /// So much is used after it.
    To(u64),
    /// It fails by itself, by the memory's or the table's own declaration.
    Fails,
    TooMuch,
}

impl Counter {
    /// What is granted stays counted even if the growth fails after all, which
    /// only a machine out of memory brings about: taking it back would trust
    /// that each failure was preceded by a grant.
    fn growth(&self, current: usize, desired: usize, maximum: Option<usize>) -> Growth {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Growth::Fails;
        }
        let wanted = self.used.saturating_add(desired.saturating_sub(current) as u64);
        if wanted > self.most { Growth::TooMuch } else { Growth::To(wanted) }
    }
}

impl MemoryLimiter {
    /// For a run whose room has `prepaid` bytes for its memories.
    pub fn new(limits: &Limits, budget: Arc<RunBudget>, prepaid: u64) -> Self {
        let counter = |most| Counter { used: 0, most };
        Self {
            memory: counter(limits.memory),
            table: counter(limits.table),
            instances: limits.instances as usize,
            budget,
            prepaid,
            denied: None,
        }
    }

    /// The linear memory that was granted so far; it is never taken back.
    pub fn memory(&self) -> u64 {
        self.memory.used
    }

    /// What has been drawn from the host beyond what was prepaid.
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
        let granted = match self.memory.growth(current, desired, maximum) {
            Growth::Fails => return Ok(true),
            Growth::TooMuch => Err(DeniedGrowth::Memory),
            Growth::To(wanted) => self.grow_memory(wanted),
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::run_budget::Amounts;

    fn grow(limiter: &mut MemoryLimiter, from: usize, to: usize) -> bool {
        limiter.memory_growing(from, to, Some(90)).expect("never fails")
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
