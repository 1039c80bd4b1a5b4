//! A component before it runs: its file kind, its machine code and its offer.

pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod compile_turn;
pub(crate) mod componentize;
pub(crate) mod describe;
pub(crate) mod exports;
pub(crate) mod imports_used;
pub(crate) mod inspect;
pub(crate) mod magic;
pub(crate) mod prompts;
pub(crate) mod toolchain;
pub(crate) mod wasi_functions;
