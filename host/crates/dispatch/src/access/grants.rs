//! Permanent permissions that users gave: their selection and their removal.

use crate::access::Access;
use crate::access::caller::Caller;
use crate::error::Fault;
use toolyard_task::Owner;
use toolyard_task::audit::{fingerprint, name_of};
use toolyard_task::grant::{AfterGrant, Grant, GrantId};

/// The grants that one page of the store has.
const PAGE: u32 = 500;

/// Selects grants; all of them without a plugin and a principal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantFilter {
    /// Only those of this plugin file.
    pub plugin: Option<String>,
    /// Only those of this principal, as [`owner_name`] writes it. `anonymous` means all anonymous clients.
    pub principal: Option<String>,
}

impl GrantFilter {
    /// Whether it selects this grant.
    #[must_use]
    pub fn has(&self, grant: &Grant) -> bool {
        let of = owner_name(&grant.owner);
        self.plugin.as_ref().is_none_or(|plugin| *plugin == grant.plugin)
            // The name of an anonymous client is followed by text that tells its session from others.
            && self.principal.as_ref().is_none_or(|name| {
                of == *name || (name == "anonymous" && of.starts_with("anonymous "))
            })
    }
}

/// The name of an owner, for the operator. An anonymous client proves its ownership with nothing but its
/// session's id, so this shows the fingerprint of that id, as the audit log does; a fingerprint grants no
/// access.
#[must_use]
pub fn owner_name(owner: &Owner) -> String {
    match owner {
        Owner::Session(id) => format!("anonymous {}", fingerprint(id)),
        Owner::Local | Owner::Anyone | Owner::Subject { .. } => name_of(owner),
    }
}

impl Access {
    /// The grants of all owners after this one, the oldest first. For the operator only; no client
    /// request reaches this.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn list_grants(&self, after: Option<AfterGrant>, limit: u32) -> Result<Vec<Grant>, Fault> {
        Ok(self.grants.grants(after, limit).await?)
    }

    /// All grants that the filter selects, the oldest first.
    ///
    /// # Errors
    /// [`Fault::Store`].
    pub async fn find_grants(&self, filter: &GrantFilter) -> Result<Vec<Grant>, Fault> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.list_grants(after, PAGE).await?;
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
        let revoked = self.grants.revoke(id, &caller.by()).await?;
        if let Some(grant) = &revoked {
            tracing::info!(
                event = "grant.revoked", grant = %id, owner = name_of(&grant.owner), plugin = grant.plugin,
                "grant revoked"
            );
        }
        Ok(revoked)
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
