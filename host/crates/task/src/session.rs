//! The port to where sessions are kept.

use crate::id::{Owner, SessionId};
use crate::store::StoreError;
use crate::wire::{RawJson, Timestamp};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// A session of the revisions that have them (H-22).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whose it is: the subject who opened it, or the session itself where the
    /// client is anonymous.
    pub owner: Owner,
    /// The revision that was agreed on, by its name.
    pub revision: String,
    /// What the client can do: an object.
    pub client_capabilities: RawJson,
    /// The client's name and version, for logs.
    pub client: String,
    /// When it was opened, by the store's clock.
    pub created_at: Timestamp,
    /// When it was last seen, give or take the interval of `touch`.
    pub seen_at: Timestamp,
}

/// Where sessions are kept.
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    /// Stores a new session; the store's clock sets its times. Over `most`
    /// sessions, the one that was longest unseen and has no live task is removed.
    async fn open(&self, session: Session, most: u32) -> Result<Session, StoreError>;

    /// Reads a session.
    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;

    /// Notes that it was seen now.
    async fn touch(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Removes it. Says whether it was there.
    async fn close(&self, id: &SessionId) -> Result<bool, StoreError>;

    /// Removes sessions that were not seen for `idle_ms` and have no live task.
    /// Says how many.
    async fn sweep(&self, idle_ms: u64) -> Result<u32, StoreError>;
}
