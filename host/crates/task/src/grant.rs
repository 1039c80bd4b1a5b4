//! Permanent verdicts of users about a plugin's wishes, and the port to their store.

use crate::audit::Entry;
use crate::id::{Digest, Owner};
use crate::permission::AccessRequest;
use crate::store::StoreError;
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
    /// The id that `text` spells exactly as we do.
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
    /// It may not, and the user is not asked again.
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
    /// Its id.
    pub id: GrantId,
    /// For whose calls it counts.
    pub owner: Owner,
    /// The principal that gave it, as the audit log writes principals.
    pub by: String,
    /// The plugin's file name.
    pub plugin: String,
    /// The component: a new version must ask again.
    pub digest: Digest,
    /// The thing.
    pub wanted: AccessRequest,
    /// The verdict.
    pub verdict: Verdict,
    /// When, by the store's clock.
    pub given_at: Timestamp,
}

impl Grant {
    /// Whether it is of this: all that it is bound to but its owner.
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
    /// Its id.
    pub id: GrantId,
}

/// The store of grants. Audit entries come with the change that they record, as with
/// [`crate::TaskStore`].
#[async_trait]
pub trait GrantStore: Send + Sync + 'static {
    /// Keeps it, in place of what the same owner said of the same before; the
    /// store's clock sets its time. Over `most` of one owner the oldest is
    /// forgotten. Those of an anonymous client go with its session; if that is not
    /// open any more, nothing is kept and the answer is `None`.
    async fn give(&self, grant: Grant, most: u32, entries: Vec<Entry>) -> Result<Option<Grant>, StoreError>;

    /// The verdict of this owner about this wish.
    async fn standing(
        &self,
        owner: &Owner,
        plugin: &str,
        digest: &Digest,
        wanted: &AccessRequest,
    ) -> Result<Option<Grant>, StoreError>;

    /// The grant of this id.
    async fn grant(&self, id: GrantId) -> Result<Option<Grant>, StoreError>;

    /// Everybody's, the oldest first.
    async fn grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, StoreError>;

    /// Removes it. Says whether it was there; if not, no entry is written.
    async fn revoke(&self, id: GrantId, entries: Vec<Entry>) -> Result<bool, StoreError>;
}
