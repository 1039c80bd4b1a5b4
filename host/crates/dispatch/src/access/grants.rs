//! Permanent permissions that users gave: the operator lists and revokes them.

use crate::access::Access;
use crate::{Caller, Fault};
use toolyard_task::audit::{Entry, name_of};
use toolyard_task::grant::{AfterGrant, Grant, GrantId};

impl Access {
    /// The grants of all owners after this one, the oldest first. For the operator only; no client
    /// request reaches this.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn list_grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, Fault> {
        Ok(self.grants.grants(after, limit).await?)
    }

    pub async fn revoke_grant(&self, caller: &Caller, id: GrantId) -> Result<Option<Grant>, Fault> {
        let Some(grant) = self.grants.grant(id).await? else { return Ok(None) };
        let entry = Entry::revoked(&grant, &caller.by());
        if !self.grants.revoke(id, vec![entry]).await? {
            return Ok(None);
        }
        tracing::info!(
            event = "grant.revoked", grant = %id, owner = name_of(&grant.owner), plugin = grant.plugin,
            "grant revoked"
        );
        Ok(Some(grant))
    }
}
