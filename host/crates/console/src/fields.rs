//! Fields of forms, as a JSON Schema describes them: their inputs, and the JSON of what was entered. The questions of
//! tools and the calls of tools use them.

mod reading;
mod rendering;

pub(crate) use reading::{Reading, defaults, entered, read};
pub(crate) use rendering::{inputs, schema, summary};

use serde_json::Value;
use toolyard_dispatch::Field;

/// The prefix of the names of fields, so that they never clash with those of the page.
pub(crate) const FIELD: &str = "f.";

/// A text field with more characters than this is a text area.
const LONG: u64 = 80;
/// Objects within objects are fieldsets to this depth.
const MAX_DEPTH: usize = 3;

/// A fault of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldFault {
    /// The JSON pointer to it; empty for the whole form.
    pub pointer: String,
    /// The name of the field for people.
    pub title: String,
    /// The fault, in words.
    pub text: String,
}

/// How a field is entered.
enum Kind {
    Text {
        is_long: bool,
    },
    Integer,
    Number,
    Boolean,
    /// A scalar of this list.
    One(Vec<Value>),
    /// Several of these scalars.
    Many(Vec<Value>),
    /// Scalars, one a line. `true` for texts, else JSON numbers.
    Lines {
        are_texts: bool,
    },
    Object(Vec<Field>),
    /// Anything else, as JSON.
    Json,
}

/// A field with its schema reduced to one type, where it is a type or null.
struct Shape {
    schema: Value,
    is_nullable: bool,
    kind: Kind,
}

impl Shape {
    fn of(field: &Field, depth: usize) -> Self {
        let (schema, is_nullable) = without_null(&field.schema);
        let field = Field { schema: schema.clone(), ..field.clone() };
        Self { kind: Kind::of(&field, depth), schema, is_nullable }
    }
}

impl Kind {
    fn of(field: &Field, depth: usize) -> Self {
        let schema = &field.schema;
        if let Some(choices) = choices(schema) {
            return Self::One(choices);
        }
        if ["$ref", "allOf", "anyOf", "oneOf", "if"].iter().any(|key| schema.get(key).is_some()) {
            return Self::Json;
        }
        match field.type_name() {
            Some("string") => {
                let is_long = schema["maxLength"].as_u64().is_some_and(|most| most > LONG);
                Self::Text { is_long: is_long || schema["format"] == "multiline" }
            }
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("boolean") => Self::Boolean,
            Some("array") => match (choices(&schema["items"]), schema["items"]["type"].as_str()) {
                (Some(choices), _) => Self::Many(choices),
                (None, Some("string")) => Self::Lines { are_texts: true },
                (None, Some("integer" | "number")) => Self::Lines { are_texts: false },
                _ => Self::Json,
            },
            Some("object") if depth < MAX_DEPTH => field.members().map_or(Self::Json, Self::Object),
            _ => Self::Json,
        }
    }
}

/// A schema without its alternative null, and whether there is one.
fn without_null(schema: &Value) -> (Value, bool) {
    if let Some([one, other]) = schema["type"].as_array().map(Vec::as_slice)
        && let Some(kind) = match (one.as_str(), other.as_str()) {
            (Some("null"), Some(kind)) | (Some(kind), Some("null")) => Some(kind),
            _ => None,
        }
    {
        let mut plain = schema.clone();
        plain["type"] = kind.into();
        return (plain, true);
    }
    if let Some([one, other]) = schema["anyOf"].as_array().map(Vec::as_slice) {
        let some = if other["type"] == "null" { one } else { other };
        if (one["type"] == "null") != (other["type"] == "null") {
            let mut plain = some.clone();
            if let (Some(members), Some(outer)) = (plain.as_object_mut(), schema.as_object()) {
                for (name, value) in outer.iter().filter(|(name, _)| *name != "anyOf") {
                    members.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            return (plain, true);
        }
    }
    (schema.clone(), false)
}

/// The scalars that a schema lists.
fn choices(schema: &Value) -> Option<Vec<Value>> {
    let titled = |key: &str| {
        let all = schema[key].as_array()?;
        all.iter().map(|choice| choice.get("const").cloned()).collect::<Option<Vec<_>>>()
    };
    let listed = schema["enum"].as_array().cloned();
    let only = || schema.get("const").map(|only| vec![only.clone()]);
    let found = listed.or_else(only).or_else(|| titled("oneOf")).or_else(|| titled("anyOf"))?;
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    (!found.is_empty() && found.iter().all(is_scalar)).then_some(found)
}

/// A scalar as the text of an input.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The pointer of a member.
fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The name of the input at a pointer.
fn name_of(pointer: &str) -> String {
    format!("{FIELD}{}", pointer.strip_prefix('/').unwrap_or(pointer))
}

#[cfg(test)]
mod tests;
