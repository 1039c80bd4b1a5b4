//! Permanent permissions that users gave: the operator lists and revokes them.

use crate::access::caller::Caller;
use crate::access::grants::GrantFilter;
use crate::application::Dispatch;
use crate::error::Fault;
use toolyard_task::grant::{AfterGrant, Grant, GrantId};

/// The grants that one page of the store has.
const PAGE: u32 = 500;

impl Dispatch {
    /// The grants of all owners after this one, the oldest first. For the operator only; no client
    /// request reaches this.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, Fault> {
        self.deps.access.list_grants(after, limit).await
    }

    /// All grants that the filter selects, the oldest first.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn find_grants(&self, filter: &GrantFilter) -> Result<Vec<Grant>, Fault> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.grants(after, PAGE).await?;
            after = page.last().map(|last| AfterGrant { given_at: last.given_at, id: last.id });
            let is_last = page.len() < PAGE as usize;
            found.extend(page.into_iter().filter(|grant| filter.has(grant)));
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Revokes a grant on every host of the store: it no longer counts at the next use. Returns the
    /// grant, if it existed.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn revoke_grant(&self, caller: &Caller, id: GrantId) -> Result<Option<Grant>, Fault> {
        self.deps.access.revoke_grant(caller, id).await
    }

    /// Revokes all grants that the filter selects. Returns those that were revoked.
    ///
    /// # Errors
    /// [`Fault::Store`]; some may be revoked by then.
    pub async fn revoke_grants(&self, caller: &Caller, filter: &GrantFilter) -> Result<Vec<Grant>, Fault> {
        let mut gone = Vec::new();
        for grant in self.find_grants(filter).await? {
            // Another process may have revoked it first.
            gone.extend(self.revoke_grant(caller, grant.id).await?);
        }
        Ok(gone)
    }
}
