//! Checks values step by step under a budget.
//!
//! The verdict for a value and a schema that references lead to is cached. So a check takes at most
//! as many steps as the product of the value's parts and the schema's parts, however the references
//! are connected.

use crate::budget::{Budget, Halt};
use crate::compile::escaped;
use crate::document::{At, Document, Kind, Number};
use crate::rules::{ArrayRules, Contains, Id, InPlace, ObjectRules, Rules, StringRules, Types};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use toolyard_protocol::visible::clip;

/// The maximum number of complaints about one value.
pub(super) const MAX_COMPLAINTS: usize = 5;
/// The maximum length of a complaint, in characters.
const COMPLAINT_CHARS: usize = 300;
/// The maximum depth of schemas into a value, counting each schema on the way. A level takes about
/// a kilobyte of stack, and a thread has two megabytes.
const MAX_NESTING: usize = 800;
/// The maximum number of cached verdicts. Further ones are computed again.
const MAX_VERDICTS: usize = 1 << 20;

/// A check of one document.
pub(super) struct Check<'a, 'b> {
    rules: &'a [Rules],
    pub(super) document: &'a Document<'a>,
    pub(super) budget: &'a mut Budget<'b>,
    verdicts: HashMap<(Id, At), bool>,
    nesting: usize,
    /// The collected complaints; `None` if none are collected.
    complaints: Option<Vec<String>>,
    path: Vec<PathStep>,
}

#[derive(Clone, Copy)]
enum PathStep {
    Name(At),
    Index(usize),
}

/// Why a check ends before it has applied all rules.
pub(super) enum End {
    /// The check halts without a verdict.
    Halt(Halt),
    /// The value does not fit, and no further complaint is needed.
    Misfit,
}

impl From<Halt> for End {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// Whether a value fits. While complaints are collected, a check goes on after a fault, and this is `false`.
pub(super) type Fits = Result<bool, End>;

fn verdict(fits: Fits) -> Result<bool, Halt> {
    match fits {
        Ok(fits) => Ok(fits),
        Err(End::Misfit) => Ok(false),
        Err(End::Halt(halt)) => Err(halt),
    }
}

/// For each member or item of one value, in order, whether it was evaluated.
struct Evaluated(Vec<bool>);

impl Evaluated {
    fn add(&mut self, other: &Self) {
        for (mine, other) in self.0.iter_mut().zip(&other.0) {
            *mine |= other;
        }
    }
}

impl<'a, 'b> Check<'a, 'b> {
    pub fn new(rules: &'a [Rules], document: &'a Document<'a>, budget: &'a mut Budget<'b>) -> Self {
        let verdicts = HashMap::new();
        Self { rules, document, budget, verdicts, nesting: 0, complaints: None, path: Vec::new() }
    }

    /// Whether the document fits.
    pub fn fits(&mut self) -> Result<bool, Halt> {
        self.quietly(0, 0, None)
    }

    /// Up to five complaints about a document that does not fit, each with its location, and then
    /// "and more" if there are more.
    pub fn complaints(&mut self) -> Result<Vec<String>, Halt> {
        self.complaints = Some(Vec::new());
        verdict(self.applies(0, 0, None))?;
        let mut complaints = self.complaints.take().unwrap_or_default();
        if complaints.len() > MAX_COMPLAINTS {
            complaints.truncate(MAX_COMPLAINTS);
            complaints.push("and more".to_owned());
        }
        Ok(complaints)
    }

    /// Whether the value at `at` fits a schema.
    fn applies(&mut self, id: Id, at: At, evaluated: Option<&mut Evaluated>) -> Fits {
        if self.nesting >= MAX_NESTING {
            return Err(Halt::TooDeep.into());
        }
        self.budget.spend(1)?;
        self.nesting += 1;
        let fits = self.rules(id, at, evaluated);
        self.nesting -= 1;
        fits
    }

    /// As `applies`, but collects no complaints.
    fn quietly(&mut self, id: Id, at: At, evaluated: Option<&mut Evaluated>) -> Result<bool, Halt> {
        let collecting = self.complaints.take();
        let fits = self.applies(id, at, evaluated);
        self.complaints = collecting;
        verdict(fits)
    }

    /// Applies the target of a reference.
    fn refers(&mut self, id: Id, at: At, evaluated: Option<&mut Evaluated>) -> Fits {
        let is_remembered = evaluated.is_none() && self.rules[id as usize].has_references;
        if !is_remembered {
            return self.applies(id, at, evaluated);
        }
        match self.verdicts.get(&(id, at)) {
            Some(true) => return Ok(true),
            Some(false) if self.complaints.is_none() => return Err(End::Misfit),
            _ => {}
        }
        let fits = self.applies(id, at, None);
        // Above the limit, new verdicts are not cached.
        if self.verdicts.len() < MAX_VERDICTS && !matches!(fits, Err(End::Halt(_))) {
            self.verdicts.insert((id, at), matches!(fits, Ok(true)));
        }
        fits
    }

    /// The verdict about a value with a fault: `false` after adding a complaint. The check ends instead if
    /// no complaints are collected, or enough of them.
    pub(super) fn complain(&mut self, at: At, what: impl FnOnce(&str) -> String) -> Fits {
        if self.complaints.is_none() {
            return Err(End::Misfit);
        }
        let value = clip(self.document.source(at), COMPLAINT_CHARS / 3);
        let text = format!("at `{}`: {}", self.place(), clip(&what(&value), COMPLAINT_CHARS));
        let complaints = self.complaints.get_or_insert_default();
        complaints.push(text);
        if complaints.len() > MAX_COMPLAINTS { Err(End::Misfit) } else { Ok(false) }
    }

    /// The JSON pointer of the current value.
    fn place(&self) -> String {
        if self.path.is_empty() {
            return "/".to_owned();
        }
        let step = |step: &PathStep| match step {
            PathStep::Name(name) => format!("/{}", escaped(&clip(&self.document.string(*name), 100))),
            PathStep::Index(index) => format!("/{index}"),
        };
        clip(&self.path.iter().map(step).collect::<String>(), COMPLAINT_CHARS)
    }

    fn at_step<T>(&mut self, step: PathStep, check: impl FnOnce(&mut Self) -> T) -> T {
        if self.complaints.is_some() {
            self.path.push(step);
            let checked = check(self);
            self.path.pop();
            checked
        } else {
            check(self)
        }
    }

    fn rules(&mut self, id: Id, at: At, evaluated: Option<&mut Evaluated>) -> Fits {
        let rules = &self.rules[id as usize];
        match rules.verdict {
            Some(true) => return Ok(true),
            Some(false) => return self.complain(at, |value| format!("{value} is not allowed here")),
            None => {}
        }
        let kind = self.document.kind(at);
        let mut fits = true;
        if let Some(types) = rules.types
            && !self.is_of(types, kind, at)
        {
            // Errors of other rules are not useful if the value has another type.
            return self.complain(at, |value| {
                let names: Vec<String> = types.names().map(|name| format!("\"{name}\"")).collect();
                let of = if names.len() == 1 { "type" } else { "types" };
                format!("{value} is not of {of} {}", names.join(", "))
            });
        }
        if let Some(constant) = &rules.constant
            && !self.equals(at, constant)?
        {
            fits =
                self.complain(at, |value| format!("{value} is not {}", clip(&constant.to_string(), 100)))?;
        }
        if let Some(choices) = &rules.choices
            && !self.is_among(at, choices)?
        {
            fits = self.complain(at, |value| format!("{value} is not one of {}", choices.shown))?;
        }
        fits &= match (kind, &rules.number, &rules.string) {
            (Kind::Number, Some(number), _) => self.number(number, at)?,
            (Kind::String, _, Some(string)) => self.string(string, at)?,
            _ => true,
        };
        // The caller, or rules of this schema, need to know which parts were evaluated.
        let own = match kind {
            Kind::Object => rules.unevaluated_properties,
            Kind::Array => rules.unevaluated_items,
            _ => None,
        };
        let mut parts = (own.is_some() || evaluated.is_some()).then(|| {
            let count = if matches!(kind, Kind::Object | Kind::Array) { self.document.count(at) } else { 0 };
            Evaluated(vec![false; count as usize])
        });
        if let Some(parts) = &parts {
            self.budget.spend(parts.0.len() as u64 / 16)?;
        }
        for rule in &rules.in_place {
            fits &= self.in_place(rule, at, parts.as_mut())?;
        }
        fits &= match (kind, &rules.object, &rules.array) {
            (Kind::Object, Some(object), _) => self.object(object, at, parts.as_mut())?,
            (Kind::Array, _, Some(array)) => self.array(array, at, parts.as_mut())?,
            _ => true,
        };
        if let (Some(own), Some(parts)) = (own, &mut parts) {
            fits &= self.unevaluated(own, kind, at, parts)?;
        }
        if let (true, Some(evaluated), Some(parts)) = (fits, evaluated, &parts) {
            evaluated.add(parts);
        }
        Ok(fits)
    }

    fn is_of(&self, types: Types, kind: Kind, at: At) -> bool {
        match kind {
            Kind::Null => types.has("null"),
            Kind::Boolean => types.has("boolean"),
            Kind::String => types.has("string"),
            Kind::Array => types.has("array"),
            Kind::Object => types.has("object"),
            Kind::Number => {
                types.has("number")
                    || types.has("integer")
                        && match self.document.number(at) {
                            Number::Integer(_) => true,
                            // In JSON Schema, 1.0 and 1e3 are integers.
                            Number::Float(float) => float.fract() == 0.0,
                        }
            }
        }
    }

    fn string(&mut self, rules: &StringRules, at: At) -> Fits {
        let text = self.document.string(at);
        self.budget.spend(text.len() as u64 / 64)?;
        let mut fits = true;
        let length = match (rules.min_length, rules.max_length) {
            (None, None) => 0,
            _ => text.chars().count() as u64,
        };
        if let Some(least) = rules.min_length.filter(|least| length < *least) {
            fits = self.complain(at, |value| format!("{value} is shorter than {least} characters"))?;
        }
        if let Some(most) = rules.max_length.filter(|most| length > *most) {
            fits = self.complain(at, |value| format!("{value} is longer than {most} characters"))?;
        }
        if let Some(pattern) = &rules.pattern
            && !pattern.is_match(&text, self.budget)?
        {
            let source = clip(pattern.source(), 150);
            fits = self.complain(at, |value| format!("{value} does not match \"{source}\""))?;
        }
        Ok(fits)
    }

    /// Checks the number of members or items.
    fn count(&mut self, at: At, (least, most): (Option<u64>, Option<u64>), of: &str) -> Fits {
        let count = u64::from(self.document.count(at));
        let says = match (least, most) {
            (Some(least), _) if count < least => "fewer",
            (_, Some(most)) if count > most => "more",
            _ => return Ok(true),
        };
        self.complain(at, |value| format!("{value} has {says} {of} than allowed"))
    }

    fn in_place(&mut self, rule: &InPlace, at: At, mut parts: Option<&mut Evaluated>) -> Fits {
        match rule {
            InPlace::Reference(id) => self.refers(*id, at, parts),
            InPlace::All(ids) => {
                let mut fits = true;
                for id in ids {
                    fits &= self.applies(*id, at, parts.as_deref_mut())?;
                }
                Ok(fits)
            }
            InPlace::Any(ids) => {
                let mut fits = false;
                for id in ids {
                    fits |= self.quietly(*id, at, parts.as_deref_mut())?;
                    // The other schemas may evaluate more parts.
                    if fits && parts.is_none() {
                        break;
                    }
                }
                if fits {
                    return Ok(true);
                }
                self.complain(at, |value| {
                    format!("{value} is not valid under any of the {} schemas of `anyOf`", ids.len())
                })
            }
            InPlace::One(ids) => {
                let mut fitting = 0;
                for id in ids {
                    fitting += u32::from(self.quietly(*id, at, parts.as_deref_mut())?);
                    if fitting > 1 {
                        break;
                    }
                }
                let many = match fitting {
                    0 => "not valid under any",
                    1 => return Ok(true),
                    _ => "valid under more than one",
                };
                self.complain(at, |value| {
                    format!("{value} is {many} of the {} schemas of `oneOf`", ids.len())
                })
            }
            InPlace::Not(id) => match self.quietly(*id, at, None)? {
                true => self.complain(at, |value| format!("{value} is valid under the schema of `not`")),
                false => Ok(true),
            },
            InPlace::If { condition, then, otherwise } => {
                let branch =
                    if self.quietly(*condition, at, parts.as_deref_mut())? { then } else { otherwise };
                branch.map_or(Ok(true), |id| self.applies(id, at, parts))
            }
        }
    }

    fn object(&mut self, rules: &ObjectRules, at: At, mut parts: Option<&mut Evaluated>) -> Fits {
        let document = self.document;
        let mut fits = self.count(at, (rules.min_properties, rules.max_properties), "properties")?;
        let mut unexpected: Vec<Cow<'_, str>> = Vec::new();
        for (order, (name_at, value)) in document.members(at).enumerate() {
            let name = document.string(name_at);
            self.budget.spend(1 + name.len() as u64 / 64)?;
            let step = PathStep::Name(name_at);
            let mut is_known = false;
            if let Some(id) = rules.properties.get(&*name) {
                is_known = true;
                fits &= self.at_step(step, |this| this.applies(*id, value, None))?;
            }
            for (pattern, id) in &rules.patterns {
                if pattern.is_match(&name, self.budget)? {
                    is_known = true;
                    fits &= self.at_step(step, |this| this.applies(*id, value, None))?;
                }
            }
            if let (false, Some(id)) = (is_known, rules.additional) {
                is_known = true;
                if self.rules[id as usize].verdict == Some(false) {
                    // One complaint lists all these names.
                    unexpected.push(name);
                    if self.complaints.is_none() {
                        break;
                    }
                } else {
                    fits &= self.at_step(step, |this| this.applies(id, value, None))?;
                }
            }
            if let Some(id) = rules.names
                && !self.quietly(id, name_at, None)?
            {
                fits = self.complain(name_at, |name| format!("the name {name} is not allowed"))?;
            }
            if let (true, Some(parts)) = (is_known, parts.as_deref_mut()) {
                parts.0[order] = true;
            }
        }
        if !unexpected.is_empty() {
            fits = self.complain(at, |_| {
                let shown: Vec<String> =
                    unexpected.iter().take(10).map(|name| format!("'{}'", clip(name, 50))).collect();
                let was = if unexpected.len() == 1 { "was" } else { "were" };
                format!("additional properties are not allowed ({} {was} unexpected)", shown.join(", "))
            })?;
        }
        if rules.looks_for_names() {
            fits &= self.names(rules, at, parts)?;
        }
        Ok(fits)
    }

    /// The rules about the set of names.
    fn names(&mut self, rules: &ObjectRules, at: At, mut parts: Option<&mut Evaluated>) -> Fits {
        let document = self.document;
        // A few names are searched one by one, many in a table.
        let looked_for = rules.required.len()
            + rules.dependent_schemas.len()
            + rules.dependent_required.iter().map(|(_, needed)| 1 + needed.len()).sum::<usize>();
        let count = document.count(at) as usize;
        let table: Option<HashSet<Cow<'_, str>>> = if looked_for * count > 256 {
            self.budget.spend(2 * count as u64)?;
            Some(document.members(at).map(|(name, _)| document.string(name)).collect())
        } else {
            None
        };
        self.budget.spend(looked_for as u64)?;
        let has = |wanted: &str| match &table {
            Some(table) => table.contains(wanted),
            None => document.members(at).any(|(name, _)| document.string(name) == wanted),
        };
        let mut missing: Vec<&str> =
            rules.required.iter().map(|name| &**name).filter(|name| !has(name)).collect();
        for (name, needed) in &rules.dependent_required {
            if has(name) {
                missing.extend(needed.iter().map(|needed| &**needed).filter(|needed| !has(needed)));
            }
        }
        let mut fits = true;
        for name in missing {
            fits = self.complain(at, |_| format!("\"{}\" is a required property", clip(name, 100)))?;
        }
        for (name, id) in &rules.dependent_schemas {
            if has(name) {
                fits &= self.applies(*id, at, parts.as_deref_mut())?;
            }
        }
        Ok(fits)
    }

    fn array(&mut self, rules: &ArrayRules, at: At, mut parts: Option<&mut Evaluated>) -> Fits {
        let document = self.document;
        let mut fits = self.count(at, (rules.min_items, rules.max_items), "items")?;
        if rules.items.is_some() || !rules.prefix.is_empty() {
            for (index, item) in document.items(at).enumerate() {
                let Some(id) = rules.prefix.get(index).copied().or(rules.items) else { break };
                if let Some(parts) = parts.as_deref_mut() {
                    parts.0[index] = true;
                }
                fits &= self.at_step(PathStep::Index(index), |this| this.applies(id, item, None))?;
            }
        }
        if let Some(contains) = &rules.contains {
            fits &= self.contains(contains, at, parts)?;
        }
        if rules.unique && !self.is_unique(at)? {
            fits = self.complain(at, |value| format!("{value} has equal items"))?;
        }
        Ok(fits)
    }

    fn contains(&mut self, rule: &Contains, at: At, mut parts: Option<&mut Evaluated>) -> Fits {
        let mut found = 0;
        for (index, item) in self.document.items(at).enumerate() {
            if self.quietly(rule.schema, item, None)? {
                found += 1;
                match parts.as_deref_mut() {
                    Some(parts) => parts.0[index] = true,
                    None if rule.most.is_none() && found >= rule.least => break,
                    None => {}
                }
            }
        }
        let least = rule.least;
        match rule.most {
            Some(most) if found > most => {
                self.complain(at, |value| format!("{value} has more than {most} items that fit `contains`"))
            }
            _ if found < least => {
                self.complain(at, |value| format!("{value} has fewer than {least} items that fit `contains`"))
            }
            _ => Ok(true),
        }
    }

    fn unevaluated(&mut self, id: Id, kind: Kind, at: At, parts: &mut Evaluated) -> Fits {
        let document = self.document;
        let mut fits = true;
        let values: Vec<(PathStep, At)> = match kind {
            Kind::Object => document.members(at).map(|(name, value)| (PathStep::Name(name), value)).collect(),
            _ => document.items(at).enumerate().map(|(index, item)| (PathStep::Index(index), item)).collect(),
        };
        self.budget.spend(values.len() as u64 / 4)?;
        for (order, (step, value)) in values.into_iter().enumerate() {
            if !std::mem::replace(&mut parts.0[order], true) {
                fits &= self.at_step(step, |this| this.applies(id, value, None))?;
            }
        }
        Ok(fits)
    }
}
