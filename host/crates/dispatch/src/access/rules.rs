//! The operator's access rules, and their decision about one principal and one tool, resource or
//! prompt.
//!
//! Pure: no clock, no store, no catalog. Rules name objects, whether these exist or not, so that a
//! decision reveals nothing about what exists. The requests that ask for a decision are in
//! [`crate::access::permit`].
//!
//! The first rule that matches decides. If there are rules and none matches, the object is denied;
//! without rules, everything is allowed.

mod ambiguity;
mod condition;
mod number;
mod pattern;
mod principals;
mod reading;
mod rule;

use crate::access::principal::Principal;
pub(crate) use ambiguity::ambiguity;
use condition::Arguments;
pub(crate) use principals::PrincipalPattern;
pub use rule::{Effect, Mismatch, Rule, RuleSpec, is_scope};
use std::collections::BTreeSet;
use toolyard_protocol::RawJson;
use toolyard_task::ArgumentValue;

/// Rules of one configuration; a decision may look at each of them several times.
pub const MAX_RULES: usize = 256;

/// The object that a principal wants to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object<'a> {
    /// A tool, by its name.
    Tool(&'a str),
    /// A resource or a resource template, by its URI.
    Resource(&'a str),
    /// A prompt, by its name.
    Prompt(&'a str),
}

impl Object<'_> {
    /// The kind of the object.
    #[must_use]
    pub const fn kind(&self) -> ObjectKind {
        match self {
            Self::Tool(_) => ObjectKind::Tool,
            Self::Resource(_) => ObjectKind::Resource,
            Self::Prompt(_) => ObjectKind::Prompt,
        }
    }
}

/// A kind of thing that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// Tools.
    Tool,
    /// Resources and their templates.
    Resource,
    /// Prompts.
    Prompt,
}

/// The decision of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Yes, by the rule at this position; `None` without rules.
    Allowed(Option<usize>),
    /// No, but a token with these additional scopes would be allowed.
    NeedsScopes(Vec<String>),
    /// No, by this rule; `None` if simply no rule allows it.
    Denied(Option<usize>),
}

/// A rule that cannot be used as it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {number} ({name}): `{key}`: {what}")]
pub struct RuleError {
    /// The place of the rule, from 1.
    pub number: usize,
    /// The name of the rule.
    pub name: String,
    /// The key.
    pub key: &'static str,
    /// The fault in the key's value.
    pub what: String,
}

/// The rules in force.
#[derive(Debug, Default)]
pub struct AccessRules {
    rules: Vec<Rule>,
}

/// A rule, and the reason if it did not match.
#[derive(Debug)]
pub struct EvaluatedRule<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// The place of the rule, from 0.
    pub place: usize,
    /// Why it does not match.
    pub miss: Option<Mismatch>,
}

impl AccessRules {
    /// Rules as they were written.
    ///
    /// # Errors
    /// The first one that cannot be used.
    pub fn new(written: Vec<RuleSpec>) -> Result<Self, RuleError> {
        if let Some(one_too_many) = written.get(MAX_RULES) {
            return Err(RuleError {
                number: MAX_RULES + 1,
                name: one_too_many.name(MAX_RULES),
                key: "rules",
                what: format!("there are more than {MAX_RULES} rules, the most"),
            });
        }
        let rules = written.into_iter().enumerate().map(|(place, spec)| Rule::new(spec, place));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether the principal may use the object with some arguments or other:
    /// whether it is shown in lists. A condition on arguments counts as met in a
    /// rule that allows, and as not met in one that denies.
    #[must_use]
    pub fn shows(&self, principal: &Principal, object: Object<'_>) -> Decision {
        self.decide(principal, object, &Arguments::Unknown)
    }

    /// Whether the principal may use the object with these arguments, which a guest reads
    /// as text.
    #[must_use]
    pub fn allows(&self, principal: &Principal, object: Object<'_>, arguments: &RawJson) -> Decision {
        self.allows_typed(principal, object, arguments, || None)
    }

    /// Whether the principal may use the object with these arguments. `typed` gives them as
    /// the guest gets them, where the host turns them into values; it is called only if a
    /// rule looks at arguments of this object.
    #[must_use]
    pub fn allows_typed(
        &self,
        principal: &Principal,
        object: Object<'_>,
        arguments: &RawJson,
        typed: impl FnOnce() -> Option<ArgumentValue<'static>>,
    ) -> Decision {
        // Read only when needed, because they may be megabytes.
        let arguments = match self.judge_arguments_of(object) {
            true => typed().map_or_else(|| Arguments::given(arguments), Arguments::typed),
            false => Arguments::Unknown,
        };
        self.decide(principal, object, &arguments)
    }

    /// Whether a rule has conditions on the arguments of this object.
    pub(crate) fn judge_arguments_of(&self, object: Object<'_>) -> bool {
        self.rules.iter().any(|rule| rule.judges_arguments_of(object))
    }

    /// Whether any rule may allow the principal an object of this kind. If not, plugins need not be
    /// asked for theirs.
    #[must_use]
    pub fn may_show_any(&self, principal: &Principal, kind: ObjectKind) -> bool {
        self.rules.is_empty()
            || self.rules.iter().any(|rule| {
                rule.effect == Effect::Allow
                    && rule.speaks_of(kind)
                    && rule.check_principal(principal, None).is_ok()
            })
    }

    /// Every rule up to the one that decides, with the reason why it does or does
    /// not match.
    pub fn explain<'a>(
        &'a self,
        principal: &'a Principal,
        object: Object<'a>,
        arguments: Option<&RawJson>,
    ) -> Vec<EvaluatedRule<'a>> {
        let arguments = arguments.map_or(Arguments::Unknown, Arguments::given);
        let mut steps = Vec::new();
        for (place, rule) in self.rules.iter().enumerate() {
            let miss = rule.matches(principal, None, object, &arguments).err();
            let decides = miss.is_none();
            steps.push(EvaluatedRule { rule, place, miss });
            if decides {
                break;
            }
        }
        steps
    }

    fn decide(&self, principal: &Principal, object: Object<'_>, arguments: &Arguments<'_>) -> Decision {
        if self.rules.is_empty() {
            return Decision::Allowed(None);
        }
        // The same resource in another spelling may be denied.
        if let Object::Resource(uri) = object
            && !is_plain(uri)
        {
            return Decision::Denied(None);
        }
        let first = self.first(principal, None, object, arguments);
        match first {
            Some(place) if self.rules[place].effect == Effect::Allow => Decision::Allowed(Some(place)),
            denied => match self.scopes_that_help(principal, object, arguments) {
                Some(scopes) => Decision::NeedsScopes(scopes),
                None => Decision::Denied(denied),
            },
        }
    }

    /// The first rule that matches.
    fn first(
        &self,
        principal: &Principal,
        more: Option<&BTreeSet<String>>,
        object: Object<'_>,
        arguments: &Arguments<'_>,
    ) -> Option<usize> {
        self.rules.iter().position(|rule| rule.matches(principal, more, object, arguments).is_ok())
    }

    /// The scopes that the principal lacks for the first rule that would then allow the object.
    fn scopes_that_help(
        &self,
        principal: &Principal,
        object: Object<'_>,
        arguments: &Arguments<'_>,
    ) -> Option<Vec<String>> {
        // Only a caller that came with a token can come back with a better one.
        let Principal::Subject(subject) = principal else { return None };
        self.rules.iter().filter(|rule| rule.effect == Effect::Allow).find_map(|rule| {
            let lacking: Vec<String> = rule.scopes.difference(&subject.scopes).cloned().collect();
            if lacking.is_empty() || rule.matches(principal, Some(&rule.scopes), object, arguments).is_err() {
                return None;
            }
            let place = self.first(principal, Some(&rule.scopes), object, arguments)?;
            (self.rules[place].effect == Effect::Allow).then_some(lacking)
        })
    }
}

/// Whether the path of a URI is written without `.` and `..`, encoded or not.
fn is_plain(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase().replace("%2e", ".");
    let path = path.replace("%2f", "/").replace("%5c", "/");
    !path.split(['/', ':']).any(|part| part == "." || part == "..")
}

#[cfg(test)]
mod spelling_tests;
#[cfg(test)]
mod tests;
