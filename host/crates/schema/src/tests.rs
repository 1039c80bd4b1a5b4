use super::compile::DIALECT;
use super::validate::MAX_COMPLAINTS;
use super::*;
use serde_json::{Map, json};

/// The host's default bounds.
const BOUNDS: Bounds = Bounds { bytes: 256 << 10, depth: 32 };

fn compile(schema: &Value) -> Result<Schema, String> {
    Schema::compile(&RawJson::of(schema), BOUNDS, &mut Allowance::of_component())
}

fn refused(schema: &Value, says: &str) {
    match compile(schema) {
        Ok(_) => panic!("taken: {schema}"),
        Err(what) => assert!(what.contains(says), "{what}"),
    }
}

/// J-8: only the dialect 2020-12 is supported.
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
    refused(&json!({"type": "object", "properties": {"a": {"pattern": "(?=x)y"}}}), "2020-12");
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

/// 26TL-3: nothing is fetched.
#[test]
fn references_stay_inside() {
    for outside in ["https://example.com/x.json", "file:///etc/passwd", "other.json", "x#/$defs/a"] {
        refused(&json!({"type": "object", "properties": {"a": {"$ref": outside}}}), "outside");
        refused(&json!({"type": "object", "properties": {"a": {"$dynamicRef": outside}}}), "outside");
    }
    refused(&json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}), "no subschema");
    refused(&json!({"type": "object", "properties": {"a": {"$ref": "#none"}}}), "not there");
    // Data that looks like a reference is not one.
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
    assert!(tree.check_whole(&RawJson::trusted(r#"{"children":[{"children":[{"n":1}]}]}"#)).is_ok());
    assert!(tree.check_whole(&RawJson::trusted(r#"{"children":[{"children":[{"n":"1"}]}]}"#)).is_err());
    refused(&json!({"type": "object", "allOf": [{"$ref": "#"}]}), "circle");
    refused(
        &json!({"type": "object", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
        "circle",
    );
    refused(&json!({"type": "object", "$dynamicAnchor": "x", "if": {"$dynamicRef": "#x"}}), "circle");
}

#[test]
fn references_must_not_fan_out_without_bound() {
    let mut defs = Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
        defs.insert(format!("{n}"), json!({"allOf": [next, next]}));
    }
    defs.insert("40".into(), json!({}));
    refused(&json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": defs}), "fan out");
}

#[test]
fn complaints_name_the_place_and_are_few_and_short() {
    let schema = compile(&json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "many": {"items": {"type": "string"}}},
        "required": ["country"],
    }))
    .expect("fine");
    let what = schema.check_whole(&RawJson::trusted(r#"{"city":12}"#)).expect_err("two complaints");
    assert!(what.contains("at `/city`: 12 is not of type"), "{what}");
    assert!(what.contains("at `/`: \"country\" is a required property"), "{what}");
    let many = json!({"country": 1, "many": (0..100).collect::<Vec<_>>()});
    let what = schema.check_whole(&RawJson::of(&many)).expect_err("many");
    assert_eq!(what.matches("at `").count(), MAX_COMPLAINTS);
    assert!(what.ends_with("and more"));
    let long = json!({"country": 1, "city": vec![0; 100_000]});
    assert!(schema.check_whole(&RawJson::of(&long)).expect_err("long").len() < 500);
}

/// Runs this on a thread with the stack size of a blocking thread.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("starts");
    thread.join().expect("no panic");
}

/// The deepest chains that 256 KiB of schema allow.
#[test]
fn long_chains_of_references_do_not_overflow_the_stack() {
    on_a_small_stack(|| {
        for link in [
            |next: Value| json!({"properties": {"a": next}}),
            |next: Value| json!({"items": next}),
            |next: Value| json!({"additionalProperties": next, "unevaluatedProperties": false}),
        ] {
            let mut defs = Map::new();
            for n in 0..5_000 {
                defs.insert(format!("{n}"), link(json!({"$ref": format!("#/$defs/{}", n + 1)})));
            }
            defs.insert("5000".into(), json!({}));
            let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": defs});
            let bounds = Bounds { bytes: 1 << 20, ..BOUNDS };
            // Accepted or refused, but without a stack overflow.
            let _ = Schema::compile(&RawJson::of(&schema), bounds, &mut Allowance::of_component());
        }
    });
}

/// Compiles a schema of any type and checks a value.
fn fits(schema: &Value, value: &Value) -> Result<bool, String> {
    let rules = compile::compile_any(schema, &mut Allowance::of_component())?;
    let text = value.to_string();
    let mut budget = Budget::unlimited();
    let document = Document::read(&text, &mut budget).expect("enough").map_err(|why| why.0.to_owned())?;
    let mut check = Check::new(&rules, &document, &mut budget);
    let fits = check.fits().expect("enough");
    let complaints = check.complaints().expect("enough");
    assert_eq!(fits, complaints.is_empty(), "a misfit has complaints: {schema} {value} {complaints:?}");
    Ok(fits)
}

/// A recursive condition, in the form in which serde and schemars describe a tagged enum.
fn conditions() -> Schema {
    let branch = |op: &str, args: Value| json!({"type": "object", "properties": {"op": {"const": op}, "args": args}, "required": ["op", "args"]});
    let list = json!({"type": "array", "items": {"$ref": "#/$defs/condition"}});
    compile(&json!({
        "type": "object",
        "properties": {"condition": {"$ref": "#/$defs/condition"}},
        "$defs": {"condition": {"oneOf": [
            branch("and", list.clone()), branch("or", list.clone()), branch("not", list),
            branch("is", json!({"type": "string"})),
        ]}},
    }))
    .expect("an honest schema")
}

#[test]
fn a_schema_that_holds_itself_is_checked_in_time_that_grows_with_the_value_alone() {
    let schema = conditions();
    for levels in [14, 60] {
        let nested = |leaf: &str| {
            let open = r#"{"op":"and","args":["#.repeat(levels);
            RawJson::trusted(format!(r#"{{"condition":{open}{leaf}{}}}"#, "]}".repeat(levels)))
        };
        assert_eq!(schema.check_quickly(&nested(r#"{"op":"is","args":"x"}"#)), Some(Verdict::Fits));
        assert!(matches!(schema.check_quickly(&nested("7")), Some(Verdict::Misfit(_))), "{levels}");
    }
    // Without a tag that distinguishes the branches, which descend into the same member.
    let branch = || json!({"properties": {"a": {"$ref": "#/$defs/d"}}});
    let schema = compile(&json!({
        "type": "object", "$ref": "#/$defs/d",
        "$defs": {"d": {"anyOf": [branch(), branch()], "not": {"const": 1}}},
    }))
    .expect("two branches");
    let value = RawJson::trusted(format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100)));
    assert!(matches!(schema.check_quickly(&value), Some(Verdict::Misfit(_))));
}

#[test]
fn a_product_of_schemas_and_items_is_left_to_a_long_check_which_ends_when_it_is_told() {
    let branches: Vec<Value> = (0..4_000).map(|n| json!({"const": n})).collect();
    let schema = compile(&json!({
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"anyOf": branches}}},
    }))
    .expect("within the bounds");
    // Each item is checked against all branches before the last one fits: twelve million steps.
    let value = RawJson::of(&json!({"a": vec![3_999; 3_000]}));
    assert_eq!(schema.check_quickly(&value), None);
    let mut looks = 0;
    let mut look = || {
        looks += 1;
        if looks > 10 { Err(Halt::Stopped) } else { Ok(()) }
    };
    assert_eq!(schema.check(&value, &mut Budget::looked_after(&mut look)), Err(Halt::Stopped));
    assert_eq!(schema.check(&value, &mut Budget::unlimited()), Ok(Verdict::Fits));
}

#[test]
fn large_values_are_left_to_a_long_check() {
    let schema = compile(&json!({"type": "object"})).expect("fine");
    assert_eq!(schema.check_quickly(&RawJson::of(&json!({"a": "x".repeat(70_000)}))), None);
    assert_eq!(schema.check_quickly(&RawJson::of(&json!({"a": "x".repeat(60_000)}))), Some(Verdict::Fits));
}

/// The deepest check that a schema and a value allow, on the stack of a thread that serves clients.
#[test]
fn a_check_that_leads_too_deep_is_refused_before_the_stack_ends() {
    on_a_small_stack(|| {
        let mut definitions = Map::new();
        for n in 0..90 {
            definitions.insert(format!("{n}"), json!({"allOf": [{"$ref": format!("#/$defs/{}", n + 1)}]}));
        }
        definitions.insert("90".into(), json!({"additionalProperties": {"$ref": "#/$defs/0"}}));
        // 45 schemas for each level of the value.
        let schema = json!({"type": "object", "$ref": "#/$defs/50", "$defs": definitions});
        let schema = compile(&schema).expect("within the bounds");
        let value = RawJson::trusted(format!("{}1{}", r#"{"a":"#.repeat(127), "}".repeat(127)));
        let what = schema.check_whole(&value).expect_err("too deep");
        assert!(what.contains("deeper"), "{what}");
    });
}

mod against_another_implementation {
    use super::*;
    use proptest::prelude::*;
    use proptest::strategy::{Union, ValueTree as _};
    use toolyard_protocol::tools::union_schema::{handoff_content, union_schema};

    fn value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3..4_i64).prop_map(Value::from),
            prop_oneof![Just(0.5), Just(1.0), Just(-2.0), Just(1e3)].prop_map(Value::from),
            "[ab1]{0,3}".prop_map(Value::from),
        ];
        scalar.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name(), inner, 0..4).prop_map(Value::from_iter),
            ]
        })
    }

    /// The name of a member. Some are keywords, or the name of the member of a hand-off.
    fn name() -> impl Strategy<Value = String> + Clone {
        words("a b c a b c $ref $defs id task_handoff").prop_map(str::to_owned)
    }

    fn words(text: &'static str) -> impl Strategy<Value = &'static str> + Clone {
        prop::sample::select(text.split(' ').collect::<Vec<_>>())
    }

    /// One of these keywords, with such a value.
    fn one_of(
        names: &'static str,
        value: impl Strategy<Value = impl Into<Value>> + 'static,
    ) -> BoxedStrategy<(String, Value)> {
        (words(names), value).prop_map(|(name, value)| (name.to_owned(), value.into())).boxed()
    }

    fn keyword(
        inner: impl Strategy<Value = Value> + Clone + 'static,
    ) -> impl Strategy<Value = (String, Value)> {
        let list = prop::collection::vec(inner.clone(), 1..3);
        let named = prop::collection::btree_map(name(), inner.clone(), 0..3).prop_map(Value::from_iter);
        let names = prop::collection::btree_set(name(), 0..3).prop_map(|names| json!(names));
        Union::new([
            one_of("type", words("null boolean integer number string array object")),
            one_of("const", value()),
            one_of("enum", prop::collection::vec(value(), 0..4)),
            one_of("minimum maximum exclusiveMinimum exclusiveMaximum", -2..3_i64),
            one_of("multipleOf", prop_oneof![Just(json!(2)), Just(json!(0.5))]),
            one_of("minLength maxLength minItems maxItems minProperties maxProperties", 0..4_u64),
            one_of("minContains maxContains", 0..4_u64),
            one_of("pattern", words("^a b$ a|b ^[a-b]*$ 1")),
            one_of("uniqueItems", any::<bool>()),
            one_of("items contains additionalProperties propertyNames not if then else", inner.clone()),
            one_of("unevaluatedItems unevaluatedProperties", inner),
            one_of("allOf anyOf oneOf prefixItems", list),
            one_of("properties patternProperties dependentSchemas", named),
            one_of("required", names.clone()),
            one_of("dependentRequired", names.prop_map(|names| json!({"a": names}))),
            one_of("$ref", words("# #/properties/a #/$defs/d #/$defs/d #/$defs/a~1b #/definitions/d")),
        ])
    }

    fn schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), Just(json!({}))];
        let nested = leaf.prop_recursive(4, 40, 4, |inner| {
            prop::collection::vec(keyword(inner), 0..4).prop_map(Value::from_iter)
        });
        let definitions = (nested.clone(), any::<bool>(), any::<bool>());
        (nested, prop::option::of(definitions)).prop_map(|(mut schema, definitions)| {
            let simple = |is_text| json!({"type": if is_text { "string" } else { "array" }});
            if let (Some(members), Some((d, ab, old))) = (schema.as_object_mut(), definitions) {
                members.insert("$defs".to_owned(), json!({"d": d, "a/b": simple(ab)}));
                members.insert("definitions".to_owned(), json!({"d": simple(old)}));
            }
            schema
        })
    }

    /// The schema of an object that both validators take, and its union with a hand-off.
    fn with_union(mut schema: Value) -> Option<(Value, Value)> {
        schema.as_object_mut()?.insert("type".to_owned(), json!("object"));
        let union = union_schema(&RawJson::of(&schema))?.decode().expect("JSON");
        fits(&schema, &json!({})).ok()?;
        jsonschema::draft202012::new(&schema).ok()?;
        Some((schema, union))
    }

    /// The verdicts of both validators on a value.
    fn verdict(schema: &Value, value: &Value) -> bool {
        let theirs = jsonschema::draft202012::new(schema).expect("a schema").is_valid(value);
        assert_eq!(fits(schema, value), Ok(theirs), "{value} under {schema}");
        theirs
    }

    #[test]
    fn the_generated_schemas_have_unions_and_refuse_some_values() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let mut counts = [0, 0];
        for _ in 0..500 {
            let mut made = || (schema(), value()).new_tree(&mut runner).expect("made").current();
            let (schema, value) = made();
            if let (Some((schema, _)), true) = (with_union(schema), value.is_object()) {
                counts[usize::from(verdict(&schema, &value))] += 1;
            }
        }
        assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn both_say_the_same_of_every_value(schema in schema(), values in prop::collection::vec(value(), 1..6)) {
            let theirs = jsonschema::draft202012::new(&schema);
            // This validator refuses a schema because of its bounds, or because the other one
            // refuses it too.
            let Ok(theirs) = theirs else { return Ok(()) };
            for value in &values {
                if let Ok(ours) = fits(&schema, value) {
                    prop_assert_eq!(ours, theirs.is_valid(value), "{} of {}", value, schema);
                }
            }
        }

        /// Clients without tasks get the union for an output schema.
        #[test]
        fn a_union_accepts_what_its_schema_accepts_and_every_handoff_and_nothing_else(
            schema in schema(),
            values in prop::collection::vec(value(), 1..6),
            texts in (".{0,20}", ".{0,20}", ".{0,20}"),
        ) {
            let Some((schema, union)) = with_union(schema) else { return Ok(()) };
            prop_assert!(verdict(&union, &handoff_content(&texts.0, &texts.1, &texts.2)), "{schema}");
            for value in &values {
                if !value["task_handoff"].is_object() {
                    prop_assert_eq!(verdict(&union, value), verdict(&schema, value), "{} {}", value, schema);
                }
            }
        }
    }
}

/// Each of these schemas has an allowed size; the rules of 256 such schemas would take gigabytes.
#[test]
fn the_schemas_of_a_component_are_bounded_together() {
    let mut allowance = Allowance::of_component();
    let bounds = Bounds { bytes: 1 << 20, ..BOUNDS };
    let compile = |text: String, allowance: &mut Allowance| {
        Schema::compile(&RawJson::trusted(text), bounds, allowance).err().unwrap_or_default()
    };
    let many = |count| format!(r#"{{"type":"object","prefixItems":[{}]}}"#, vec!["{}"; count].join(","));
    assert_eq!(compile(many(60_000), &mut allowance), "");
    let refused = compile(many(6_000), &mut allowance);
    assert!(refused.contains("65536 subschemas"), "{refused}");
    assert_eq!(compile(many(100), &mut allowance), "", "others go on");
    let long = format!(r#"{{"type":"object","description":"{}"}}"#, "x".repeat(1_000_000));
    let refused: Vec<_> = (0..5).map(|_| compile(long.clone(), &mut allowance)).collect();
    assert!(refused[4].contains("4194304 bytes"), "{refused:?}");
}
