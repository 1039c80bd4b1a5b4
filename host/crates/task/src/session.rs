//! The port to the store of sessions.

use crate::error::StoreError;
use crate::id::{Owner, SessionId};
use crate::wire::{RawJson, Timestamp};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A session of the revisions that have them (H-22).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The id of the session.
    pub id: SessionId,
    /// The owner: the subject who opened it, or the session itself for an anonymous client.
    pub owner: Owner,
    /// The revision that was agreed on, by its name.
    pub revision: String,
    /// The capabilities of the client: an object.
    pub client_capabilities: RawJson,
    /// The client's name and version, for logs.
    pub client: String,
    /// The level from which log messages are sent, by its name in RFC 5424; the host's default if the
    /// client has set none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// The URIs of the resources that the client has subscribed to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub subscriptions: BTreeSet<String>,
    /// Whether its client has shown that it knows tasks: it has called a tool as a task, or asked about
    /// one. Plain calls of such a client are never handed off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub task_aware: bool,
    /// When it was opened, by the store's clock.
    pub created_at: Timestamp,
    /// When it was last used, to within the interval of `touch`.
    pub seen_at: Timestamp,
}

impl Session {
    /// The name of its client, without the version.
    #[must_use]
    pub fn client_name(&self) -> &str {
        self.client.rsplit_once(' ').map_or(&*self.client, |(name, _)| name)
    }
}

/// The store of sessions.
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    /// Stores a new session; the store's clock sets its times. If there are more than `most` sessions,
    /// the one that was unused for longest and has no live task is removed.
    async fn open(&self, session: Session, most: u32) -> Result<Session, StoreError>;

    /// Reads a session.
    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;

    /// The open sessions, the latest used first.
    async fn sessions(&self, limit: u32) -> Result<Vec<Session>, StoreError>;

    /// Notes that it was used now.
    async fn touch(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Stores what the client set in a session since it was opened: only its log level, its
    /// subscriptions and whether it knows tasks. Returns whether it is open.
    async fn remember(&self, session: &Session) -> Result<bool, StoreError>;

    /// Removes it. Returns whether it existed.
    async fn close(&self, id: &SessionId) -> Result<bool, StoreError>;

    /// Removes sessions that were not used for `idle_ms` and have no live task. Returns how many.
    async fn sweep(&self, idle_ms: u64) -> Result<u32, StoreError>;
}
