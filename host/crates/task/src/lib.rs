//! Tasks and their transitions, the catalog of tools, and the ports to stores and engines.
//!
//! Not here: IO, an async runtime, a clock, or randomness. Only [`apply::apply`] decides a transition;
//! a store compares a version and writes the record that it gets.

pub mod apply;
pub mod approval;
pub mod argument;
pub mod audit;
pub mod broadcast;
pub mod catalog;
pub mod clock;
mod confirmation;
pub mod erasure;
pub mod error;
mod event;
pub mod grant;
pub mod host_call;
pub mod http_tape;
pub mod id;
pub mod journal;
pub mod keys;
pub mod node;
pub mod permission;
pub mod provider;
pub mod rate;
pub mod recovery;
pub mod reservation;
pub mod run_journal;
pub mod search;
pub mod session;
pub mod store;
pub mod task;
#[cfg(test)]
mod tests;
pub mod timeline;
pub mod tool;
mod unattended;
pub mod wire;

pub use apply::{Effect, Refusal, Transition, apply};
pub use argument::ArgumentValue;
pub use audit::AuditStore;
pub use broadcast::Broadcast;
pub use catalog::Catalog;
pub use clock::{Clock, Ids};
pub use erasure::Erasure;
pub use error::{AskError, StoreError};
pub use event::Event;
pub use grant::{Grant, GrantStore};
pub use http_tape::HttpTape;
pub use id::{Digest, Incarnation, Owner, SessionDigest, SessionId, TaskId};
pub use journal::JournalStore;
pub use permission::{AccessRequest, NotPermitted};
pub use provider::Provider;
pub use rate::Rate;
pub use recovery::Durability;
pub use reservation::{Reservation, ReservationError};
pub use run_journal::{JournalLost, RunJournal};
pub use store::TaskStore;
pub use task::{Fence, Outcome, Task};
pub use timeline::TimelineStore;
pub use tool::{OnClientTimeout, RunContext, RunEnd, Tool};
pub use unattended::Unattended;
