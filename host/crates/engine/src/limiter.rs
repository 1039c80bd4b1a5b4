//! Memory and tables of one run, bounded over all its instances.
//!
//! wasmtime asks before each growth. A refusal makes `memory.grow` return -1,
//! which most guests answer with a trap; so the refusal is remembered, and a trap
//! that follows is reported as the limit that caused it.

use crate::limits::Limits;
use wasmtime::ResourceLimiter;

/// The most core instances that a component can be allowed (Python needs 20).
pub(crate) const MAX_INSTANCES: usize = 200;
/// Linear memories of one component (QuickJS needs 3).
pub(crate) const MAX_MEMORIES: usize = 32;
/// Tables of one component.
pub(crate) const MAX_TABLES: usize = 64;

/// What was refused first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    Memory,
    Table,
}

/// Counts what a run has and refuses what is above its limits.
pub(crate) struct Limiter {
    memory: Counter,
    table: Counter,
    instances: usize,
    pub denied: Option<Denied>,
}

struct Counter {
    used: u64,
    most: u64,
}

impl Counter {
    /// What is granted stays counted even if the growth fails after all, which
    /// only a machine out of memory brings about: taking it back would trust
    /// that each failure was preceded by a grant.
    fn grow(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> bool {
        if maximum.is_some_and(|maximum| desired > maximum) {
            // Fails by itself, by the memory's own declaration.
            return true;
        }
        let wanted = self.used.saturating_add(desired.saturating_sub(current) as u64);
        if wanted > self.most {
            return false;
        }
        self.used = wanted;
        true
    }
}

impl Limiter {
    pub fn new(limits: &Limits) -> Self {
        let counter = |most| Counter { used: 0, most };
        Self {
            memory: counter(limits.memory),
            table: counter(limits.table),
            instances: limits.instances as usize,
            denied: None,
        }
    }

    /// The linear memory that was granted so far; it is never taken back.
    pub fn memory(&self) -> u64 {
        self.memory.used
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = self.memory.grow(current, desired, maximum);
        if !granted {
            self.denied.get_or_insert(Denied::Memory);
        }
        Ok(granted)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = self.table.grow(current, desired, maximum);
        if !granted {
            self.denied.get_or_insert(Denied::Table);
        }
        Ok(granted)
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

    #[test]
    fn growth_counts_over_all_memories_and_what_the_memory_itself_forbids_does_not() {
        let limits = Limits { memory: 100, ..Limits::default() };
        let mut limiter = Limiter::new(&limits);
        let grow = |limiter: &mut Limiter, from, to| {
            limiter.memory_growing(from, to, Some(90)).expect("never fails")
        };
        assert!(grow(&mut limiter, 0, 95), "fails later, by the memory's maximum");
        assert!(grow(&mut limiter, 0, 60));
        assert_eq!(limiter.denied, None);
        assert!(!grow(&mut limiter, 0, 41), "a second memory");
        assert_eq!(limiter.denied, Some(Denied::Memory));
        assert!(grow(&mut limiter, 0, 40));
    }
}
