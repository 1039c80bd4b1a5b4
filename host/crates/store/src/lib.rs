//! Where tasks, sessions, hosts, keys, grants and audit entries are kept: in memory, or
//! in one SQLite file that several processes share (feature `sqlite`). Both behave alike;
//! [`contract`] says how, and is run over each.
//!
//! What may not live here: a decision about a task. A store compares a version
//! and writes what it was given, so that every store has the same state machine,
//! that of `toolyard_task::apply`.

/// The process is at the place of this name, if the last argument says so. Nothing
/// without the feature, not even the arguments.
#[cfg(feature = "sqlite")]
macro_rules! fail_point {
    ($what:expr, $when:literal) => {
        #[cfg(feature = "failpoints")]
        $crate::failpoint::reach_in($what, $when);
    };
    ($what:expr, $when:literal, $there:expr) => {
        #[cfg(feature = "failpoints")]
        if $there {
            $crate::failpoint::reach_in($what, $when);
        }
    };
}

// The store in memory takes little of these.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod codec;
pub mod contract;
#[cfg(feature = "failpoints")]
pub mod failpoint;
pub mod lines;
pub mod memory;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod seal;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod stamps;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod trail;

pub use memory::MemoryStore;
pub use seal::{KeyId, Keyring};
#[cfg(feature = "sqlite")]
pub use sqlite::{OpenError, Resealed, SealWith, SqliteOptions, SqliteStore};

use toolyard_task::keys::KeyStore;
use toolyard_task::node::NodeStore;
use toolyard_task::session::SessionStore;
use toolyard_task::store::StoreError;
use toolyard_task::{Archive, AuditStore, GrantStore, TaskStore};

pub use toolyard_task::archive;

/// All ports of one store.
pub trait Store: TaskStore + NodeStore + SessionStore + KeyStore + GrantStore + AuditStore + Archive {}

impl<T: TaskStore + NodeStore + SessionStore + KeyStore + GrantStore + AuditStore + Archive> Store for T {}

/// Why the store itself gives no answer.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
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
