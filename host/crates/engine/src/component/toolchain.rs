//! The dependencies of a compilation.

use crate::component::cache::Cache;
use crate::settings::{QuickCode, Settings};
use wasmtime::{Config, OptLevel, RegallocAlgorithm};

/// The stack of a guest, in bytes.
const GUEST_STACK: usize = 512 << 10;
/// The stack of the host functions that a guest calls, in bytes.
const HOST_STACK: usize = 512 << 10;
/// How many times as much stack code gets that was compiled quickly.
const QUICK_FACTOR: usize = 4;

/// A wasmtime engine with its cache and settings.
#[derive(Clone, Copy)]
pub(crate) struct Toolchain<'a> {
    pub wasm: &'a wasmtime::Engine,
    pub cache: &'a Cache,
    pub settings: &'a Settings,
}

/// The configuration that determines the machine code. The compiling child uses the same one;
/// otherwise its code would be rejected.
pub(crate) fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .consume_fuel(false)
        .memory_init_cow(true)
        // Results must not depend on the processor: runs with a journal are repeated, perhaps elsewhere.
        .relaxed_simd_deterministic(true)
        // The host's functions get as much stack as the guest's. A sleeping stack uses a page or
        // two, and two stacks share a page of page tables.
        .async_stack_size(HOST_STACK + GUEST_STACK)
        .max_wasm_stack(GUEST_STACK);
    config
}

/// The configuration of an engine with these settings.
pub(crate) fn config_for(settings: &Settings) -> Config {
    let mut config = config();
    config.async_stack_size(stack_size(settings)).max_wasm_stack(guest_stack(settings));
    config
}

/// The size of the stack of a run, in bytes.
pub(crate) fn stack_size(settings: &Settings) -> usize {
    HOST_STACK + guest_stack(settings)
}

fn guest_stack(settings: &Settings) -> usize {
    match settings.quick_code {
        QuickCode::Never => GUEST_STACK,
        // Functions that were compiled quickly use several times as much stack, and shall call each
        // other as deeply.
        _ => QUICK_FACTOR * GUEST_STACK,
    }
}

/// The configuration of code for runs with a journal: a NaN has the same bits on every processor. Engines of
/// [`config_for`] run its code.
pub(crate) fn journal_config() -> Config {
    let mut config = config();
    config.cranelift_nan_canonicalization(true);
    config
}

/// The configuration that compiles quickly. Engines of [`config_for`] run its code.
pub(crate) fn quick_config() -> Config {
    let mut config = config();
    config.cranelift_opt_level(OptLevel::None).cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
    config
}
