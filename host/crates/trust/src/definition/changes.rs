//! The differences between two lists of definitions, for a person who decides about them.

use super::{Definition, Kind, canonical, escape, pretty};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

/// Longer texts are shown whole, old and new, because comparing lines takes time that grows with their
/// square.
const MAX_DIFF_LINES: usize = 2_000;
/// Equal lines before and after a difference.
const CONTEXT: usize = 2;

/// The effect of an update on one definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The definition is new.
    Added,
    /// The definition is gone.
    Removed,
    /// Some part of it differs.
    Changed,
}

/// The change of one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Tool or prompt.
    pub kind: Kind,
    /// The guest's own name.
    pub name: String,
    /// Added, removed or changed.
    pub effect: Effect,
    parts: Vec<Part>,
}

/// A part of a definition, such as its description, with the lines of its difference.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    key: String,
    lines: Vec<(ChangeTag, String)>,
}

/// The changes between two lists of definitions, tools first, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes(Vec<Change>);

impl Changes {
    /// Whether both lists define the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changes.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.0.iter()
    }
}

/// Compares two lists of definitions. Their order does not matter.
#[must_use]
pub fn compare(old: &[Definition], new: &[Definition]) -> Changes {
    let mut pairs: BTreeMap<_, (Vec<_>, Vec<_>)> = BTreeMap::new();
    for definition in old {
        pairs.entry((definition.kind, &definition.name)).or_default().0.push(definition);
    }
    for definition in new {
        pairs.entry((definition.kind, &definition.name)).or_default().1.push(definition);
    }
    let mut changes = Vec::new();
    for ((kind, name), (old, new)) in pairs {
        // A name occurs once in each list, unless the plugin errs: then no occurrence may pass unseen.
        for place in 0..old.len().max(new.len()) {
            let (old, new) = (old.get(place), new.get(place));
            let effect = match (old, new) {
                (None, _) => Effect::Added,
                (_, None) => Effect::Removed,
                (Some(old), Some(new)) if old.digest() == new.digest() => continue,
                _ => Effect::Changed,
            };
            let parts = match effect {
                Effect::Removed => Vec::new(),
                _ => parts(old.map(|old| &old.value), new.map(|new| &new.value)),
            };
            changes.push(Change { kind, name: name.clone(), effect, parts });
        }
    }
    Changes(changes)
}

/// The parts that differ: members of the objects, else the whole.
fn parts(old: Option<&Value>, new: Option<&Value>) -> Vec<Part> {
    let members = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let are_objects = [old, new].into_iter().flatten().all(Value::is_object);
    if !are_objects {
        return vec![Part { key: "definition".to_owned(), lines: difference(old, new) }];
    }
    let (old, new) = (members(old), members(new));
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differing =
        keys.into_iter().filter(|key| old.get(*key).map(canonical) != new.get(*key).map(canonical));
    differing.map(|key| Part { key: key.clone(), lines: difference(old.get(key), new.get(key)) }).collect()
}

/// The lines that people read: text as it is, JSON indented.
fn lines(value: Option<&Value>) -> Vec<String> {
    match value {
        None => Vec::new(),
        Some(Value::String(text)) => text.split('\n').map(str::to_owned).collect(),
        Some(value) => pretty(value).lines().map(str::to_owned).collect(),
    }
}

fn difference(old: Option<&Value>, new: Option<&Value>) -> Vec<(ChangeTag, String)> {
    let (old, new) = (lines(old), lines(new));
    if old.len() + new.len() > MAX_DIFF_LINES {
        let old = old.into_iter().map(|line| (ChangeTag::Delete, line));
        return old.chain(new.into_iter().map(|line| (ChangeTag::Insert, line))).collect();
    }
    let old: Vec<&str> = old.iter().map(String::as_str).collect();
    let new: Vec<&str> = new.iter().map(String::as_str).collect();
    let diff = TextDiff::from_slices(&old, &new);
    let mut lines = Vec::new();
    for operation in diff.grouped_ops(CONTEXT).iter().flatten() {
        lines.extend(diff.iter_changes(operation).map(|change| (change.tag(), change.value().to_string())));
    }
    lines
}

/// A diff by tool for a terminal. Hidden characters are escaped.
impl Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.0 {
            let subject = format!("{} {}", change.kind, escape(&change.name));
            match change.effect {
                Effect::Added => writeln!(f, "{subject}: added")?,
                Effect::Removed => writeln!(f, "{subject}: removed")?,
                Effect::Changed => {}
            }
            for part in &change.parts {
                match change.effect {
                    Effect::Changed => writeln!(f, "{subject}: {} changed", escape(&part.key))?,
                    _ => writeln!(f, "  {}", escape(&part.key))?,
                }
                for (tag, line) in &part.lines {
                    let mark = match tag {
                        ChangeTag::Delete => '-',
                        ChangeTag::Insert => '+',
                        ChangeTag::Equal => ' ',
                    };
                    writeln!(f, "  {mark} {}", escape(line))?;
                }
            }
        }
        Ok(())
    }
}
