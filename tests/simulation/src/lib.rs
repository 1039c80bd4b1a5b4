//! Deterministic simulation: two to five hosts over one shared store. Clocks differ. Hosts are killed,
//! paused, woken late and shut down. Store calls are slow, get lost or fail. Clients create, poll, await,
//! cancel and answer. The dispatchers are the real ones, their store is the one in memory with leases, and
//! guests are native tools. The tasks of one of them resume: they are parked and woken, and have effects.
//! In some timelines one host after another runs, and the clients know no tasks ([`bridge`]).
//!
//! Everything follows from a seed: a seed that breaks a promise breaks it again.

pub mod bridge;
pub mod clients;
#[path = "../../src/dice.rs"]
pub mod dice;
pub mod guests;
pub mod host;
pub mod journals;
pub mod ledger;
pub mod link;
pub mod runs;
pub mod saga;
pub mod search;
pub mod simulation;
pub mod time;
pub mod trace;
pub mod world;

pub use simulation::simulate;
