//! The linker of runs with a journal.

use crate::guest::state::GuestState;
use crate::journal::{clocks, host_functions, pollables};
use wasmtime::component::Linker;

/// Creates the linker: that of other runs, with the functions replaced that bring chance into a guest.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = crate::run::linker::linker(engine)?;
    linker.allow_shadowing(true);
    clocks::add_to_linker(&mut linker)?;
    pollables::add_to_linker(&mut linker)?;
    host_functions::add_to_linker(&mut linker)?;
    linker.allow_shadowing(false);
    Ok(linker)
}
