//! The limits of a run: its memory, its processor time, and its share of the machine.

pub(crate) mod account_slots;
pub(crate) mod cpu_meter;
pub(crate) mod cpu_scheduler;
pub(crate) mod epoch;
pub(crate) mod failure;
pub(crate) mod first_poll;
pub(crate) mod memory_limiter;
pub(crate) mod run_budget;
pub(crate) mod stacks;
