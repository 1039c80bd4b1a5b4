//! Verdicts of users about what a plugin may have.

use super::{Action, By, Entry, name_of, short};
use crate::grant::{Grant, Verdict};
use crate::id::Digest;
use crate::permission::AccessRequest;
use crate::wire::visible::clip;

/// The longest object of a permission (characters): the path of a folder may be long, and half of it
/// would name another folder.
const MAX_WANTED: usize = 8 << 10;

impl Entry {
    /// The user's verdict about a plugin's wish, and for how long it counts.
    #[must_use]
    pub fn verdict_given(
        verdict: Verdict,
        of: (&str, &Digest),
        wanted: &AccessRequest,
        how_long: &str,
        by: &By,
    ) -> Self {
        let action = match verdict {
            Verdict::Allow => Action::Permitted,
            Verdict::Deny => Action::NotPermitted,
        };
        Self { reason: Some(short(how_long)), ..Self::on_permission(action, of, wanted, by) }
    }

    /// A permanent verdict is revoked.
    #[must_use]
    pub fn revoked(grant: &Grant, by: &By) -> Self {
        let of = (grant.plugin.as_str(), &grant.digest);
        Self {
            owner: Some(name_of(&grant.owner)),
            reason: Some(grant.verdict.as_str().to_owned()),
            ..Self::on_permission(Action::Revoked, of, &grant.wanted, by)
        }
    }

    fn on_permission(
        action: Action,
        (plugin, digest): (&str, &Digest),
        wanted: &AccessRequest,
        by: &By,
    ) -> Self {
        Self {
            plugin: Some(short(plugin)),
            digest: Some(digest.clone()),
            permission: Some(clip(&wanted.to_string(), MAX_WANTED)),
            ..Self::new(action, by)
        }
    }
}
