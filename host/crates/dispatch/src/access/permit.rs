//! Permits: the operator's rules, applied to requests. An object that a caller may not use does not
//! exist for it; the answer names a scope only where the scope would help.
//!
//! A check returns a permit, and nothing else makes one. A slot requires a permit, so nothing runs
//! without one. A permit is bound to the account that pays for it, to the tool or the kind of
//! object, and for a call to the arguments that the rules looked at, and says whether an approval is needed. Names are checked before they
//! are looked up: the same code answers for a denied object and for one that does not exist.

use crate::access::Access;
use crate::access::caller::Caller;
use crate::access::rules::{AccessRules, Decision, Object, ObjectKind, ambiguity};
use crate::error::Fault;
use crate::observe::metrics::MeasuredTool;
use std::sync::Arc;
use toolyard_protocol::RawJson;
use toolyard_task::Task;
use toolyard_task::approval::{Confirm, ConfirmTerms};
use toolyard_task::audit::Action;
use toolyard_task::tool::CpuShare;

/// The right to call this tool with these arguments. Made by the checks in this file only.
#[derive(Clone)]
pub(crate) struct CallPermit {
    share: CpuShare,
    tool: Arc<MeasuredTool>,
    arguments: RawJson,
    needs_approval: bool,
}

impl CallPermit {
    /// The terms of the approval without which nothing runs; `None` if the call may run.
    pub fn unapproved(&self) -> Option<&ConfirmTerms> {
        self.needs_approval.then(|| &self.tool.spec().confirm)
    }

    /// The account to which the call is charged.
    pub const fn share(&self) -> &CpuShare {
        &self.share
    }

    /// The tool that may be called.
    pub const fn tool(&self) -> &Arc<MeasuredTool> {
        &self.tool
    }

    /// The arguments that it may be called with.
    pub const fn arguments(&self) -> &RawJson {
        &self.arguments
    }

    /// The tool, and the arguments to call it with.
    pub fn into_call(self) -> (Arc<MeasuredTool>, RawJson) {
        (self.tool, self.arguments)
    }
}

/// The right to ask plugins for resources, or for a prompt. Made by the checks in this file
/// only.
pub(crate) struct AskPermit {
    share: CpuShare,
    kind: ObjectKind,
}

impl AskPermit {
    /// The account to which the plugins' runs are charged.
    pub const fn share(&self) -> &CpuShare {
        &self.share
    }

    /// The kind of object that is asked for.
    pub const fn kind(&self) -> ObjectKind {
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
    /// The fault; `unknown` is the one for an object that does not exist.
    pub fn or(self, unknown: impl FnOnce() -> Fault) -> Fault {
        match self {
            Self::Unknown => unknown(),
            Self::Scope(fault) => fault,
        }
    }
}

impl Access {
    /// Whether the caller may use this object with at least some arguments.
    pub(crate) fn check(&self, caller: &Caller, object: Object<'_>) -> Result<(), NoPermit> {
        let policy = self.policy();
        let decision = policy.rules.shows(&caller.principal, object);
        self.note(caller, &policy.rules, object, &decision);
        match decision {
            Decision::Allowed(_) => Ok(()),
            Decision::NeedsScopes(scopes) => Err(NoPermit::Scope(Fault::InsufficientScope(scopes))),
            Decision::Denied(_) => Err(NoPermit::Unknown),
        }
    }

    /// The right to ask plugins for this resource or prompt.
    pub(crate) fn permit(&self, caller: &Caller, object: Object<'_>) -> Result<AskPermit, NoPermit> {
        self.check(caller, object)?;
        Ok(AskPermit { share: Self::share(&self.policy(), caller), kind: object.kind() })
    }

    /// A denial is recorded whether the object exists or not.
    fn note(&self, caller: &Caller, rules: &AccessRules, object: Object<'_>, decision: &Decision) {
        let (action, rule, reason) = match decision {
            Decision::Allowed(_) => return,
            Decision::NeedsScopes(scopes) => {
                (Action::DeniedByScope, None, format!("needs the scope {}", scopes.join(" ")))
            }
            Decision::Denied(Some(place)) => {
                let rule = rules.rules()[*place].name.as_str();
                (Action::DeniedByRule, Some(rule), "a rule denies it".to_owned())
            }
            Decision::Denied(None) => (Action::DeniedByRule, None, "no rule allows it".to_owned()),
        };
        self.observers.metrics.count_denied(action == Action::DeniedByScope);
        self.note_denied(caller, object, action, rule, &reason);
    }

    /// Whether the caller, who sees this tool, may call it with these arguments. The rule is not
    /// disclosed: it may name things that the caller must not know.
    pub(crate) fn permit_call(
        &self,
        caller: &Caller,
        tool: Arc<MeasuredTool>,
        arguments: RawJson,
    ) -> Result<CallPermit, Fault> {
        let policy = self.policy();
        let name = tool.spec().name();
        let object = Object::Tool(name);
        let typed = || tool.typed_arguments(&arguments);
        let decision = policy.rules.allows_typed(&caller.principal, object, &arguments, typed);
        self.note(caller, &policy.rules, object, &decision);
        match decision {
            Decision::Allowed(place) => {
                let ruled = place.map_or(Confirm::Never, |place| policy.rules.rules()[place].confirm);
                let needs_approval = match ruled.max(tool.spec().confirm.confirm) {
                    _ if policy.is_operators_own => false,
                    Confirm::Never => false,
                    Confirm::Ask => true,
                    Confirm::AlwaysDeny => return Err(Fault::NeverApproved(name.to_owned())),
                };
                if needs_approval || policy.rules.judge_arguments_of(object) {
                    let found = ambiguity(&arguments, &tool.spec().description.input_schema);
                    if let Some(what) = found {
                        let text = format!(
                            "tools/call: `arguments`: a rule or a person decides about them, and they have {what}"
                        );
                        return Err(Fault::InvalidParams(text));
                    }
                }
                Ok(CallPermit { share: Self::share(&policy, caller), tool, arguments, needs_approval })
            }
            Decision::NeedsScopes(scopes) => Err(Fault::InsufficientScope(scopes)),
            Decision::Denied(_) => Err(Fault::ArgumentsDenied(name.to_owned())),
        }
    }

    /// The right to run an accepted task, charged to its owner. The rules allowed the call with the
    /// arguments that the record keeps. They are not applied again, because they look at the scopes and
    /// claims of a token, which no record keeps.
    pub(crate) fn permit_accepted(&self, task: &Task, tool: Arc<MeasuredTool>) -> CallPermit {
        CallPermit {
            share: self.share_of(&task.owner),
            tool,
            arguments: task.arguments.clone(),
            needs_approval: task.open_approval().is_some(),
        }
    }

    /// The right to ask plugins for their objects of this kind; `None` where a list would show none
    /// of them. [`Access::shows`] filters the lists.
    pub(crate) fn permit_list(&self, caller: &Caller, kind: ObjectKind) -> Option<AskPermit> {
        let policy = self.policy();
        let may = policy.rules.may_show_any(&caller.principal, kind);
        may.then(|| AskPermit { share: Self::share(&policy, caller), kind })
    }

    /// Whether a list shows this object to the caller.
    #[must_use]
    pub fn shows(&self, caller: &Caller, object: Object<'_>) -> bool {
        matches!(self.policy().rules.shows(&caller.principal, object), Decision::Allowed(_))
    }

    /// Whether a rule that names this object denies it. The host's own tools need no rule that allows
    /// them.
    pub(crate) fn denies_by_name(&self, caller: &Caller, object: Object<'_>) -> bool {
        let policy = self.policy();
        let decision = policy.rules.shows(&caller.principal, object);
        matches!(decision, Decision::Denied(Some(place)) if policy.rules.rules()[place].names(object))
    }
}
