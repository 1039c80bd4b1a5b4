//! Stores for tasks, sessions, hosts, keys, grants and audit entries: in memory, in one SQLite file
//! that several processes share (feature `sqlite`), or in a PostgreSQL database that several
//! machines share (feature `postgres`). All behave alike; the crate `toolyard-store-contract` defines
//! how and tests each of them.
//!
//! Decisions about tasks do not belong here. A store compares a version and writes the given task,
//! so that every store has the same state machine, `toolyard_task::apply`.

// The store in memory uses few of the parts that databases share.
#![cfg_attr(not(all(feature = "sqlite", feature = "postgres")), allow(dead_code))]

/// Reports that the process has reached the place of this name, if the last argument holds. Without
/// the feature it expands to nothing, and the arguments are not evaluated.
#[cfg(feature = "sqlite")]
macro_rules! fail_point {
    ($what:expr, $when:literal) => {
        #[cfg(feature = "failpoints")]
        toolyard_failpoint::reach_in($what, $when);
    };
    ($what:expr, $when:literal, $there:expr) => {
        #[cfg(feature = "failpoints")]
        if $there {
            toolyard_failpoint::reach_in($what, $when);
        }
    };
}

mod audit_buffer;
mod audit_lines;
mod backend;
pub mod backup;
mod codec;
mod components;
mod encryption;
mod erasure;
mod group_commit;
mod journal_encoding;
mod key_id;
mod last_seen_buffer;
pub mod memory;
mod metrics;
mod monotonic_clock;
mod operation_error;
#[cfg(feature = "postgres")]
pub mod postgres;
mod reencryption;
mod refusal;
mod search_plan;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod task_encoding;
mod timeline_buffer;
mod timeline_encoding;
mod write_buffer;

pub use backend::{Backend, Store};
pub use encryption::Keyring;
pub use key_id::KeyId;
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
pub use reencryption::{ReencryptionReport, SealWith};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOpenError, SqliteOptions, SqliteStore};

pub use toolyard_task::timeline::TimelineBounds;
