//! Deterministic simulation: two to five hosts over one shared store, with clocks that
//! differ, hosts that are killed, stopped, woken late and shut down, calls of the store
//! that are slow, lost or answered with a failure, and clients that create, poll, wait,
//! cancel and answer. The dispatchers are the real ones; their store is the one in
//! memory, with leases; guests are native tools.
//!
//! Everything follows from a seed: a seed that breaks a promise breaks it again.

pub mod clients;
#[path = "../../src/dice.rs"]
pub mod dice;
pub mod guests;
pub mod host;
pub mod ledger;
pub mod link;
pub mod runs;
pub mod simulation;
pub mod tally;
pub mod time;
pub mod world;

pub use simulation::{Course, simulate};
