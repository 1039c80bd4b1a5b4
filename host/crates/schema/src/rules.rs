//! The rules of the schemas of one document, as validation reads them.

use crate::pattern::Pattern;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The index of a schema in the list.
pub(super) type Id = u32;

/// A set of JSON Schema types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(pub u8);

impl Types {
    pub const NAMES: [&'static str; 7] =
        ["null", "boolean", "integer", "number", "string", "array", "object"];

    pub fn of(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|bit| Self(1 << bit))
    }

    pub fn has(self, name: &str) -> bool {
        Self::of(name).is_some_and(|one| self.0 & one.0 != 0)
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |name| self.has(name))
    }
}

/// The values of `enum`.
#[derive(Default)]
pub(super) struct Choices {
    pub strings: HashSet<Box<str>>,
    pub others: Vec<Value>,
    /// The values as listed in the schema, for messages. A long list is shortened.
    pub shown: String,
}

/// The rules of one schema. They ignore values of types that they do not concern.
#[derive(Default)]
pub(super) struct Rules {
    /// Set if the schema is `true` or `false` instead of an object.
    pub verdict: Option<bool>,
    pub types: Option<Types>,
    pub constant: Option<Value>,
    pub choices: Option<Choices>,
    pub number: Option<Box<NumberRules>>,
    pub string: Option<Box<StringRules>>,
    pub array: Option<Box<ArrayRules>>,
    pub object: Option<Box<ObjectRules>>,
    /// Schemas that apply to the same value.
    pub in_place: Vec<InPlace>,
    pub unevaluated_items: Option<Id>,
    pub unevaluated_properties: Option<Id>,
    /// Whether it or a subschema contains references, so that one value can be checked against it
    /// from many places.
    pub has_references: bool,
}

pub(super) enum InPlace {
    Reference(Id),
    All(Vec<Id>),
    Any(Vec<Id>),
    One(Vec<Id>),
    Not(Id),
    If { condition: Id, then: Option<Id>, otherwise: Option<Id> },
}

#[derive(Default)]
pub(super) struct NumberRules {
    pub multiple_of: Option<Bound>,
    pub minimum: Option<Bound>,
    pub maximum: Option<Bound>,
    pub above: Option<Bound>,
    pub below: Option<Bound>,
}

/// A number in a schema, with its original text.
pub(super) struct Bound(pub Box<str>);

#[derive(Default)]
pub(super) struct StringRules {
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub pattern: Option<Arc<Pattern>>,
}

#[derive(Default)]
pub(super) struct ArrayRules {
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique: bool,
    pub prefix: Vec<Id>,
    pub items: Option<Id>,
    pub contains: Option<Contains>,
}

pub(super) struct Contains {
    pub schema: Id,
    pub least: u64,
    pub most: Option<u64>,
}

#[derive(Default)]
pub(super) struct ObjectRules {
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub required: Vec<Box<str>>,
    pub properties: HashMap<Box<str>, Id>,
    pub patterns: Vec<(Arc<Pattern>, Id)>,
    pub additional: Option<Id>,
    pub names: Option<Id>,
    pub dependent_required: Vec<(Box<str>, Vec<Box<str>>)>,
    pub dependent_schemas: Vec<(Box<str>, Id)>,
}

impl ObjectRules {
    /// Whether some rules depend on the set of names, in addition to the rules for each member.
    pub fn looks_for_names(&self) -> bool {
        !(self.required.is_empty() && self.dependent_required.is_empty() && self.dependent_schemas.is_empty())
    }
}
