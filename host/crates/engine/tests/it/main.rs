//! The engine over real components. `plugins/build.sh` and
//! `tests/fixtures/build.sh` build them.

mod asking;
mod attacks;
mod cached;
mod calls;
mod folders;
mod host_calls;
mod http_tape;
mod journal;
mod kit;
mod limits;
mod mutation;
mod provider;
mod provider_hostile;
mod refusals;
mod reload;
