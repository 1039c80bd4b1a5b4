//! Errors of a database: messages for the operator at the start, and error kinds for callers later.

use crate::backup::BackupError;
pub(super) use crate::group_commit::closed;
use crate::key_id::KeyId;
use crate::operation_error::OperationError;
use crate::refusal::StoreRefusal;
use deadpool_postgres::PoolError;
use std::time::Duration;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use toolyard_task::StoreError;

/// Why a database cannot be used. Nothing in it was deleted or replaced. No message contains the
/// password.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// The address is invalid.
    #[error("this is not the address of a PostgreSQL database, such as postgres://user@host/database")]
    Address(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The name of the schema is invalid.
    #[error("`{0}` is not a valid schema name: use letters, digits and underscores, beginning with a letter")]
    Name(String),
    /// A certificate is needed and cannot be checked.
    #[error("cannot read the root certificates that the database's certificate is checked with: {0}")]
    Roots(String),
    /// The server refused or did not answer.
    #[error("cannot reach {place}; {advice}")]
    Unreachable {
        /// Which database.
        place: String,
        /// Advice for the operator.
        advice: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The user of the connection lacks a right that a store needs.
    #[error(
        "this user may not use {place}; grant it CREATE on the database, or make the schema for it \
         (CREATE SCHEMA … AUTHORIZATION its role)"
    )]
    Forbidden {
        /// Which database.
        place: String,
        /// The server's message.
        #[source]
        source: Error,
    },
    /// Another role owns something in the schema or has rights on it.
    #[error(
        "{place} is not this role's alone, so that code of others could run as this host, or read its tasks: \
         the {object} {wrong}; {mended}{others}. cluster.schema names another schema"
    )]
    NotAlone {
        /// Which database.
        place: String,
        /// The object.
        object: String,
        /// The fault of this object.
        wrong: String,
        /// The advice to the operator.
        mended: String,
        /// The number of further objects, in words.
        others: String,
    },
    /// Another session holds a lock that the start needs.
    #[error(
        "{place} could not be prepared: {by} held a lock for more than {patience:?}; if it is no host that brings \
         the schema forward, end it (pg_terminate_backend)"
    )]
    Locked {
        /// Which database.
        place: String,
        /// The holder of the lock, if known.
        by: String,
        /// How long the start waited.
        patience: Duration,
        /// The server's error.
        #[source]
        source: Error,
    },
    /// A key in the schema is not valid.
    #[error("{place} holds an invalid key for messages; delete it from the table key, and restart all hosts")]
    Key {
        /// Which database.
        place: String,
    },
    /// The schema belongs to another program.
    #[error("{place} holds tables of another program; name another schema")]
    Foreign {
        /// Which database.
        place: String,
    },
    /// A later release wrote it.
    #[error("{place} has schema {found} and this release knows {known} at most; {}", crate::backup::WAY_BACK)]
    Newer {
        /// Which database.
        place: String,
        /// The schema version of the database.
        found: i64,
        /// The latest version that this release knows.
        known: i64,
    },
    /// The database contains values that are sealed with a key that was not provided.
    #[error(
        "{place} holds tasks that are encrypted with the key {key}, which is not among the keys configured here; \
         give that key as well, or name another schema"
    )]
    Sealed {
        /// Which database.
        place: String,
        /// The key.
        key: KeyId,
    },
    /// A later attempt may succeed.
    #[error("cannot use {place}")]
    Unavailable {
        /// Which database.
        place: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<PostgresOpenError> for BackupError {
    fn from(error: PostgresOpenError) -> Self {
        Self::Store(error.into())
    }
}

/// Why an operation of a transaction failed.
pub(super) type PostgresError = OperationError<Error>;

impl From<Error> for PostgresError {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<PostgresError> for StoreError {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::Database(error) => failed(error),
            PostgresError::Store(error) => error,
        }
    }
}

/// The error for a caller after a failure of the server or of the connection.
pub(super) fn failed(error: Error) -> StoreError {
    let damaged = [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED];
    match error.code() {
        Some(code) if damaged.contains(code) => StoreError::Corrupt(error.into()),
        _ => StoreError::Unavailable(error.into()),
    }
}

/// A column whose content is not what the store writes there.
pub(super) fn unreadable(error: Error) -> StoreError {
    StoreError::Corrupt(error.into())
}

/// The error for a caller that gets no connection.
pub(super) fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::Closed => closed(),
        other => StoreError::Unavailable(other.into()),
    }
}

/// The server has not answered for this long.
pub(super) fn silent(time: Duration) -> StoreError {
    StoreError::Unavailable(StoreRefusal::Silent(time).into())
}
