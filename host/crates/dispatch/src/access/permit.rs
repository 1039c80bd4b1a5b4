//! May you: the operator's rules, applied to requests. What a caller may not use
//! does not exist for it; where a scope would help, it is told so.
//!
//! A check yields a permit, made nowhere else, and a slot is given only for a permit, so
//! nothing runs without one. A permit is bound to the account that computes for it, to the
//! tool or the kind of object, and for a call to the arguments that the rules looked at.
//! Names are checked before they are looked up: what is denied is answered like what does
//! not exist, by the same code.

use crate::Fault;
use crate::access::Access;
use crate::access::audit::{Denial, DeniedBy, Wanted};
use crate::access::caller::Caller;
use crate::access::rules::{Authority, Decision, Kind, Object};
use crate::observe::metrics::Measured;
use std::sync::Arc;
use toolyard_protocol::RawJson;
use toolyard_task::Task;
use toolyard_task::tool::Share;

/// The right to call this tool with these arguments. Made by the checks in this file only.
#[derive(Clone)]
pub(crate) struct CallPermit {
    share: Share,
    tool: Arc<Measured>,
    arguments: RawJson,
}

impl CallPermit {
    /// On whose account the call computes.
    pub const fn share(&self) -> &Share {
        &self.share
    }

    /// The tool that may be called.
    pub const fn tool(&self) -> &Arc<Measured> {
        &self.tool
    }

    /// The arguments that it may be called with.
    pub const fn arguments(&self) -> &RawJson {
        &self.arguments
    }

    /// The tool, and the arguments to call it with.
    pub fn into_call(self) -> (Arc<Measured>, RawJson) {
        (self.tool, self.arguments)
    }
}

/// The right to ask plugins for resources, or for a prompt. Made by the checks in this file
/// only.
pub(crate) struct AskPermit {
    share: Share,
    kind: Kind,
}

impl AskPermit {
    /// On whose account the plugins compute.
    pub const fn share(&self) -> &Share {
        &self.share
    }

    /// The kind of object that is asked for.
    pub const fn kind(&self) -> Kind {
        self.kind
    }
}

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
    pub(crate) fn check(&self, caller: &Caller, object: Object<'_>) -> Result<(), NoPermit> {
        let policy = self.policy();
        let decision = policy.authority.shows(&caller.principal, object);
        self.note(caller, &policy.authority, object, &decision);
        match decision {
            Decision::Allowed(_) => Ok(()),
            Decision::NeedsScopes(scopes) => Err(NoPermit::Scope(Fault::InsufficientScope(scopes))),
            Decision::Denied(_) => Err(NoPermit::Unknown),
        }
    }

    /// The right to ask plugins for this resource or prompt.
    pub(crate) fn permit(&self, caller: &Caller, object: Object<'_>) -> Result<AskPermit, NoPermit> {
        self.check(caller, object)?;
        Ok(AskPermit { share: self.share(caller), kind: object.kind() })
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
        tool: Arc<Measured>,
        arguments: RawJson,
    ) -> Result<CallPermit, Fault> {
        let policy = self.policy();
        let name = tool.spec().name();
        let object = Object::Tool(name);
        let typed = || tool.typed_arguments(&arguments);
        let decision = policy.authority.allows_typed(&caller.principal, object, &arguments, typed);
        self.note(caller, &policy.authority, object, &decision);
        match decision {
            Decision::Allowed(_) => Ok(CallPermit { share: self.share(caller), tool, arguments }),
            Decision::NeedsScopes(scopes) => Err(Fault::InsufficientScope(scopes)),
            Decision::Denied(_) => Err(Fault::ArgumentsDenied(name.to_owned())),
        }
    }

    /// The right to run an accepted task, on the account of its owner. The rules allowed the
    /// call with the arguments that the record keeps. They are not asked again: they look at
    /// the scopes and claims of a token, which no record keeps.
    pub(crate) fn permit_accepted(&self, task: &Task, tool: Arc<Measured>) -> CallPermit {
        CallPermit { share: self.share_of(&task.owner), tool, arguments: task.arguments.clone() }
    }

    /// The right to ask plugins what they have of this kind; none where nothing of
    /// it would be shown. What they list is filtered by [`Access::shows`].
    pub(crate) fn permit_list(&self, caller: &Caller, kind: Kind) -> Option<AskPermit> {
        let may = self.policy().authority.may_show_any(&caller.principal, kind);
        may.then(|| AskPermit { share: self.share(caller), kind })
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
        match self.check(caller, Object::Resource(uri)) {
            Err(NoPermit::Scope(fault)) => Err(fault),
            Ok(_) | Err(NoPermit::Unknown) => Ok(()),
        }
    }
}
