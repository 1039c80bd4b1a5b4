//! May you: the operator's rules, applied to requests. What a caller may not use
//! does not exist for it; where a scope would help, it is told so.
//!
//! A check yields a [`Permit`], which the steps that do something ask for, so that
//! none of them is reached without one. Names are checked before they are looked
//! up: what is denied is answered like what does not exist, by the same code.

use crate::Fault;
use crate::access::Access;
use crate::access::audit::{Denial, DeniedBy, Wanted};
use crate::access::caller::Caller;
use crate::access::rules::{Authority, Decision, Kind, Object};
use toolyard_protocol::RawJson;
use toolyard_task::Tool;

/// The right to do what was asked for. Made by the checks in this file only.
#[derive(Debug)]
pub(crate) struct Permit(());

/// Why there is no permit.
#[derive(Debug)]
pub(crate) enum NoPermit {
    /// To the caller, the object does not exist.
    Unknown,
    /// A scope would help.
    Scope(Fault),
}

impl NoPermit {
    /// The fault, where `unknown` is that of what does not exist.
    pub fn or(self, unknown: impl FnOnce() -> Fault) -> Fault {
        match self {
            Self::Unknown => unknown(),
            Self::Scope(fault) => fault,
        }
    }
}

impl Access {
    /// Whether the caller may use this object, with some arguments or other.
    pub(crate) fn permit(&self, caller: &Caller, object: Object<'_>) -> Result<Permit, NoPermit> {
        let policy = self.policy();
        let decision = policy.authority.shows(&caller.principal, object);
        self.note(caller, &policy.authority, object, &decision);
        match decision {
            Decision::Allowed(_) => Ok(Permit(())),
            Decision::NeedsScopes(scopes) => Err(NoPermit::Scope(Fault::InsufficientScope(scopes))),
            Decision::Denied(_) => Err(NoPermit::Unknown),
        }
    }

    /// A denial goes on record, whether the object exists or not.
    fn note(&self, caller: &Caller, authority: &Authority, object: Object<'_>, decision: &Decision) {
        let denied_by = match decision {
            Decision::Allowed(_) => return,
            Decision::NeedsScopes(_) => DeniedBy::Scope,
            Decision::Denied(place) => DeniedBy::Rule(place.map(|at| authority.rules()[at].name.as_str())),
        };
        self.observers.metrics.denied(denied_by == DeniedBy::Scope);
        let what = match object {
            Object::Tool(name) => Wanted::Tool(name),
            Object::Resource(uri) => Wanted::Resource(uri),
            Object::Prompt(name) => Wanted::Prompt(name),
        };
        let reason = match decision {
            Decision::NeedsScopes(scopes) => format!("needs the scope {}", scopes.join(" ")),
            Decision::Denied(Some(_)) => "a rule denies it".to_owned(),
            _ => "no rule allows it".to_owned(),
        };
        self.note_denied(caller, &Denial { denied_by, what, reason: &reason });
    }

    /// Whether the caller, who sees this tool, may call it with these arguments.
    /// The rule stays untold: it may name what the caller is not to know.
    pub(crate) fn permit_call(
        &self,
        caller: &Caller,
        tool: &dyn Tool,
        arguments: &RawJson,
    ) -> Result<Permit, Fault> {
        let policy = self.policy();
        let name = tool.spec().name();
        let object = Object::Tool(name);
        let typed = || tool.typed_arguments(arguments);
        let decision = policy.authority.allows_typed(&caller.principal, object, arguments, typed);
        self.note(caller, &policy.authority, object, &decision);
        match decision {
            Decision::Allowed(_) => Ok(Permit(())),
            Decision::NeedsScopes(scopes) => Err(Fault::InsufficientScope(scopes)),
            Decision::Denied(_) => Err(Fault::ArgumentsDenied(name.to_owned())),
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
            Err(NoPermit::Scope(fault)) => Err(fault),
            Ok(_) | Err(NoPermit::Unknown) => Ok(()),
        }
    }
}
