//! Permanent permissions that users gave: their selection and their removal.

use crate::access::Access;
use crate::access::caller::Caller;
use crate::error::Fault;
use toolyard_task::Owner;
use toolyard_task::audit::{Entry, fingerprint, name_of};
use toolyard_task::grant::{AfterGrant, Grant, GrantId};

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
