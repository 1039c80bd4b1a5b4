//! Errors of a file: messages for the operator at the start, and error kinds for callers later.

use crate::backup::BackupError;
use crate::key_id::KeyId;
use crate::operation_error::OperationError;
use rusqlite::ErrorCode;
use std::path::PathBuf;
use toolyard_task::StoreError;

/// Why the data folder cannot be used. Nothing in it was deleted or replaced.
#[derive(Debug, thiserror::Error)]
pub enum SqliteOpenError {
    /// The folder does not exist and cannot be created, or is not a folder.
    #[error("cannot make or enter the data folder {}; name another by --data", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's message.
        #[source]
        source: std::io::Error,
    },
    /// The file cannot be created or written.
    #[error("cannot write {}; check who owns it and whether the disk is mounted read-only", path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not a SQLite database, or its first page is damaged.
    #[error("{} is not a SQLite database; move it away or name another data folder", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is a database of another program.
    #[error("{} is a database of another program; name another data folder", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a later release.
    #[error(
        "{} has schema {found} and this release knows {known} at most; {}", path.display(), crate::backup::WAY_BACK
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's schema.
        found: i64,
        /// The latest schema that this release knows.
        known: i64,
    },
    /// The file is of an earlier release, and cannot be copied before its upgrade.
    #[error(
        "cannot keep a copy of {} before its upgrade as {}; make room for it, or move the file away",
        path.display(), copy.display()
    )]
    NotCopied {
        /// The file.
        path: PathBuf,
        /// The path of its copy.
        copy: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database contains values that are sealed with a key that was not provided.
    #[error(
        "{} holds tasks that are encrypted with the key {key}, which is not among the keys configured here; \
         give that key as well, or name another data folder", path.display()
    )]
    Sealed {
        /// The file.
        path: PathBuf,
        /// The key.
        key: KeyId,
    },
    /// The database is damaged.
    #[error("{} is damaged; restore it from a backup, or move it away to begin with an empty one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's message.
        #[source]
        source: rusqlite::Error,
    },
    /// A later attempt may succeed: the file is locked by another program, or there is too little
    /// space or too few threads.
    #[error("cannot open {}", path.display())]
    Unavailable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<SqliteOpenError> for BackupError {
    fn from(error: SqliteOpenError) -> Self {
        Self::Store(error.into())
    }
}

impl SqliteOpenError {
    /// Converts `source` to an error at the start.
    pub(super) fn of(path: PathBuf, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, source },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::NotWritable { path, source: source.into() }
            }
            _ => Self::Unavailable { path, source: source.into() },
        }
    }
}

/// Why an operation on the file failed.
pub(super) type SqliteError = OperationError<rusqlite::Error>;

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<SqliteError> for StoreError {
    fn from(error: SqliteError) -> Self {
        match error {
            SqliteError::Database(error) => failed(error),
            SqliteError::Store(error) => error,
        }
    }
}

/// The error for a caller after a failure of SQLite.
pub(super) fn failed(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(error.into()),
        None => match error {
            // A column of another type than the store writes there.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => StoreError::Corrupt(error.into()),
            other => StoreError::Unavailable(other.into()),
        },
        Some(_) => StoreError::Unavailable(error.into()),
    }
}
