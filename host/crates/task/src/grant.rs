//! Permanent verdicts of users about a plugin's wishes, and the port to their store.

use crate::audit::{By, Entry};
use crate::error::StoreError;
use crate::id::{Digest, Owner};
use crate::permission::AccessRequest;
use crate::wire::Timestamp;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// The id of a grant: a UUID of version 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub Uuid);

impl GrantId {
    /// The id that `text` spells exactly as this type displays it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(Uuid::try_parse(text).ok()?);
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// A yes or a no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The plugin may have it.
    Allow,
    /// The plugin may not have it, and the user is not asked again.
    Deny,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// The verdict of a user about one wish of one version of a plugin. It counts for that owner, that
/// component and that wish only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The id of the grant.
    pub id: GrantId,
    /// For whose calls it counts.
    pub owner: Owner,
    /// The principal that gave it, as the audit log writes principals.
    pub by: String,
    /// The plugin's file name.
    pub plugin: String,
    /// The component: a new version must ask again.
    pub digest: Digest,
    /// The wish.
    pub wanted: AccessRequest,
    /// The verdict.
    pub verdict: Verdict,
    /// When, by the store's clock.
    pub given_at: Timestamp,
}

impl Grant {
    /// Whether it is for this plugin, component and wish. The owner is not compared.
    #[must_use]
    pub fn is_of(&self, plugin: &str, digest: &Digest, wanted: &AccessRequest) -> bool {
        self.plugin == plugin && self.digest == *digest && self.wanted.key() == wanted.key()
    }
}

/// The position of a listing of grants: after this one, in the order of (givenAt, id).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AfterGrant {
    /// When it was given.
    pub given_at: Timestamp,
    /// The id of the grant.
    pub id: GrantId,
}

/// The store of grants. Audit entries come with the change that they record, as with
/// [`crate::TaskStore`].
#[async_trait]
pub trait GrantStore: Send + Sync + 'static {
    /// Stores it in place of an earlier verdict of the same owner on the same wish; the store's clock
    /// sets its time. If one owner has more than `most`, the oldest is forgotten. The grants of an
    /// anonymous client end with its session; if that is no longer open, nothing is stored and the
    /// result is `None`.
    async fn give(&self, grant: Grant, most: u32, entries: Vec<Entry>) -> Result<Option<Grant>, StoreError>;

    /// The verdict of this owner about this wish.
    async fn standing(
        &self,
        owner: &Owner,
        plugin: &str,
        digest: &Digest,
        wanted: &AccessRequest,
    ) -> Result<Option<Grant>, StoreError>;

    /// The grants of all owners, the oldest first.
    async fn grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, StoreError>;

    /// Removes the grant with this id and writes an entry. Returns the grant; `None` if there was none, and then
    /// no entry is written.
    async fn revoke(&self, id: GrantId, by: &By) -> Result<Option<Grant>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_id_has_one_spelling() {
        let id = GrantId(Uuid::from_u128(3));
        assert_eq!(GrantId::parse(&id.to_string()), Some(id));
        assert_eq!(GrantId::parse(&id.to_string().replace('-', "")), None, "another spelling");
    }
}
