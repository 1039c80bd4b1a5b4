//! One wasmtime engine for the process: its configuration, its pool, and the
//! count of what the pool can still give.

use crate::cache::Cache;
use crate::epoch::Ticker;
use crate::error::StartError;
use crate::host::{self, Run};
use crate::limiter::{MAX_INSTANCES, MAX_MEMORIES, MAX_TABLES};
use crate::settings::Settings;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Memory mappings of one run (`engine.md`, section d), rounded up.
const MAPS_PER_RUN: u32 = 8;
/// Mappings that are left for everything else: code, threads, files.
const MAPS_RESERVED: u32 = 4_096;
/// More memories of 4 GiB and their guards than this do not fit the address
/// space for certain.
const MOST_MEMORIES: u32 = 16_000;
/// Slots beyond what runs are admitted to, for `list-tools` of new components.
const SPARE: u32 = 16;

/// The engine: one for the process.
pub struct Engine {
    pub(crate) wasm: wasmtime::Engine,
    pub(crate) linker: Linker<Run>,
    pub(crate) ticker: Ticker,
    pub(crate) settings: Settings,
    pub(crate) cache: Cache,
    capacity: u32,
    pooled: bool,
    instances: AtomicU32,
    memories: AtomicU32,
}

/// A run's share of the pool, given back when dropped.
pub(crate) struct Slot<'a> {
    engine: &'a Engine,
    memories: u32,
}

impl Engine {
    /// Starts the engine.
    ///
    /// # Errors
    /// [`StartError`] if wasmtime refuses the machine, or the folder for machine
    /// code cannot be used.
    pub fn start(settings: &Settings) -> Result<Arc<Self>, StartError> {
        let cache = Cache::open(settings.cache.as_deref())?;
        let runs = runs_possible(settings.max_runs.max(1));
        let wasmtime_error = |error: wasmtime::Error| StartError::Wasmtime(format!("{error:#}"));
        let mut config = config();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(runs)));
        let (wasm, pooled) = match wasmtime::Engine::new(&config) {
            Ok(wasm) => (wasm, true),
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "no pool of memories can be had; instances are allocated one by one, which is slower"
                );
                (wasmtime::Engine::new(&self::config()).map_err(wasmtime_error)?, false)
            }
        };
        let linker = host::linker(&wasm).map_err(wasmtime_error)?;
        let ticker = Ticker::start(wasm.clone()).map_err(StartError::Thread)?;
        Ok(Arc::new(Self {
            wasm,
            linker,
            ticker,
            settings: settings.clone(),
            cache,
            capacity: runs,
            pooled,
            instances: AtomicU32::new(0),
            memories: AtomicU32::new(0),
        }))
    }

    /// How many runs can be under way at once: what was wished for, bounded by
    /// the memory mappings and the address space that a process may have. A run
    /// above it ends with a JSON-RPC error that says so.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Whether instances come from a pool.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        self.pooled
    }

    /// How many runs are under way.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.instances.load(Ordering::Relaxed)
    }

    /// A share of the pool for a run of a component with so many memories;
    /// `None` if there is none left. So the pool itself never refuses.
    pub(crate) fn admit(&self, memories: u32) -> Option<Slot<'_>> {
        if self.instances.fetch_add(1, Ordering::Relaxed) >= self.capacity {
            self.instances.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let slot = Slot { engine: self, memories };
        let used = self.memories.fetch_add(memories, Ordering::Relaxed);
        (used + memories <= memories_for(self.capacity)).then_some(slot)
    }

    /// Makes guests that are computing look at their stop signs at once.
    pub(crate) fn interrupt(&self) {
        self.wasm.increment_epoch();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("capacity", &self.capacity).field("pooled", &self.pooled).finish()
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.engine.instances.fetch_sub(1, Ordering::Relaxed);
        self.engine.memories.fetch_sub(self.memories, Ordering::Relaxed);
    }
}

/// The configuration that decides what machine code looks like. The child that
/// compiles has the same, or its code would not be taken.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .consume_fuel(false)
        .memory_init_cow(true)
        .async_stack_size(2 << 20)
        .max_wasm_stack(512 << 10);
    config
}

/// Figures from `engine.md`, "Recommended settings".
fn pool(runs: u32) -> PoolingAllocationConfig {
    let slots = runs + SPARE;
    let warm = std::thread::available_parallelism().map_or(2, |cores| cores.get() as u32) * 2;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_stacks(slots)
        .total_memories(memories_for(runs) + 2 * SPARE)
        .total_core_instances(slots.saturating_mul(20))
        .total_tables(slots.saturating_mul(20))
        .max_core_instances_per_component(MAX_INSTANCES as u32)
        .max_memories_per_component(MAX_MEMORIES as u32)
        .max_tables_per_component(MAX_TABLES as u32)
        .max_memories_per_module(2)
        .max_tables_per_module(4)
        .max_component_instance_size(10 << 20)
        .max_core_instance_size(10 << 20)
        .table_elements(100_000)
        .linear_memory_keep_resident(2 << 20)
        .table_keep_resident(512 << 10)
        .async_stack_keep_resident(64 << 10)
        .max_unused_warm_slots(warm)
        .pagemap_scan(Enabled::Auto);
    pool
}

/// Most components have one memory; twice that leaves room for those that have
/// more.
fn memories_for(runs: u32) -> u32 {
    (runs * 2).min(MOST_MEMORIES)
}

fn runs_possible(wished: u32) -> u32 {
    // The default of the kernel, where it cannot be read.
    const DEFAULT_MAPS: u32 = 65_530;
    let maps = std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .unwrap_or(DEFAULT_MAPS);
    let possible = (maps.saturating_sub(MAPS_RESERVED) / MAPS_PER_RUN).clamp(1, MOST_MEMORIES - 2 * SPARE);
    if possible < wished {
        tracing::info!(wished, possible, "vm.max_map_count bounds how many runs can be under way at once");
    }
    wished.min(possible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_compiled_without_a_pool_is_taken_by_an_engine_with_one() {
        let engine = Engine::start(&Settings { max_runs: 4, ..Settings::default() }).expect("starts");
        assert!(engine.is_pooled());
        let plain = wasmtime::Engine::new(&config()).expect("starts");
        let hash = crate::cache::compatibility;
        assert_eq!(hash(&engine.wasm), hash(&plain));
    }

    #[test]
    fn the_pool_is_shared_out_by_instances_and_memories() {
        let engine = Engine::start(&Settings { max_runs: 3, ..Settings::default() }).expect("starts");
        assert_eq!(engine.capacity(), 3);
        let first = engine.admit(4).expect("room");
        assert!(engine.admit(3).is_none(), "six memories in all");
        let second = engine.admit(2).expect("room");
        let third = engine.admit(0).expect("room");
        assert!(engine.admit(0).is_none(), "three runs in all");
        drop((first, second, third));
        assert_eq!((engine.running(), engine.memories.load(Ordering::Relaxed)), (0, 0));
    }
}
