//! Output schemas for clients that know no tasks: the schema of a tool, or that of a hand-off.
//!
//! Clients validate the structured content of a result. The hand-off of a call that goes on as a
//! task must therefore be valid under the listed schema, as must each result of the tool. Schemas
//! come from guests: a schema whose meaning might change inside of another one gets no union.

use super::schema_keywords::{Contents, contents};
use crate::raw::RawJson;
use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The keywords that name a schema, or a part of one, for references. Their meaning depends on the
/// place of the schema in its document. `id` is the keyword of draft 4.
const IDENTIFIERS: [&str; 5] = ["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"];
/// The keywords that refer to a schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// The keywords that references may lead to. The union has them at its top, so that the references
/// stay valid.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The `structuredContent` of a hand-off, valid under each union. `next_tool` is the tool to call
/// for the result.
#[must_use]
pub fn handoff_content(task_id: &str, status: &str, next_tool: &str) -> Value {
    json!({"task_handoff": {"task_id": task_id, "status": status, "next_tool": next_tool}})
}

/// The schema of a value that is valid under `output_schema` or is [`handoff_content`]. It has the
/// unchanged text of `output_schema`, apart from members that move to the top.
///
/// `None` if `output_schema` is not the schema of an object, has an identifier of its own, or has a
/// reference that does not lead to a schema below `#/$defs/` or `#/definitions/`. `None` as well if the
/// union would be nested too deep to be read.
#[must_use]
pub fn union_schema(output_schema: &RawJson) -> Option<RawJson> {
    let whole: Value = output_schema.decode().ok()?;
    if whole.as_object()?.get("type")? != "object" {
        return None;
    }
    check_schema(&whole, &whole)?;
    // Ordered by name. The order of members has no meaning, and the parts keep theirs.
    let mut members: BTreeMap<String, &RawValue> = output_schema.decode().ok()?;
    let mut top = vec!["\"type\":\"object\"".to_owned()];
    for name in ["$schema"].into_iter().chain(DEFINITIONS) {
        if let Some(value) = members.remove(name) {
            top.push(member(name, value));
        }
    }
    let own: Vec<String> = members.into_iter().map(|(name, value)| member(&name, value)).collect();
    let union = format!("{{{},\"anyOf\":[{{{}}},{}]}}", top.join(","), own.join(","), handoff_schema());
    // The union is nested deeper than its parts.
    RawJson::parse(union).ok()
}

fn member(name: &str, value: &RawValue) -> String {
    format!("{}:{}", RawJson::of(name).as_str(), value.get())
}

/// Short, because a model pays for it with each tool.
fn handoff_schema() -> Value {
    json!({"properties": {"task_handoff": {"type": "object"}}, "required": ["task_handoff"]})
}

/// The role of a value within a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The value is a schema.
    Schema,
    /// The members of the value, or its items, are schemas.
    Schemas,
    /// The value is a schema, or a list of schemas.
    SchemaOrList,
    /// The value is not a schema and contains none: a text, a value to compare with, an unknown keyword.
    Data,
}

impl Role {
    /// The role of the part with this name or index.
    fn below(self, part: &str, value: &Value) -> Self {
        match (self, value) {
            (Self::Data, _) => Self::Data,
            (Self::Schemas, _) | (Self::SchemaOrList, Value::Array(_)) => Self::Schema,
            (Self::Schema | Self::SchemaOrList, _) => match contents(part) {
                Some(Contents::One) => Self::Schema,
                Some(Contents::OneOrList) => Self::SchemaOrList,
                Some(Contents::List | Contents::Named) => Self::Schemas,
                None => Self::Data,
            },
        }
    }
}

/// `None` if a schema within `whole` would not mean the same within a union.
fn check_schema(schema: &Value, whole: &Value) -> Option<()> {
    check(schema, Role::Schema, whole)
}

/// Checks the schemas in a value of this role. The depth is that of the text, which readers bound.
fn check(value: &Value, role: Role, whole: &Value) -> Option<()> {
    let is_schema = matches!(role, Role::Schema | Role::SchemaOrList);
    match value {
        Value::Object(members) => {
            if is_schema {
                check_keywords(members, whole)?;
            }
            members.iter().try_for_each(|(name, part)| match role.below(name, value) {
                Role::Data => Some(()),
                role => check(part, role, whole),
            })
        }
        Value::Array(items) if role != Role::Schema => {
            items.iter().try_for_each(|item| check(item, role.below("", value), whole))
        }
        // A dependency of draft 7 is a schema or a list of names.
        Value::Array(items) => items.iter().all(Value::is_string).then_some(()),
        Value::Bool(_) => Some(()),
        // Not a schema. Readers refuse it, or treat it differently.
        _ => None,
    }
}

fn check_keywords(members: &Map<String, Value>, whole: &Value) -> Option<()> {
    if IDENTIFIERS.iter().any(|keyword| members.contains_key(*keyword)) {
        return None;
    }
    let mut references = REFERENCES.iter().filter_map(|keyword| members.get(*keyword));
    references.all(|reference| reference.as_str().is_some_and(|to| is_inside(to, whole))).then_some(())
}

/// Whether a reference leads to a schema within the definitions at the top.
fn is_inside(reference: &str, whole: &Value) -> bool {
    let Some(path) = reference.strip_prefix("#/") else { return false };
    let Ok(path) = percent_decode_str(path).decode_utf8() else { return false };
    let parts: Vec<String> = path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    if parts.len() < 2 || !DEFINITIONS.contains(&parts[0].as_str()) {
        return false;
    }
    let (mut value, mut role) = (whole, Role::Schema);
    for part in &parts {
        let next = match value {
            Value::Object(members) => members.get(part),
            Value::Array(items) => part.parse().ok().and_then(|index: usize| items.get(index)),
            _ => None,
        };
        let Some(next) = next else { return false };
        (value, role) = (next, role.below(part, value));
    }
    matches!(role, Role::Schema | Role::SchemaOrList) && (value.is_object() || value.is_boolean())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::MAX_DEPTH;

    fn union_of(schema: &Value) -> Option<Value> {
        union_schema(&RawJson::of(schema)).map(|union| union.decode().expect("JSON"))
    }

    fn with(name: &str, value: Value) -> Value {
        let mut schema = json!({"type": "object"});
        schema[name] = value;
        schema
    }

    #[test]
    fn a_union_has_the_schema_and_that_of_a_handoff_below_shared_definitions() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$ref": "#/$defs/tree",
            "properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"$ref": "#/definitions/b"}},
            "required": ["a"],
            "unevaluatedProperties": false,
            "$defs": {"tree": {"properties": {"children": {"items": {"$ref": "#/$defs/tree"}}}}},
            "definitions": {"b": {"type": "number"}},
        });
        let union = union_of(&schema).expect("a union");
        for name in ["$schema", "$defs", "definitions"] {
            assert_eq!(union[name], schema[name]);
            assert!(union["anyOf"][0].get(name).is_none(), "{name} is at the top alone");
        }
        assert_eq!(union["type"], "object");
        for name in ["type", "$ref", "properties", "required", "unevaluatedProperties"] {
            assert_eq!(union["anyOf"][0][name], schema[name]);
        }
        assert_eq!(union["anyOf"][1], handoff_schema());
        assert_eq!(union.as_object().expect("an object").len(), 5);
    }

    #[test]
    fn the_text_of_each_member_stays_as_it_was() {
        let schema = RawJson::parse(
            r#"{"type":"object","properties":{"z":{"maximum":123456789012345678901234567890},"a":{ "const":1.0}}}"#,
        );
        let union = union_schema(&schema.expect("JSON")).expect("a union");
        assert!(
            union.as_str().contains(r#"{"z":{"maximum":123456789012345678901234567890},"a":{ "const":1.0}}"#),
            "{}",
            union.as_str()
        );
    }

    #[test]
    fn a_schema_that_is_not_of_an_object_has_no_union() {
        for schema in [
            json!(true),
            json!([]),
            json!({}),
            json!({"type": "string"}),
            json!({"type": ["object", "null"]}),
            with("properties", json!({"a": 5})),
            with("$defs", json!(5)),
            with("$defs", json!({"a": "no schema"})),
        ] {
            assert_eq!(union_of(&schema), None, "{schema}");
        }
    }

    #[test]
    fn a_reference_may_lead_to_a_definition_and_nowhere_else() {
        let schema = |keyword: &str, to: &str| {
            json!({
                "type": "object",
                "properties": {"p": {keyword: to, "title": "beside it"}},
                "$defs": {
                    "a": {"properties": {"b": {"items": {}, "x-b": {}}}, "default": {}, "allOf": [{}]},
                    "a/b%": true,
                    "": {},
                },
                "definitions": {"c": {"items": [{}]}},
            })
        };
        let definitions = "#/$defs/a #/%24defs/a #/$defs/a~1b%25 #/$defs/ #/$defs/a/properties/b \
                           #/$defs/a/properties/b/items #/$defs/a/allOf/0 #/definitions/c/items/0";
        for to in definitions.split(' ') {
            assert!(union_of(&schema("$ref", to)).is_some(), "{to}");
            assert!(union_of(&schema("$dynamicRef", to)).is_some(), "{to}");
        }
        let others = "# #/ #/$defs #/properties/p #/$defs/none #/$defs/a/properties #/$defs/a/allOf \
                      #/$defs/a/allOf/1 #/$defs/a/default #/$defs/a/properties/b/x-b #/$defs/a%2 #/$defs/a%ff \
                      #a other.json#/$defs/a https://example.com/schema /$defs/a";
        for to in others.split(' ').chain([""]) {
            for keyword in REFERENCES {
                assert_eq!(union_of(&schema(keyword, to)), None, "{keyword} {to}");
            }
        }
        assert_eq!(union_of(&with("$ref", json!(5))), None);
    }

    #[test]
    fn references_and_identifiers_are_found_wherever_a_schema_is() {
        let bad = json!({"$ref": "#"});
        let one = "not if then else contains contentSchema propertyNames additionalProperties \
                   unevaluatedProperties additionalItems unevaluatedItems items";
        let several = "items allOf anyOf oneOf prefixItems";
        let named = "patternProperties dependentSchemas $defs definitions";
        let places = one
            .split(' ')
            .map(|keyword| (keyword, bad.clone()))
            .chain(several.split(' ').map(|keyword| (keyword, json!([{}, bad]))))
            .chain(named.split(' ').map(|keyword| (keyword, json!({"a": bad}))))
            .chain([
                ("properties", json!({"a": {"properties": {"$ref": bad}}})),
                ("dependencies", json!({"b": ["a"], "a": bad})),
                ("definitions", json!({"a": {"$defs": {"b": bad}}})),
            ]);
        for (keyword, value) in places {
            assert_eq!(union_of(&with(keyword, value)), None, "{keyword}");
        }
        for keyword in IDENTIFIERS {
            assert_eq!(union_of(&with(keyword, json!("https://a.example/s"))), None, "{keyword}");
            assert_eq!(union_of(&with("properties", json!({"a": {keyword: "b"}}))), None, "{keyword}");
            assert_eq!(union_of(&with("$defs", json!({"a": {"not": {keyword: "b"}}}))), None, "{keyword}");
        }
        let escaped = RawJson::parse(r##"{"type":"object","not":{"\u0024ref":"#"}}"##).expect("JSON");
        assert_eq!(union_schema(&escaped), None, "names may be written with escapes");
        let two = RawJson::trusted(r##"{"type":"object","properties":{"a":{"not":{"$ref":"#"},"not":{}}}}"##);
        assert_eq!(union_schema(&two), None, "each of two members counts");
        let top = RawJson::trusted(r#"{"type":"object","not":{},"not":true}"#);
        assert!(union_schema(&top).is_none_or(|union| RawJson::parse(union.bytes()).is_ok()));
    }

    #[test]
    fn names_of_properties_and_data_are_not_keywords() {
        let mut names = Map::new();
        for name in IDENTIFIERS.into_iter().chain(REFERENCES).chain(DEFINITIONS).chain(["$schema"]) {
            names.insert(name.to_owned(), json!({"type": "string"}));
        }
        let data = json!({"$ref": "#", "$id": "x", "id": 1, "properties": {"a": {"$ref": "#"}}});
        let schema = json!({
            "type": "object",
            "properties": names,
            "$defs": {"id": {}, "$ref": {}},
            "default": data,
            "examples": [data],
            "const": data,
            "enum": [data],
            "x-unknown": data,
            "dependentRequired": {"id": ["$ref"]},
        });
        let union = union_of(&schema).expect("a union");
        assert_eq!(union["anyOf"][0]["properties"], schema["properties"]);
        assert_eq!(union["$defs"], schema["$defs"]);
        assert_eq!(union["anyOf"][0]["default"], data);
    }

    #[test]
    fn a_union_that_readers_would_find_too_deep_is_not_made() {
        let nested = |levels: usize| {
            let value = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            RawJson::parse(format!("{{\"type\":\"object\",\"const\":{value}}}")).expect("JSON")
        };
        // The schema becomes an item of a list in an object.
        assert!(union_schema(&nested(MAX_DEPTH - 4)).is_some());
        assert!(union_schema(&nested(MAX_DEPTH - 2)).is_none());
        let deep = format!("{}{{}}{}", r#"{"type":"object","not":"#.repeat(5_000), "}".repeat(5_000));
        assert!(union_schema(&RawJson::trusted(deep)).is_none(), "text that was never checked");
    }
}
