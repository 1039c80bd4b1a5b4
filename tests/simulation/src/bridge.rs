//! Clients without tasks: their long calls go on as tasks, and an equal call joins such a task.

pub(crate) mod clients;
pub(crate) mod effects;
pub(crate) mod promises;
mod timeline;

pub use effects::REPEATS;
pub use promises::Fault;
pub use timeline::{EVENTS, RARE, simulate};
