//! The union that clients without tasks get for an output schema accepts each result that the schema
//! accepts, and each hand-off. Two validators must agree about it: the one of the host and another.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::{Map, Value, json};
use toolyard_protocol::RawJson;
use toolyard_protocol::tools::union_schema::{handoff_content, union_schema};
use toolyard_schema::{Allowance, Bounds, Budget, Schema, Verdict};

/// A schema that is not an object's, or one that only tests values below it.
fn subschema(reference: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        4 => Just(json!({})),
        2 => Just(json!(true)),
        1 => Just(json!(false)),
        2 => prop::sample::select(vec!["string", "integer", "object", "array", "boolean"])
            .prop_map(|name| json!({"type": name})),
        1 => (-2_i64..3).prop_map(|n| json!({"minimum": n})),
        1 => value().prop_map(|value| json!({"const": value})),
        3 => reference,
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            some.clone().prop_map(|list| json!({"anyOf": list})),
            some.clone().prop_map(|list| json!({"allOf": list})),
            some.prop_map(|list| json!({"oneOf": list})),
            inner.clone().prop_map(|schema| json!({"not": schema})),
            inner.clone().prop_map(|schema| json!({"items": schema})),
            keywords(inner),
        ]
    })
    .boxed()
}

/// Some keywords of objects.
fn keywords(inner: impl Strategy<Value = Value> + Clone + 'static) -> BoxedStrategy<Value> {
    let properties = prop::collection::btree_map(name(), inner.clone(), 0..3);
    let required = prop::collection::btree_set(name(), 0..2);
    let others = prop::option::weighted(0.3, inner);
    let rest = prop::sample::select(vec!["additionalProperties", "unevaluatedProperties", "propertyNames"]);
    (properties, required, others, rest)
        .prop_map(|(properties, required, others, rest)| {
            let mut schema = json!({"properties": properties, "required": required});
            if let Some(others) = others {
                schema[rest] = others;
            }
            schema
        })
        .boxed()
}

fn name() -> impl Strategy<Value = String> + Clone {
    prop::sample::select(vec!["a", "b", "$ref", "$defs", "id", "task_handoff"]).prop_map(str::to_owned)
}

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(json!("x")),
        Just(json!(null)),
        (-3_i64..4).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..3).prop_map(|members| json!(members)),
        ]
    })
    .boxed()
}

/// The schema of an object, with definitions that it refers to.
fn output_schema() -> BoxedStrategy<Value> {
    let to = prop::sample::select(vec!["#/$defs/x", "#/$defs/a~1b", "#/definitions/y"]);
    let reference = to.prop_map(|to| json!({"$ref": to})).boxed();
    // A definition refers to others only for parts of the value, so that no reference is circular.
    let definition = prop_oneof![
        subschema(Just(json!({})).boxed()),
        reference.clone().prop_map(|reference| json!({"properties": {"a": reference}})),
    ];
    let definitions = (definition.clone(), definition.clone(), definition);
    let root = prop::option::of(reference.clone());
    let also = prop::option::of(subschema(reference.clone()));
    (keywords(subschema(reference)), definitions, root, also)
        .prop_map(|(mut schema, (x, ab, y), root, also)| {
            schema["type"] = json!("object");
            schema["$defs"] = json!({"x": x, "a/b": ab});
            schema["definitions"] = json!({"y": y});
            if let Some(Value::Object(root)) = root {
                schema["$ref"] = root["$ref"].clone();
            }
            if let Some(also) = also {
                schema["anyOf"] = json!([also, {"maxProperties": 1}]);
            }
            schema
        })
        .boxed()
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), value(), 0..4).prop_map(|members| json!(members))
}

/// Whether the validator of the host accepts the value. `None` if it refuses the schema.
fn fits(schema: &Value, value: &Value) -> Option<bool> {
    let bounds = Bounds { bytes: 256 << 10, depth: 64 };
    let schema = Schema::compile(&RawJson::of(schema), bounds, &mut Allowance::of_component()).ok()?;
    let verdict = schema.check(&RawJson::of(value), &mut Budget::steps(1_000_000));
    Some(verdict.expect("a verdict within the budget") == Verdict::Fits)
}

fn is_valid(schema: &Value, value: &Value) -> bool {
    jsonschema::validator_for(schema).expect("a schema").is_valid(value)
}

fn union_of(schema: &Value) -> Value {
    let union = union_schema(&RawJson::of(schema)).expect("a union");
    union.decode().expect("JSON")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_value_that_fits_a_schema_fits_its_union(
        schema in output_schema(),
        values in prop::collection::vec(object(), 1..8),
    ) {
        let union = union_of(&schema);
        for value in &values {
            if is_valid(&schema, value) {
                prop_assert!(is_valid(&union, value), "{value} under {schema}");
            }
            if fits(&schema, value) == Some(true) {
                prop_assert_eq!(fits(&union, value), Some(true), "{} under {}", value, schema);
            }
        }
    }

    #[test]
    fn a_value_that_fits_neither_a_schema_nor_a_handoff_does_not_fit_the_union(
        schema in output_schema(),
        value in object(),
    ) {
        let is_handoff = value["task_handoff"].is_object();
        if !is_handoff && !is_valid(&schema, &value) {
            prop_assert!(!is_valid(&union_of(&schema), &value), "{value} under {schema}");
        }
    }

    #[test]
    fn a_handoff_fits_every_union(
        schema in output_schema(),
        texts in (".{0,20}", ".{0,20}", ".{0,20}"),
    ) {
        let union = union_of(&schema);
        let content = handoff_content(&texts.0, &texts.1, &texts.2);
        prop_assert!(is_valid(&union, &content), "{schema}");
        if fits(&schema, &json!({})).is_some() {
            prop_assert_eq!(fits(&union, &content), Some(true), "{}", schema);
        }
    }
}

#[test]
fn the_generated_schemas_accept_some_values_and_refuse_others() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut counts = Map::new();
    for _ in 0..200 {
        let schema = output_schema().new_tree(&mut runner).expect("a schema").current();
        let value = object().new_tree(&mut runner).expect("a value").current();
        let verdict = if is_valid(&schema, &value) { "valid" } else { "invalid" };
        let count = counts.get(verdict).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(verdict.to_owned(), json!(count + 1));
        assert!(
            fits(&schema, &value).is_some_and(|fits| fits == (verdict == "valid")),
            "{value} under {schema}"
        );
    }
    let most = |verdict: &str| counts.get(verdict).and_then(Value::as_u64).unwrap_or(0);
    assert!(most("valid") > 10 && most("invalid") > 10, "{counts:?}");
}
