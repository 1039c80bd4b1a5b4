//! Where tasks, sessions, hosts, keys, grants and audit entries are kept: in memory, or
//! in one SQLite file that several processes share. Both behave alike; [`contract`] says how,
//! and is run over each.
//!
//! What may not live here: a decision about a task. A store compares a version
//! and writes what it was given, so that every store has the same state machine,
//! that of `toolyard_task::apply`.

mod codec;
pub mod contract;
pub mod memory;
pub mod sqlite;
mod stamps;
mod trail;

pub use memory::MemoryStore;
pub use sqlite::{OpenError, SqliteOptions, SqliteStore};

use toolyard_task::keys::KeyStore;
use toolyard_task::node::NodeStore;
use toolyard_task::session::SessionStore;
use toolyard_task::store::StoreError;
use toolyard_task::{AuditStore, GrantStore, TaskStore};

/// All ports of one store.
pub trait Store: TaskStore + NodeStore + SessionStore + KeyStore + GrantStore + AuditStore {}

impl<T: TaskStore + NodeStore + SessionStore + KeyStore + GrantStore + AuditStore> Store for T {}

/// Why the store itself gives no answer.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the store has been shut down")]
    Closed,
    #[error("the queue of the store stayed full for {0:?}")]
    Full(std::time::Duration),
    #[error("the file of the store was removed or replaced")]
    Replaced,
    #[error("something of the id `{0}` is there already")]
    Exists(String),
    #[error("no secret can be had from the operating system: {0}")]
    NoChance(getrandom::Error),
}

/// 32 bytes that nobody can guess.
fn secret() -> Result<[u8; 32], StoreError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| StoreError::Unavailable(Refused::NoChance(error).into()))?;
    Ok(secret)
}
