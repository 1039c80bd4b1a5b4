//! The wasmtime engine of the process: its configuration and its pool.

use crate::component::cache::Cache;
use crate::component::toolchain::{self, Toolchain};
use crate::error::StartError;
use crate::grant::Grants;
use crate::guest::state::GuestState;
use crate::limits::cpu_scheduler::CpuScheduler;
use crate::limits::epoch::Ticker;
use crate::limits::memory_limiter::{MAX_INSTANCES, MAX_MEMORIES, MAX_TABLES};
use crate::limits::run_budget::{Amounts, RunBudget};
use crate::network::Network;
use crate::run::linker::linker;
use crate::run::schema_checker::SchemaChecker;
use crate::settings::Settings;
use futures_util::future::BoxFuture;
use std::sync::{Arc, OnceLock};
use toolyard_manifest::Manifest;
use toolyard_task::journal::JournalStore;
use toolyard_task::{Digest, Tool};
use wasmtime::component::Linker;
use wasmtime::{Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// The maximum number of concurrent loads. Each lists its component's offer in instances beyond
/// those that runs may use.
const MAX_LOADS: u32 = 8;

/// The engine. A process has one.
pub struct Engine {
    pub(crate) wasm: wasmtime::Engine,
    pub(crate) linker: Linker<GuestState>,
    pub(crate) ticker: Ticker,
    pub(crate) settings: Settings,
    pub(crate) cache: Cache,
    pub(crate) network: Arc<Network>,
    pub(crate) budget: Arc<RunBudget>,
    pub(crate) scheduler: Arc<CpuScheduler>,
    pub(crate) checker: SchemaChecker,
    /// Makes the tools of components that were replaced in the folder and on which tasks still run.
    pub(crate) former: OnceLock<Arc<dyn FormerTools>>,
    /// The linker of runs with a journal, from when the first one is loaded. It records what comes from outside.
    journal_linker: OnceLock<Result<Linker<GuestState>, String>>,
    pooled: bool,
}

/// Makes the tools of components that left the folder.
pub(crate) trait FormerTools: Send + Sync {
    /// The store that keeps the components.
    fn store(&self) -> &Arc<dyn JournalStore>;

    /// The tool of another component. The error is for the log.
    fn tool(
        self: Arc<Self>,
        engine: Arc<Engine>,
        tool: ToolOfPlugin,
    ) -> BoxFuture<'static, Result<Arc<dyn Tool>, String>>;
}

/// A tool of a component under the manifest in force.
pub(crate) struct ToolOfPlugin {
    pub digest: Digest,
    /// The guest's name for the tool.
    pub guest_name: Arc<str>,
    pub file: Arc<str>,
    pub manifest: Arc<Manifest>,
    pub grants: Arc<Grants>,
}

impl Engine {
    /// Starts the engine.
    ///
    /// # Errors
    /// [`StartError`] if wasmtime refuses the machine, or the folder for machine code cannot be
    /// used.
    pub fn start(settings: &Settings) -> Result<Arc<Self>, StartError> {
        let cache = Cache::open(settings.cache.as_deref())?;
        let most = Amounts::on_this_machine(settings.max_runs, settings.guest_memory);
        let wasmtime_error = |error: wasmtime::Error| StartError::Wasmtime(format!("{error:#}"));
        let mut config = toolchain::config_for(settings);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(&most)));
        let (wasm, pooled) = match wasmtime::Engine::new(&config) {
            Ok(wasm) => (wasm, true),
            Err(error) => {
                tracing::warn!(
                    event = "engine.pool_unavailable",
                    error = format!("{error:#}"),
                    "cannot reserve a memory pool; instances are allocated one by one"
                );
                (wasmtime::Engine::new(&toolchain::config_for(settings)).map_err(wasmtime_error)?, false)
            }
        };
        let linker = linker(&wasm).map_err(wasmtime_error)?;
        let ticker =
            Ticker::start(wasm.clone(), toolchain::stack_size(settings)).map_err(StartError::Thread)?;
        let (budget, scheduler) = (RunBudget::new(most), CpuScheduler::new(settings.turns));
        Ok(Arc::new(Self {
            wasm,
            linker,
            ticker,
            settings: settings.clone(),
            cache,
            network: Arc::new(Network::of_system()),
            checker: SchemaChecker::new(scheduler.clone(), budget.clone()),
            budget,
            scheduler,
            former: OnceLock::new(),
            journal_linker: OnceLock::new(),
            pooled,
        }))
    }

    /// The maximum number of concurrent runs: the configured number, bounded by the memory mappings
    /// and the address space of a process.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.budget.most().runs
    }

    /// The number of runs in progress.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.budget.taken().runs
    }

    /// The memory for all runs together, in bytes.
    #[must_use]
    pub fn guest_memory(&self) -> u64 {
        self.budget.most().bytes
    }

    /// The maximum number of components that are loaded at once.
    pub(crate) fn loads_at_once() -> usize {
        std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_LOADS as usize))
    }

    /// The dependencies of a compilation.
    pub(crate) fn toolchain(&self) -> Toolchain<'_> {
        Toolchain { wasm: &self.wasm, cache: &self.cache, settings: &self.settings }
    }

    /// The linker of runs with a journal, which the first call makes.
    ///
    /// # Errors
    /// If wasmtime refuses it.
    pub(crate) fn journal_linker(&self) -> Result<&Linker<GuestState>, &str> {
        let made = || crate::run::recorded_linker::linker(&self.wasm).map_err(|error| format!("{error:#}"));
        self.journal_linker.get_or_init(made).as_ref().map_err(String::as_str)
    }

    /// Makes computing guests check at once whether they were stopped.
    pub(crate) fn interrupt(&self) {
        self.wasm.increment_epoch();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("capacity", &self.capacity()).field("pooled", &self.pooled).finish()
    }
}

/// The values come from measurements with a thousand suspended guests.
fn pool(most: &Amounts) -> PoolingAllocationConfig {
    let slots = most.runs + MAX_LOADS;
    let warm = std::thread::available_parallelism().map_or(2, |cores| cores.get() as u32) * 2;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        // One is being trimmed.
        .total_stacks(slots + 1)
        .total_memories(most.memories + MAX_LOADS * MAX_MEMORIES as u32)
        // This is only a counter, and should never be the effective limit.
        .total_core_instances(slots.saturating_mul(MAX_INSTANCES as u32))
        .total_tables(most.tables + MAX_LOADS * MAX_TABLES as u32)
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
        .max_unused_warm_slots(warm)
        .pagemap_scan(Enabled::Auto);
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_compiled_without_a_pool_is_taken_by_an_engine_with_one() {
        let engine = Engine::start(&Settings { max_runs: 4, ..Settings::default() }).expect("starts");
        assert!(engine.pooled);
        let plain = wasmtime::Engine::new(&toolchain::config()).expect("starts");
        let hash = crate::component::cache::compatibility;
        assert_eq!(hash(&engine.wasm), hash(&plain));
    }
}
