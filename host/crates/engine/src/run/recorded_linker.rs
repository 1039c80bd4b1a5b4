//! The linker of runs with a journal.

use crate::guest::state::GuestState;
use crate::wasi::{recorded_clocks, recorded_pollables};
use wasmtime::component::Linker;

/// Creates the linker: that of other runs, with the functions of WASI replaced that bring chance into a guest.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = crate::run::linker::linker(engine)?;
    linker.allow_shadowing(true);
    replace(&mut linker)?;
    linker.allow_shadowing(false);
    Ok(linker)
}

/// Defines the functions of WASI that bring chance into a guest (`recorded_linker/tests/functions.rs`).
fn replace(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    recorded_clocks::add_to_linker(linker)?;
    recorded_pollables::add_to_linker(linker)
}

#[cfg(test)]
mod tests;
