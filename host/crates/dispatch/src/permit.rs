//! May you: the operator's rules, applied to requests. What a caller may not use
//! does not exist for it; where a scope would help, it is told so.
//!
//! A check yields a [`Permit`], which the steps that do something ask for, so that
//! none of them is reached without one. Names are checked before they are looked
//! up: what is denied is answered like what does not exist, by the same code.

use crate::authority::{Decision, Kind, Object};
use crate::query::Caller;
use crate::{Dispatch, Fault};
use toolyard_protocol::RawJson;

/// The right to do what was asked for. Made by the checks in this file only.
#[derive(Debug)]
pub(crate) struct Permit(());

/// Why there is no permit.
#[derive(Debug)]
pub(crate) enum Denial {
    /// To the caller, the object does not exist.
    Unknown,
    /// A scope would help.
    Scope(Fault),
}

impl Denial {
    /// The fault, where `unknown` is that of what does not exist.
    pub fn or(self, unknown: impl FnOnce() -> Fault) -> Fault {
        match self {
            Self::Unknown => unknown(),
            Self::Scope(fault) => fault,
        }
    }
}

impl Dispatch {
    /// Whether the caller may use this object, with some arguments or other.
    pub(crate) fn permit(&self, caller: &Caller, object: Object<'_>) -> Result<Permit, Denial> {
        match self.policy().authority.shows(&caller.principal, object) {
            Decision::Allowed(_) => Ok(Permit(())),
            Decision::NeedsScopes(scopes) => Err(Denial::Scope(Fault::InsufficientScope(scopes))),
            Decision::Denied(_) => Err(Denial::Unknown),
        }
    }

    /// Whether the caller, who sees this tool, may call it with these arguments.
    /// The rule stays untold: it may name what the caller is not to know.
    pub(crate) fn permit_call(
        &self,
        caller: &Caller,
        tool: &str,
        arguments: &RawJson,
    ) -> Result<Permit, Fault> {
        match self.policy().authority.allows(&caller.principal, Object::Tool(tool), arguments) {
            Decision::Allowed(_) => Ok(Permit(())),
            Decision::NeedsScopes(scopes) => Err(Fault::InsufficientScope(scopes)),
            Decision::Denied(_) => Err(Fault::ArgumentsDenied(tool.to_owned())),
        }
    }

    /// The right to ask plugins what they have of this kind; none where nothing of
    /// it would be shown. What they list is filtered by [`Dispatch::shows`].
    pub(crate) fn permit_list(&self, caller: &Caller, kind: Kind) -> Option<Permit> {
        self.policy().authority.may_show_any(&caller.principal, kind).then_some(Permit(()))
    }

    /// Whether a list shows this object to the caller.
    pub(crate) fn shows(&self, caller: &Caller, object: Object<'_>) -> bool {
        matches!(self.policy().authority.shows(&caller.principal, object), Decision::Allowed(_))
    }

    /// Whether the caller may be told of this resource.
    #[must_use]
    pub fn may_hear_of(&self, caller: &Caller, uri: &str) -> bool {
        self.shows(caller, Object::Resource(uri))
    }

    /// Whether the caller may subscribe to this resource. One that it may not read
    /// is as one that does not exist: it is never told of it.
    ///
    /// # Errors
    /// [`Fault::InsufficientScope`].
    pub fn may_subscribe(&self, caller: &Caller, uri: &str) -> Result<(), Fault> {
        match self.permit(caller, Object::Resource(uri)) {
            Err(Denial::Scope(fault)) => Err(fault),
            Ok(_) | Err(Denial::Unknown) => Ok(()),
        }
    }
}
