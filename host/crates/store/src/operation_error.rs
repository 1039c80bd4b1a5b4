//! The error of an operation on a database.

use crate::codec::CodecError;
use toolyard_task::StoreError;

/// Why an operation failed. `E` is the error of the database.
#[derive(Debug)]
pub(crate) enum OperationError<E> {
    /// The database failed.
    Database(E),
    /// The store refuses the operation, or cannot read a stored value.
    Store(StoreError),
}

impl<E> From<StoreError> for OperationError<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl<E> From<CodecError> for OperationError<E> {
    fn from(error: CodecError) -> Self {
        Self::Store(error.into())
    }
}
