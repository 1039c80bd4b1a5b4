//! Why a store itself cannot answer, and the secrets that it takes from the operating system.

use toolyard_task::StoreError;

/// Why the store itself cannot answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreRefusal {
    #[error("the store has been shut down")]
    Closed,
    #[error("the queue of the store stayed full for {0:?}")]
    Full(std::time::Duration),
    #[error("the database gave no answer within {0:?}")]
    Silent(std::time::Duration),
    #[error("another process encrypts the tasks of this schema again just now; wait until it has ended")]
    Resealing,
    #[error(
        "the connection to the database that kept other processes from doing the same ended; do it again"
    )]
    LostTurn,
    #[error("the file of the store was removed or replaced")]
    Replaced,
    #[error("the id `{0}` already exists")]
    Exists(String),
    #[error("the operating system gives no random bytes: {0}")]
    NoChance(getrandom::Error),
}

/// 32 random bytes.
pub(crate) fn secret() -> Result<[u8; 32], StoreError> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| StoreError::Unavailable(StoreRefusal::NoChance(error).into()))?;
    Ok(secret)
}
