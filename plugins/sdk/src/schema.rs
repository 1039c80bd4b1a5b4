//! JSON Schemas of Rust types, in the plain form that clients and models read best: inlined instead of by
//! reference, without titles from type names, and without formats that only Rust knows.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of arguments.
pub(crate) fn input<T: JsonSchema>() -> Value {
    let mut schema = generate::<T>(Side::Arguments);
    // Some clients read `properties` of every tool.
    if schema["type"] == "object" && schema.get("properties").is_none() {
        schema["properties"] = json!({});
    }
    schema
}

/// The schema of structured content, which is always an object; [`wrapped`] wraps the values accordingly.
pub(crate) fn output<T: JsonSchema>() -> Value {
    as_object(generate::<T>(Side::Results))
}

/// The text of structured content: a value that is not an object is wrapped in one.
pub(crate) fn wrapped(json: String) -> String {
    if json.starts_with('{') { json } else { format!("{{\"{RESULT}\":{json}}}") }
}

/// The member of an object that wraps another value.
const RESULT: &str = "result";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Arguments,
    Results,
}

fn generate<T: JsonSchema>(side: Side) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let settings = match side {
        Side::Arguments => settings.for_deserialize(),
        Side::Results => settings.for_serialize(),
    };
    let mut generator = settings.into_generator();
    // Not `root_schema_for`, which would add the type's name as a title.
    let schema = generator.subschema_for::<T>().to_value();
    finish(schema, generator.take_definitions(false), side)
}

/// The part that does not depend on the type, so it is compiled once.
fn finish(schema: Value, definitions: Map<String, Value>, side: Side) -> Value {
    let mut schema = schema;
    if let Value::Object(members) = &mut schema {
        // The comment on the type is for readers of the code; the tool has a description of its own.
        members.remove("description");
        // Types that contain themselves cannot be inlined.
        if !definitions.is_empty() {
            members.insert("$defs".to_owned(), Value::Object(definitions));
        }
    }
    simplify(&mut schema, side);
    schema
}

/// Simplifies a schema and all schemas in it.
fn simplify(schema: &mut Value, side: Side) {
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
    let Value::Object(members) = schema else { return };
    simplify_number(members, side);
    if let Some(Value::String(text)) = members.get_mut("description") {
        *text = unwrap_lines(text);
    }
    for (key, value) in members.iter_mut() {
        match key.as_str() {
            "properties" | "patternProperties" | "$defs" => {
                value.as_object_mut().into_iter().flatten().for_each(|(_, schema)| simplify(schema, side));
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                value.as_array_mut().into_iter().flatten().for_each(|schema| simplify(schema, side));
            }
            "items" | "propertyNames" | "not" | "contains" => simplify(value, side),
            "additionalProperties" | "unevaluatedProperties" if value.is_object() => simplify(value, side),
            _ => {}
        }
    }
    let required = members.get("required").cloned();
    let is_required = |name: &str| {
        required.as_ref().and_then(Value::as_array).is_some_and(|names| names.iter().any(|it| it == name))
    };
    for (name, property) in members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        if !is_required(name) {
            without_null(property);
        }
    }
}

/// Formats of numbers are specific to Rust. A caller needs their range; a guest's `usize` has 32 bits.
fn simplify_number(members: &mut Map<String, Value>, side: Side) {
    let Some(format) = members.get("format").and_then(Value::as_str) else { return };
    let (least, most) = match format {
        "int32" | "int" => (Some(i32::MIN), Some(i64::from(i32::MAX))),
        "uint32" | "uint" => (None, Some(i64::from(u32::MAX))),
        "int8" | "int16" | "int64" | "int128" | "uint8" | "uint16" | "uint64" | "uint128" | "float"
        | "double" => (None, None),
        _ => return,
    };
    members.remove("format");
    if side == Side::Arguments {
        let bounds = [("minimum", least.map(Value::from)), ("maximum", most.map(Value::from))];
        for (name, bound) in bounds {
            if let Some(bound) = bound {
                members.entry(name).or_insert(bound);
            }
        }
    }
}

/// An optional value need not also accept null.
fn without_null(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::Array(kinds)) = members.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = &kinds[..] {
            members["type"] = kind.clone();
        }
    }
    if let Some(Value::Array(values)) = members.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if members.get("default").is_some_and(Value::is_null) {
        members.remove("default");
    }
    let Some(Value::Array(choices)) = members.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(_)] = &choices[..]
        && let Some(Value::Array(choices)) = members.remove("anyOf")
        && let Some(Value::Object(only)) = choices.into_iter().next()
    {
        for (key, value) in only {
            members.entry(key).or_insert(value);
        }
    }
}

/// Joins the lines of a wrapped comment. Paragraphs, lists and tables stay.
fn unwrap_lines(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    for line in text.lines().map(str::trim_end) {
        let begins_anew = line.is_empty()
            || whole.is_empty()
            || whole.ends_with('\n')
            || line.starts_with(|first: char| {
                first.is_whitespace() || first.is_ascii_digit() || "-*|#>`+".contains(first)
            });
        if !whole.is_empty() {
            whole.push(if begins_anew { '\n' } else { ' ' });
        }
        whole.push_str(line);
    }
    whole
}

/// Whether values that fit a schema are objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Object,
    Other,
    Either,
}

fn shape(schema: &Value) -> Shape {
    match &schema["type"] {
        Value::String(kind) if kind == "object" => return Shape::Object,
        Value::String(_) => return Shape::Other,
        Value::Array(kinds) if kinds.iter().all(|kind| kind != "object") => return Shape::Other,
        _ => {}
    }
    for choices in ["oneOf", "anyOf"].map(|key| schema[key].as_array()).into_iter().flatten() {
        let mut shapes = choices.iter().map(shape);
        let Some(first) = shapes.next() else { continue };
        return if shapes.all(|shape| shape == first) { first } else { Shape::Either };
    }
    Shape::Either
}

fn as_object(mut schema: Value) -> Value {
    // References start at the root, which moves.
    let definitions = schema.as_object_mut().and_then(|members| members.remove("$defs"));
    let wrapping =
        |schema: Value| json!({ "type": "object", "properties": { RESULT: schema }, "required": [RESULT] });
    let mut whole = match shape(&schema) {
        Shape::Object => {
            schema["type"] = "object".into();
            schema
        }
        Shape::Other => wrapping(schema),
        Shape::Either if schema == json!({}) => json!({ "type": "object" }),
        Shape::Either => json!({ "type": "object", "anyOf": [schema.clone(), wrapping(schema)] }),
    };
    if let Some(definitions) = definitions {
        whole["$defs"] = definitions;
    }
    whole
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};

    use super::*;

    /// Not shown.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Order {
        /// The ordered item, in a sentence that
        /// spans two lines.
        ///
        /// - a list
        what: String,
        #[schemars(range(min = 1))]
        count: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        colour: Option<Colour>,
        /// When it is wanted.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        #[serde(default)]
        more: BTreeMap<String, Value>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Colour {
        /// Like the sky.
        Blue,
        Red,
    }

    #[test]
    fn arguments_are_described_plainly() {
        let expected = json!({
            "type": "object",
            "properties": {
                "what": {
                    "type": "string",
                    "description": "The ordered item, in a sentence that spans two lines.\n\n- a list",
                },
                "count": { "type": "integer", "minimum": 1, "maximum": u32::MAX },
                "colour": {
                    "oneOf": [
                        { "type": "string", "enum": ["red"] },
                        { "type": "string", "const": "blue", "description": "Like the sky." },
                    ],
                },
                "by": { "type": "string", "description": "When it is wanted." },
                "more": { "type": "object", "additionalProperties": true, "default": {} },
            },
            "required": ["what", "count"],
            "additionalProperties": false,
        });
        assert_eq!(input::<Order>(), expected);
    }

    #[test]
    fn results_say_no_bounds_that_only_the_type_has() {
        let schema = output::<Order>();
        assert_eq!(schema["properties"]["count"], json!({ "type": "integer", "minimum": 1 }));
        assert_eq!(schema["required"], json!(["what", "count", "more"]));
        assert_eq!(schema["properties"]["by"]["type"], "string");
    }

    #[derive(Serialize, JsonSchema)]
    struct Tree {
        leaves: Vec<Tree>,
    }

    #[test]
    fn a_type_may_contain_itself() {
        let schema = output::<Tree>();
        assert_eq!(schema["type"], "object");
        let items = &schema["properties"]["leaves"]["items"]["$ref"];
        let target = items.as_str().and_then(|it| it.strip_prefix('#')).and_then(|it| schema.pointer(it));
        assert_eq!(target.expect("it is there")["type"], "object");
        // After wrapping, the references still resolve.
        let schema = output::<Vec<Tree>>();
        assert!(schema.pointer("/$defs/Tree").is_some(), "{schema}");
        assert_eq!(schema["properties"]["result"]["items"]["type"], "object");
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(tag = "kind")]
    enum Tagged {
        A { a: u8 },
        B { b: u8 },
    }

    #[derive(Serialize, JsonSchema)]
    enum Mixed {
        Plain,
        Full { a: u8 },
    }

    #[test]
    fn every_result_is_an_object_and_its_schema_says_so() {
        assert_eq!(output::<bool>()["properties"]["result"]["type"], "boolean");
        assert_eq!(output::<Option<u8>>()["required"], json!(["result"]));
        assert_eq!(output::<Value>(), json!({ "type": "object" }));
        let tagged = output::<Tagged>();
        assert_eq!((&tagged["type"], tagged["oneOf"].as_array().map(Vec::len)), (&json!("object"), Some(2)));
        assert!(serde_json::to_string(&Tagged::A { a: 1 }).is_ok_and(|json| wrapped(json.clone()) == json));
        let mixed = output::<Mixed>();
        assert_eq!((&mixed["type"], mixed["anyOf"].as_array().map(Vec::len)), (&json!("object"), Some(2)));
        assert_eq!(wrapped(json!(Mixed::Plain).to_string()), "{\"result\":\"Plain\"}");
        assert_eq!(wrapped(json!(Mixed::Full { a: 1 }).to_string()), "{\"Full\":{\"a\":1}}");
        assert_eq!(
            output::<Tagged>()["oneOf"][1]["properties"]["kind"]["const"],
            json!(Tagged::B { b: 1 })["kind"]
        );
    }
}
