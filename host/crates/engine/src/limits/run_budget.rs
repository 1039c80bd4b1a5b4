//! The machine's capacity for guests and its distribution: instances, memories and tables of the
//! pool, memory mappings of the process, and bytes of memory. A run's minimum is reserved before it
//! begins, so that neither the pool nor the kernel refuses it later. The growth of its memories is
//! taken from the budget as it happens.

use parking_lot::Mutex;
use std::sync::Arc;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};
use toolyard_task::{Reservation, ReservationError};
use wasmtime::ResourcesRequired;

/// Memory mappings of a run besides those of its memories: its stack and its tables.
const MAPPINGS_PER_RUN: u32 = 4;
/// Memory mappings of one linear memory.
const MAPPINGS_PER_MEMORY: u32 = 3;
/// Mappings reserved for everything else: code, threads, files.
const MAPPINGS_RESERVED: u32 = 5_000;
/// The maximum number of memories: more of them, at 4 GiB each with guards, certainly exceed the
/// address space.
const MAX_MEMORIES: u32 = 16_000;
/// Tables of the pool for each run. Most components have two.
const TABLES_PER_RUN: u32 = 20;
/// Bytes of a run besides its memories: stack, store, page tables.
const BYTES_PER_RUN: u64 = 96 << 10;
/// A page of linear memory.
const PAGE: u64 = 64 << 10;
/// The percentage of this machine's memory for guests, unless the operator sets an amount.
const MEMORY_PERCENT: u64 = 75;
/// The memory size assumed if the machine does not report it, in bytes.
const UNKNOWN_MEMORY: u64 = 2 << 30;
/// The kernel's default limit of mappings, used if the kernel does not report the limit.
const DEFAULT_MAPPINGS: u32 = 65_530;

/// An amount of each resource: a total, or the part that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amounts {
    pub runs: u32,
    pub memories: u32,
    pub tables: u32,
    pub mappings: u32,
    pub bytes: u64,
}

impl Amounts {
    /// The amounts that a run of a component needs.
    pub fn of(needed: &ResourcesRequired) -> Self {
        // The unit is a page.
        let memory = needed.max_initial_memory_size.unwrap_or_default().saturating_mul(PAGE);
        Self {
            runs: 1,
            memories: needed.num_memories,
            tables: needed.num_tables,
            mappings: MAPPINGS_PER_RUN + MAPPINGS_PER_MEMORY * needed.num_memories,
            bytes: memory.saturating_mul(needed.num_memories.into()).saturating_add(BYTES_PER_RUN),
        }
    }

    /// The amounts for a run whose memories are limited to `memory` bytes in total. It needs no
    /// more, because a run above its limit does not begin.
    pub fn within(self, memory: u64) -> Self {
        Self { bytes: self.bytes.min(memory.saturating_add(BYTES_PER_RUN)), ..self }
    }

    /// The part of the bytes that is for memories.
    pub fn prepaid(&self) -> u64 {
        self.bytes.saturating_sub(BYTES_PER_RUN)
    }

    /// The bytes without which no run begins: its memories are at most as large as the largest.
    pub fn least_memory(&self) -> u64 {
        self.prepaid() / u64::from(self.memories.max(1))
    }

    /// The capacity of this machine for `wished` runs.
    pub fn on_this_machine(wished: u32, bytes: Option<u64>) -> Self {
        let mappings = mappings().saturating_sub(MAPPINGS_RESERVED);
        let possible = (mappings / (MAPPINGS_PER_RUN + MAPPINGS_PER_MEMORY)).clamp(1, MAX_MEMORIES);
        let runs = wished.clamp(1, possible);
        if runs < wished {
            tracing::info!(
                event = "engine.runs_limited",
                setting = "vm.max_map_count",
                wanted = wished,
                limit = possible,
                "kernel limits how many runs can be active"
            );
        }
        Self {
            runs,
            // Most components have one memory; twice the number leaves room for those that have
            // more.
            memories: (runs * 2).min(MAX_MEMORIES),
            tables: runs.saturating_mul(TABLES_PER_RUN),
            mappings,
            bytes: bytes.unwrap_or_else(|| machine_memory() / 100 * MEMORY_PERCENT),
        }
    }
}

fn mappings() -> u32 {
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(DEFAULT_MAPPINGS)
}

/// The memory of this machine, or of the container of this process, in bytes.
fn machine_memory() -> u64 {
    let system = System::new_with_specifics(
        RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()),
    );
    let system = match system {
        Ok(system) => system,
        Err(error) => {
            tracing::warn!(
                event = "engine.memory_unknown", setting = "calls.memory", assumed = UNKNOWN_MEMORY, %error,
                "cannot read how much memory this machine has"
            );
            return UNKNOWN_MEMORY;
        }
    };
    let machine = system.total_memory();
    match system.cgroup_limits() {
        Some(limits) if limits.total_memory > 0 => machine.min(limits.total_memory),
        _ => machine,
    }
}

/// The total capacity and the part in use.
#[derive(Debug)]
pub(crate) struct RunBudget {
    most: Amounts,
    taken: Mutex<Amounts>,
}

/// A run's amounts. Dropping it returns them to the budget.
struct ReservedAmounts {
    budget: Arc<RunBudget>,
    amounts: Amounts,
}

impl RunBudget {
    pub fn new(most: Amounts) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// The total capacity.
    pub fn most(&self) -> &Amounts {
        &self.most
    }

    /// Checks whether the machine could ever provide these amounts.
    ///
    /// # Errors
    /// [`ReservationError`] if it could not.
    pub fn could_take(&self, amounts: Amounts) -> Result<(), ReservationError> {
        Self::check(&self.most, &Amounts::default(), &amounts)
    }

    /// The amounts in use.
    pub fn taken(&self) -> Amounts {
        *self.taken.lock()
    }

    /// Reserves these amounts.
    pub fn take(self: &Arc<Self>, amounts: Amounts) -> Result<Reservation, ReservationError> {
        let mut taken = self.taken.lock();
        Self::check(&self.most, &taken, &amounts)?;
        taken.runs += amounts.runs;
        taken.memories += amounts.memories;
        taken.tables += amounts.tables;
        taken.mappings += amounts.mappings;
        taken.bytes += amounts.bytes;
        drop(taken);
        Ok(Reservation::new(ReservedAmounts { budget: self.clone(), amounts }))
    }

    fn check(most: &Amounts, taken: &Amounts, amounts: &Amounts) -> Result<(), ReservationError> {
        let fits = |taken: u32, more: u32, most: u32| taken.saturating_add(more) <= most;
        if !fits(taken.runs, amounts.runs, most.runs) {
            return Err(ReservationError::Runs(most.runs));
        }
        if !fits(taken.memories, amounts.memories, most.memories) {
            return Err(ReservationError::Memories(most.memories));
        }
        if !fits(taken.tables, amounts.tables, most.tables) {
            return Err(ReservationError::Tables(most.tables));
        }
        if !fits(taken.mappings, amounts.mappings, most.mappings) {
            return Err(ReservationError::Mappings(most.mappings));
        }
        if amounts.bytes > most.bytes {
            return Err(ReservationError::MemoryEver(most.bytes));
        }
        if taken.bytes.saturating_add(amounts.bytes) > most.bytes {
            return Err(ReservationError::Memory(most.bytes));
        }
        Ok(())
    }

    /// Takes bytes for a growing memory; returns false if too few are left.
    pub fn draw(&self, bytes: u64) -> bool {
        let mut taken = self.taken.lock();
        let wanted = taken.bytes.saturating_add(bytes);
        let fits = wanted <= self.most.bytes;
        if fits {
            taken.bytes = wanted;
        }
        fits
    }

    /// Returns bytes that were taken by `draw`.
    pub fn give_back(&self, bytes: u64) {
        let mut taken = self.taken.lock();
        taken.bytes = taken.bytes.saturating_sub(bytes);
    }
}

/// Bytes that the host holds for a run outside of its memories, counted in several budgets: that of the run and that of
/// all runs. Dropping it gives them back.
pub(crate) struct HeldBytes {
    budgets: Vec<Arc<RunBudget>>,
    bytes: u64,
}

impl HeldBytes {
    /// None yet. Without a budget, nothing is counted.
    pub fn none(budgets: Vec<Arc<RunBudget>>) -> Self {
        Self { budgets, bytes: 0 }
    }

    /// Counts more bytes; returns false if a budget has too few left.
    pub fn draw(&mut self, bytes: u64) -> bool {
        let refuses = self.budgets.iter().position(|budget| !budget.draw(bytes));
        if let Some(refuses) = refuses {
            self.budgets[..refuses].iter().for_each(|budget| budget.give_back(bytes));
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budgets.iter().for_each(|budget| budget.give_back(self.bytes));
    }
}

impl Drop for ReservedAmounts {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock();
        taken.runs -= self.amounts.runs;
        taken.memories -= self.amounts.memories;
        taken.tables -= self.amounts.tables;
        taken.mappings -= self.amounts.mappings;
        taken.bytes = taken.bytes.saturating_sub(self.amounts.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Amounts = Amounts { runs: 3, memories: 6, tables: 10, mappings: 30, bytes: 1_000 };
    const ONE: Amounts = Amounts { runs: 1, memories: 1, tables: 2, mappings: 7, bytes: 100 };

    #[test]
    fn each_thing_runs_out_by_itself_and_comes_back() {
        for (large, shortage) in [
            (Amounts { memories: 6, ..ONE }, ReservationError::Memories(6)),
            (Amounts { tables: 9, ..ONE }, ReservationError::Tables(10)),
            (Amounts { mappings: 24, ..ONE }, ReservationError::Mappings(30)),
            (Amounts { bytes: 901, ..ONE }, ReservationError::Memory(1_000)),
            (Amounts { runs: 3, ..ONE }, ReservationError::Runs(3)),
        ] {
            let budget = RunBudget::new(MAX);
            let one = budget.take(ONE).expect("reserved");
            assert_eq!(budget.take(large).expect_err("too large"), shortage);
            assert_eq!(budget.taken(), ONE, "a refusal takes nothing");
            drop(one);
            drop(budget.take(large).expect("reserved now"));
            assert_eq!(budget.taken(), Amounts::default());
        }
        let never = Amounts { bytes: 1_001, ..ONE };
        assert_eq!(
            RunBudget::new(MAX).take(never).expect_err("too large"),
            ReservationError::MemoryEver(1_000)
        );
    }

    #[test]
    fn bytes_outside_of_memories_count_in_each_budget_until_they_are_gone() {
        let of = |bytes| RunBudget::new(Amounts { bytes, ..Amounts::default() });
        let (own, all) = (of(100), of(50));
        let mut held = HeldBytes::none(vec![own.clone(), all.clone()]);
        assert!(held.draw(30) && !held.draw(30) && held.draw(20));
        assert_eq!((own.taken().bytes, all.taken().bytes), (50, 50), "a refusal takes nothing");
        drop(held);
        assert_eq!((own.taken().bytes, all.taken().bytes), (0, 0));
    }

    #[test]
    fn this_machine_has_some_of_everything() {
        let amounts = Amounts::on_this_machine(1_000_000, None);
        assert!(
            amounts.runs >= 1 && amounts.mappings >= amounts.runs && amounts.bytes > 1 << 20,
            "{amounts:?}"
        );
        assert_eq!(Amounts::on_this_machine(2, Some(5)).bytes, 5);
        assert_eq!(Amounts::on_this_machine(0, None).runs, 1);
    }
}
