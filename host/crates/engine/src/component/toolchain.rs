//! The dependencies of a compilation.

use crate::component::cache::Cache;
use crate::settings::Settings;
use wasmtime::Config;

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
        // The host's functions get as much stack as the guest's. A sleeping stack uses a page or
        // two, and two stacks share a page of page tables.
        .async_stack_size(1 << 20)
        .max_wasm_stack(512 << 10);
    config
}
