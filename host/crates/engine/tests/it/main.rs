//! The engine over real components. `plugins/build.sh` and
//! `tests/fixtures/build.sh` build them.

mod cached;
mod calls;
mod kit;
mod limits;
mod mutation;
mod refusals;
mod reload;
