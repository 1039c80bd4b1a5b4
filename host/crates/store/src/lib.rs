//! Stores for tasks, sessions, hosts, keys, grants and audit entries: in memory, in one SQLite file
//! that several processes share (feature `sqlite`), or in a PostgreSQL database that several
//! machines share (feature `postgres`). All behave alike; the crate `toolyard-store-contract` defines
//! how and tests each of them.
//!
//! Decisions about tasks do not belong here. A store compares a version and writes the given task,
//! so that every store has the same state machine, `toolyard_task::apply`.

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

// The store in memory uses only a few of these.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod audit_buffer;
mod backend;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod backup;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod codec;
mod components;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod group_commit;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod journal_encoding;
mod key_id;
pub mod memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod metrics;
#[cfg(feature = "postgres")]
pub mod postgres;
// The store in memory seals nothing.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod audit_lines;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod encryption;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod erasure;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod last_seen_buffer;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod monotonic_clock;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod operation_error;
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
mod reencryption;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
mod refusal;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod search_plan;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod task_encoding;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod timeline_buffer;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod timeline_encoding;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
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
