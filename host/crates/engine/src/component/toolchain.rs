//! The tools that components are compiled with.

use crate::component::cache::Cache;
use crate::settings::Settings;
use wasmtime::Config;

/// The engine of wasmtime, and the cache and the settings that go with it.
#[derive(Clone, Copy)]
pub(crate) struct Toolchain<'a> {
    pub wasm: &'a wasmtime::Engine,
    pub cache: &'a Cache,
    pub settings: &'a Settings,
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
        // As much for the host's functions as for the guest's. Of each stack that sleeps a page or
        // two are in use; two stacks share a page of page tables.
        .async_stack_size(1 << 20)
        .max_wasm_stack(512 << 10);
    config
}
