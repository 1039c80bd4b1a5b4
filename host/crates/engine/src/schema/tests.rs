use super::*;
use crate::settings::Settings;
use serde_json::json;

fn compile(schema: &Value) -> Result<Schema, String> {
    Schema::compile(&RawJson::of(schema), Settings::default().schema_bounds())
}

fn refused(schema: &Value, says: &str) {
    match compile(schema) {
        Ok(_) => panic!("taken: {schema}"),
        Err(what) => assert!(what.contains(says), "{what}"),
    }
}

/// J-8: of the dialect 2020-12, and of no other.
#[test]
fn what_is_not_a_schema_of_objects_is_refused() {
    refused(&json!(true), "object");
    refused(&json!([]), "object");
    refused(&json!({}), "type");
    refused(&json!({"type": ["object"]}), "type");
    refused(&json!({"type": "object", "properties": 5}), "2020-12");
    refused(&json!({"type": "object", "properties": {"a": {"type": "strin"}}}), "2020-12");
    refused(&json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}), "dialect");
    refused(&json!({"type": "object", "properties": {"a": {"$id": "x"}}}), "$id");
    assert!(compile(&json!({"type": "object", "$schema": DIALECT, "$id": "https://a.example/s"})).is_ok());
}

#[test]
fn size_and_depth_are_bounded() {
    refused(&json!({"type": "object", "description": "x".repeat(300_000)}), "larger");
    let mut deep = json!({});
    for _ in 0..40 {
        deep = json!({"properties": {"a": deep}});
    }
    deep["type"] = "object".into();
    refused(&deep, "deeper");
}

#[test]
fn references_stay_inside() {
    for outside in ["https://example.com/x.json", "file:///etc/passwd", "other.json", "x#/$defs/a"] {
        refused(&json!({"type": "object", "properties": {"a": {"$ref": outside}}}), "outside");
        refused(&json!({"type": "object", "properties": {"a": {"$dynamicRef": outside}}}), "outside");
    }
    refused(&json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}), "no subschema");
    refused(&json!({"type": "object", "properties": {"a": {"$ref": "#none"}}}), "not there");
    // Data that looks like a reference is none.
    assert!(compile(&json!({"type": "object", "default": {"$ref": "x"}, "enum": [{"$ref": "x"}]})).is_ok());
    assert!(compile(&json!({"type": "object", "properties": {"$ref": {"type": "string"}}})).is_ok());
}

#[test]
fn recursion_must_descend_into_the_value() {
    let tree = compile(&json!({
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "n": {"$ref": "#/$defs/a~1b%25"}},
        "$defs": {"a/b%": {"$anchor": "number", "type": "number"}},
        "additionalProperties": {"$ref": "#number"},
    }))
    .expect("a tree");
    assert!(tree.check(&RawJson::trusted(r#"{"children":[{"children":[{"n":1}]}]}"#)).is_ok());
    assert!(tree.check(&RawJson::trusted(r#"{"children":[{"children":[{"n":"1"}]}]}"#)).is_err());
    refused(&json!({"type": "object", "allOf": [{"$ref": "#"}]}), "circle");
    refused(
        &json!({"type": "object", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
        "circle",
    );
    refused(&json!({"type": "object", "$dynamicAnchor": "x", "if": {"$dynamicRef": "#x"}}), "circle");
}

#[test]
fn references_must_not_fan_out_without_bound() {
    let mut definitions = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("d40".into(), json!({}));
    refused(
        &json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}),
        "fan out",
    );
}

#[test]
fn regular_expressions_take_linear_time_or_are_refused() {
    let with = |pattern: &str| json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}});
    let schema = compile(&with("^(a+)+$")).expect("linear in this engine");
    let evil = json!({"a": format!("{}b", "a".repeat(50_000))});
    assert!(schema.check(&RawJson::of(&evil)).is_err());
    refused(&with("(?=x)y"), "2020-12");
    refused(&with("(((a{1000}){1000}){1000})"), "2020-12");
}

#[test]
fn complaints_name_the_place_and_are_few_and_short() {
    let schema = compile(&json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "many": {"items": {"type": "string"}}},
        "required": ["country"],
    }))
    .expect("fine");
    let what = schema.check(&RawJson::trusted(r#"{"city":12}"#)).expect_err("two complaints");
    assert!(what.contains("at `/city`: 12 is not of type"), "{what}");
    assert!(what.contains("at `/`: \"country\" is a required property"), "{what}");
    let many = json!({"country": 1, "many": (0..100).collect::<Vec<_>>()});
    let what = schema.check(&RawJson::of(&many)).expect_err("many");
    assert_eq!(what.matches("at `").count(), MAX_COMPLAINTS);
    assert!(what.ends_with("and more"));
    let long = json!({"country": 1, "city": vec![0; 100_000]});
    assert!(schema.check(&RawJson::of(&long)).expect_err("long").len() < 500);
}

#[test]
fn deep_values_are_checked_or_refused_but_never_overflow() {
    let schema = compile(&json!({"type": "object", "additionalProperties": {"$ref": "#"}})).expect("fine");
    for levels in [10, 127, 128] {
        let text = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        let value = RawJson::parse(text).expect("deep, but not too deep");
        assert!(schema.check(&value).is_err());
    }
}

/// As deep as 256 KiB of schema can lead.
#[test]
fn long_chains_of_references_do_not_overflow_the_stack() {
    let run = || {
        for link in [
            |next: Value| json!({"properties": {"a": next}}),
            |next: Value| json!({"items": next}),
            |next: Value| json!({"additionalProperties": next, "unevaluatedProperties": false}),
        ] {
            let mut definitions = Map::new();
            for n in 0..5_000 {
                definitions.insert(format!("{n}"), link(json!({"$ref": format!("#/$defs/{}", n + 1)})));
            }
            definitions.insert("5000".into(), json!({}));
            let schema =
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": definitions});
            // Taken or refused, but not by falling over.
            let _ = Schema::compile(
                &RawJson::of(&schema),
                Bounds { bytes: 1 << 20, ..Settings::default().schema_bounds() },
            );
        }
    };
    // A blocking thread's stack.
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("starts");
    thread.join().expect("no panic");
}
