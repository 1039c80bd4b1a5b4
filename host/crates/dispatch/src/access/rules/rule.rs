//! A rule: whom it is for, what it is about, and on which conditions.

use super::condition::{Arguments, Condition};
use super::pattern::{Pattern, any};
use super::principals::PrincipalPattern;
use super::{Object, ObjectKind, RuleError};
use crate::access::principal::Principal;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use toolyard_task::approval::Confirm;

/// The effect of a rule that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The rule allows.
    Allow,
    /// The rule denies.
    Deny,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

/// A rule as written in `[[rules]]`. An absent key requires nothing; one of `tools`, `resources` and
/// `prompts` must be present. In globs `*` stands for any characters, `?` for one, `{a,b}` for either.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RuleSpec {
    /// A name for people.
    pub name: Option<String>,
    /// The effect of a match.
    pub effect: Effect,
    /// Whether a person confirms the calls that it allows.
    #[serde(default)]
    pub confirm: Confirm,
    /// The principals: `anonymous`, `local`, `token:NAME`, `ISSUER#SUBJECT` with globs on either
    /// side, or `*`.
    pub principals: Option<Vec<String>>,
    /// The clients that a token was issued to, as globs.
    pub clients: Option<Vec<String>>,
    /// Scopes that the token must have, all of them.
    #[serde(default)]
    pub scopes: BTreeSet<String>,
    /// Claims of the token: a JSON pointer and a pattern for the whole value, or
    /// for one of the values of an array.
    #[serde(default)]
    pub claims: BTreeMap<String, String>,
    /// The tools that it is about, as globs.
    pub tools: Option<Vec<String>>,
    /// The resources that it is about, as globs of their URIs.
    pub resources: Option<Vec<String>>,
    /// The prompts that it is about, as globs.
    pub prompts: Option<Vec<String>>,
    /// Arguments: a JSON pointer and a pattern for the whole value. In an array or object, a rule that
    /// allows requires every value to match, and one that denies any value. The same holds for the ways
    /// in which a value can be written and read.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
}

impl RuleSpec {
    pub(super) fn name(&self, place: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("rule {}", place + 1))
    }
}

/// Why a rule does not match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The rule is about something else.
    #[error("it is about something else")]
    Object,
    /// The rule names other principals.
    #[error("it is for other principals")]
    Principal,
    /// The rule is for another client.
    #[error("it is for other clients")]
    Client,
    /// The token lacks these scopes.
    #[error("the token has not the scope {}", .0.join(", "))]
    Scopes(Vec<String>),
    /// The claim at this pointer is missing or different.
    #[error("the claim at `{0}` does not match")]
    Claim(String),
    /// The argument at this pointer is missing or different.
    #[error("the argument at `{0}` does not match")]
    Argument(String),
}

/// A rule that is ready for decisions.
#[derive(Debug)]
pub struct Rule {
    /// The name of the rule; `rule N` if the configuration gives none.
    pub name: String,
    /// The effect of a match.
    pub effect: Effect,
    /// Whether a person confirms the calls that it allows.
    pub confirm: Confirm,
    /// The scopes that it requires.
    pub scopes: BTreeSet<String>,
    principals: Option<Vec<PrincipalPattern>>,
    clients: Option<Vec<Pattern>>,
    claims: Vec<Condition>,
    tools: Vec<Pattern>,
    resources: Vec<Pattern>,
    prompts: Vec<Pattern>,
    arguments: Vec<Condition>,
}

impl Rule {
    pub(super) fn new(spec: RuleSpec, place: usize) -> Result<Self, RuleError> {
        let name = spec.name(place);
        let wrong = |key: &'static str| {
            let name = name.clone();
            move |what: String| RuleError { number: place + 1, name: name.clone(), key, what }
        };
        let globs = |key: &'static str, patterns: Option<Vec<String>>| {
            patterns.map(|patterns| not_empty(patterns).and_then(globs).map_err(wrong(key))).transpose()
        };
        let conditions = |key: &'static str, written: BTreeMap<String, String>| {
            let each = written.into_iter().map(|(pointer, pattern)| Condition::new(pointer, &pattern));
            each.collect::<Result<Vec<_>, _>>().map_err(wrong(key))
        };
        if spec.tools.is_none() && spec.resources.is_none() && spec.prompts.is_none() {
            return Err(wrong("tools")("a rule is about `tools`, `resources` or `prompts`".to_owned()));
        }
        if spec.confirm != Confirm::Never && (spec.effect == Effect::Deny || spec.tools.is_none()) {
            return Err(wrong("confirm")("only a rule that allows `tools` can have it".to_owned()));
        }
        if !spec.arguments.is_empty() && (spec.resources.is_some() || spec.prompts.is_some()) {
            let what = "conditions on arguments are for rules about `tools` alone";
            return Err(wrong("arguments")(what.to_owned()));
        }
        if let Some(scope) = spec.scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(wrong("scopes")(format!("`{scope}` is not a scope (RFC 6749, section 3.3)")));
        }
        let principals = spec.principals.map(|patterns| {
            let read = |patterns: Vec<String>| {
                patterns.iter().map(|pattern| PrincipalPattern::new(pattern)).collect::<Result<Vec<_>, _>>()
            };
            not_empty(patterns).and_then(read).map_err(wrong("principals"))
        });
        Ok(Self {
            effect: spec.effect,
            confirm: spec.confirm,
            scopes: spec.scopes,
            principals: principals.transpose()?,
            clients: globs("clients", spec.clients)?,
            claims: conditions("claims", spec.claims)?,
            tools: globs("tools", spec.tools)?.unwrap_or_default(),
            resources: globs("resources", spec.resources)?.unwrap_or_default(),
            prompts: globs("prompts", spec.prompts)?.unwrap_or_default(),
            arguments: conditions("arguments", spec.arguments)?,
            name,
        })
    }

    /// Whether it has conditions on arguments.
    #[must_use]
    pub fn looks_at_arguments(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// Whether it has conditions on the arguments of this object.
    pub(super) fn judges_arguments_of(&self, object: Object<'_>) -> bool {
        let (Object::Tool(name) | Object::Resource(name) | Object::Prompt(name)) = object;
        !self.arguments.is_empty() && any(self.objects(object.kind()), name)
    }

    /// Whether it is about anything of this kind.
    pub(super) fn speaks_of(&self, kind: ObjectKind) -> bool {
        !self.objects(kind).is_empty()
    }

    /// Whether it names this object, and not just everything with `*`.
    pub(crate) fn names(&self, object: Object<'_>) -> bool {
        let (Object::Tool(name) | Object::Resource(name) | Object::Prompt(name)) = object;
        self.objects(object.kind()).iter().any(|pattern| pattern.matches(name) && pattern.text != "*")
    }

    fn objects(&self, kind: ObjectKind) -> &[Pattern] {
        match kind {
            ObjectKind::Tool => &self.tools,
            ObjectKind::Resource => &self.resources,
            ObjectKind::Prompt => &self.prompts,
        }
    }

    /// Whether it matches; `more` are additional scopes for the principal.
    pub(super) fn matches(
        &self,
        principal: &Principal,
        more: Option<&BTreeSet<String>>,
        object: Object<'_>,
        arguments: &Arguments<'_>,
    ) -> Result<(), Mismatch> {
        let (Object::Tool(name) | Object::Resource(name) | Object::Prompt(name)) = object;
        if !any(self.objects(object.kind()), name) {
            return Err(Mismatch::Object);
        }
        self.check_principal(principal, more)?;
        // A rule that allows must match however the arguments are read. One that restricts, as an approval does, matches
        // if any reading does. In lists, which know no arguments, an approval does not hide the tool.
        let restricts = self.effect == Effect::Deny
            || self.confirm != Confirm::Never && !matches!(arguments, Arguments::Unknown);
        for condition in &self.arguments {
            let met = if restricts { condition.any(arguments) } else { condition.every(arguments) };
            if !met {
                return Err(Mismatch::Argument(condition.pointer.clone()));
            }
        }
        Ok(())
    }

    /// Whether it is for this principal.
    pub(super) fn check_principal(
        &self,
        principal: &Principal,
        more: Option<&BTreeSet<String>>,
    ) -> Result<(), Mismatch> {
        if let Some(patterns) = &self.principals
            && !patterns.iter().any(|pattern| pattern.matches(principal))
        {
            return Err(Mismatch::Principal);
        }
        let subject = principal.subject();
        if let Some(globs) = &self.clients {
            let client = subject.and_then(|subject| subject.client.as_deref());
            if !client.is_some_and(|client| any(globs, client)) {
                return Err(Mismatch::Client);
            }
        }
        for condition in &self.claims {
            if !subject.is_some_and(|subject| condition.holds_of(&subject.claims)) {
                return Err(Mismatch::Claim(condition.pointer.clone()));
            }
        }
        let has = |scope: &&String| {
            subject.is_some_and(|subject| {
                subject.scopes.contains(*scope) || more.is_some_and(|more| more.contains(*scope))
            })
        };
        let lacking: Vec<String> = self.scopes.iter().filter(|scope| !has(scope)).cloned().collect();
        if lacking.is_empty() { Ok(()) } else { Err(Mismatch::Scopes(lacking)) }
    }
}

fn not_empty(patterns: Vec<String>) -> Result<Vec<String>, String> {
    if patterns.is_empty() {
        return Err("an empty list matches nothing; leave the key out to match everything".to_owned());
    }
    Ok(patterns)
}

fn globs(patterns: Vec<String>) -> Result<Vec<Pattern>, String> {
    patterns.iter().map(|pattern| Pattern::new(pattern)).collect()
}

/// Whether this is a scope as defined by RFC 6749, section 3.3: no spaces, quotes or backslashes.
#[must_use]
pub fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}
