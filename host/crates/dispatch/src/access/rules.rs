//! Who may use what: the operator's rules, and what they say of one principal and
//! one tool, resource or prompt.
//!
//! Pure: no clock, no store, no catalog. Rules speak of names, whether anything of
//! that name exists or not, so that a decision tells nothing of what exists. The
//! requests that ask for a decision are in [`crate::access::permit`].
//!
//! The first rule that matches decides. Where there are rules, what no rule
//! matches is denied; where there are none, everything is allowed.

mod condition;
mod number;
mod principals;
mod reading;
mod rule;

use crate::Principal;
use condition::Arguments;
pub(crate) use principals::PrincipalPattern;
pub use rule::{Effect, Miss, Rule, RuleSpec, is_scope};
use std::collections::BTreeSet;
use toolyard_protocol::RawJson;
use toolyard_task::ArgumentValue;

/// Rules of one configuration; a decision may look at each of them several times.
pub const MOST_RULES: usize = 256;

/// What somebody wants to use.
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
    /// What kind of thing it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Tool(_) => Kind::Tool,
            Self::Resource(_) => Kind::Resource,
            Self::Prompt(_) => Kind::Prompt,
        }
    }
}

/// A kind of thing that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tools.
    Tool,
    /// Resources and their templates.
    Resource,
    /// Prompts.
    Prompt,
}

/// What the rules say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Yes. The rule that says so, by its place; none where there are no rules.
    Allowed(Option<usize>),
    /// No, but yes to a token that has these scopes as well.
    NeedsScopes(Vec<String>),
    /// No. The rule that says so, if it is not just that none allows it.
    Denied(Option<usize>),
}

/// A rule that cannot be used as it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {number} ({name}): `{key}`: {what}")]
pub struct RuleError {
    /// Its place, from 1.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// The key.
    pub key: &'static str,
    /// What is wrong with it.
    pub what: String,
}

/// The rules in force.
#[derive(Debug, Default)]
pub struct Authority {
    rules: Vec<Rule>,
}

/// One rule, and why it did not match, if it did not.
#[derive(Debug)]
pub struct Step<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// Its place, from 0.
    pub place: usize,
    /// Why it does not match.
    pub miss: Option<Miss>,
}

impl Authority {
    /// Rules as they were written.
    ///
    /// # Errors
    /// The first one that cannot be used.
    pub fn new(written: Vec<RuleSpec>) -> Result<Self, RuleError> {
        if let Some(one_too_many) = written.get(MOST_RULES) {
            return Err(RuleError {
                number: MOST_RULES + 1,
                name: one_too_many.name(MOST_RULES),
                key: "rules",
                what: format!("there are more than {MOST_RULES} rules, the most"),
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
        // Read only where it matters: they may be megabytes.
        let arguments = match self.rules.iter().any(|rule| rule.judges_arguments_of(object)) {
            true => typed().map_or_else(|| Arguments::given(arguments), Arguments::typed),
            false => Arguments::Unknown,
        };
        self.decide(principal, object, &arguments)
    }

    /// Whether any rule may allow the principal anything of this kind. Where none
    /// does, nobody need be asked what there is.
    #[must_use]
    pub fn may_show_any(&self, principal: &Principal, kind: Kind) -> bool {
        self.rules.is_empty()
            || self.rules.iter().any(|rule| {
                rule.effect == Effect::Allow && rule.speaks_of(kind) && rule.is_for(principal, None).is_ok()
            })
    }

    /// Every rule up to the one that decides, with the reason why it does or does
    /// not match.
    pub fn explain<'a>(
        &'a self,
        principal: &'a Principal,
        object: Object<'a>,
        arguments: Option<&RawJson>,
    ) -> Vec<Step<'a>> {
        let arguments = arguments.map_or(Arguments::Unknown, Arguments::given);
        let mut steps = Vec::new();
        for (place, rule) in self.rules.iter().enumerate() {
            let miss = rule.matches(principal, None, object, &arguments).err();
            let decides = miss.is_none();
            steps.push(Step { rule, place, miss });
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
        // Written otherwise, the same resource may have been denied.
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

    /// The scopes that the first rule which would then allow it lacks.
    fn scopes_that_help(
        &self,
        principal: &Principal,
        object: Object<'_>,
        arguments: &Arguments<'_>,
    ) -> Option<Vec<String>> {
        // Only who came with a token can come back with a better one.
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
