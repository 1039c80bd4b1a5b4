//! The port to the keys that sign the state that clients carry for the host.

use crate::error::StoreError;
use crate::wire::Timestamp;
use async_trait::async_trait;
use uuid::Uuid;

/// The use of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyUse {
    /// Cursors of listings.
    Cursor,
    /// State that a client hands back (2026-07-28).
    RequestState,
    /// Messages between hosts, which the key encrypts as well.
    Message,
}

impl KeyUse {
    /// The name that it is stored under.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::RequestState => "request-state",
            Self::Message => "message",
        }
    }
}

/// A secret of 32 bytes and its number.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// The number of the key, which signed data carries along.
    pub id: u32,
    /// The secret.
    pub secret: [u8; 32],
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The store of keys.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// The keys for a use, the newest first; it signs, the others still verify.
    /// The first call makes one.
    async fn keys(&self, used_for: KeyUse) -> Result<Vec<Key>, StoreError>;

    /// Uses up signed data that may be used only once. Returns false if it was used before. The store
    /// remembers the use until `until`, after which the data is no longer valid.
    async fn use_up(&self, id: Uuid, until: Timestamp) -> Result<bool, StoreError>;
}
