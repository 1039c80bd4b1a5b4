//! WIT types in JSON Schema 2020-12. `read` takes every value that these schemas accept, except
//! 64-bit integers that are out of range. The schemas accept everything that `write` produces.

use super::RESULT;
use super::shape::{Case, Field, Shape};
use serde_json::{Map, Value, json};

/// The schema of an object with these members, such as the arguments of a function.
pub(crate) fn object(fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.clone(), value(&field.shape))).collect();
    let required: Vec<&str> =
        fields.iter().filter(|field| !field.shape.is_nullable()).map(|field| field.name.as_str()).collect();
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// The schema of the structured content of a function that returns such a value.
pub(crate) fn output(shape: &Shape) -> Value {
    if shape.is_object() {
        return value(shape);
    }
    json!({
        "type": "object",
        "properties": {RESULT: value(shape)},
        "required": [RESULT],
        "additionalProperties": false,
    })
}

fn value(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Integer(integer) if integer.is_wide() => {
            let is_signed = integer.range().0 < 0;
            let pattern = if is_signed { "^(0|-?[1-9][0-9]{0,18})$" } else { "^(0|[1-9][0-9]{0,19})$" };
            let mut number = json!({"type": "integer"});
            if !is_signed {
                number["minimum"] = json!(0);
            }
            json!({"anyOf": [number, {"type": "string", "pattern": pattern}]})
        }
        Shape::Integer(integer) => {
            let (least, greatest) = integer.range();
            json!({"type": "integer", "minimum": least as i64, "maximum": greatest as i64})
        }
        Shape::F32 | Shape::F64 => {
            json!({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]})
        }
        Shape::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Shape::String => json!({"type": "string"}),
        Shape::List(item) if shape.is_bytes() => json!({"anyOf": [
            {"type": "string", "contentEncoding": "base64"},
            {"type": "array", "items": value(item)},
        ]}),
        Shape::List(item) => json!({"type": "array", "items": value(item)}),
        Shape::FixedList(item, length) => {
            json!({"type": "array", "items": value(item), "minItems": length, "maxItems": length})
        }
        Shape::Map(entry) if entry.0 == Shape::String => {
            json!({"type": "object", "additionalProperties": value(&entry.1)})
        }
        Shape::Map(entry) => json!({"type": "array", "items": tuple([&entry.0, &entry.1])}),
        Shape::Record(fields) => object(fields),
        Shape::Tuple(items) => tuple(items),
        Shape::Variant(cases) => variant(cases),
        Shape::Enum(names) => json!({"type": "string", "enum": names}),
        Shape::Flags(names) => {
            json!({"type": "array", "items": {"type": "string", "enum": names}, "uniqueItems": true})
        }
        Shape::Option(some) => {
            let some = if some.is_nullable() { single("some", value(some)) } else { value(some) };
            json!({"anyOf": [some, {"type": "null"}]})
        }
        Shape::Result(cases) => variant(&**cases),
    }
}

fn tuple<'a>(items: impl IntoIterator<Item = &'a Shape>) -> Value {
    let items: Vec<Value> = items.into_iter().map(value).collect();
    let length = items.len();
    json!({"type": "array", "prefixItems": items, "minItems": length, "maxItems": length})
}

/// An object with this single member.
fn single(name: &str, schema: Value) -> Value {
    json!({
        "type": "object",
        "properties": {name: schema},
        "required": [name],
        "additionalProperties": false,
    })
}

fn variant(cases: &[Case]) -> Value {
    let bare: Vec<&str> =
        cases.iter().filter(|case| case.payload.is_none()).map(|case| case.name.as_str()).collect();
    let mut choices = Vec::new();
    if !bare.is_empty() {
        choices.push(json!({"type": "string", "enum": bare}));
    }
    for case in cases {
        if let Some(payload) = &case.payload {
            choices.push(single(&case.name, value(payload)));
        }
    }
    json!({"anyOf": choices})
}
