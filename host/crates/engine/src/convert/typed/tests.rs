//! Types and values to JSON and back, alone and through real components.

mod arbitrary;
mod echo;

use super::shape::{Case, Field, Integer, Shape};
use super::{Function, argument, read, schema, write};
use crate::bindings::toolyard::plugin::types::Content;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolyard_schema::{Allowance, Bounds, Budget, Schema, Verdict};
use toolyard_task::ArgumentValue;
use toolyard_task::wire::RawJson;
use wasmtime::component::Val;

const MAX_BYTES: u64 = 1 << 20;

fn field(name: &str, shape: Shape) -> Field {
    Field { name: name.to_owned(), shape }
}

fn case(name: &str, payload: Option<Shape>) -> Case {
    Case { name: name.to_owned(), payload }
}

fn result(ok: Option<Shape>, err: Option<Shape>) -> Shape {
    Shape::Result(Box::new([case("ok", ok), case("err", err)]))
}

fn some(shape: Shape) -> Shape {
    Shape::Option(Box::new(shape))
}

/// Reads one value of a shape, as the argument `v`.
fn read_one(shape: &Shape, value: &Value) -> Result<Val, String> {
    read_text(shape, &format!("{{\"v\":{value}}}"))
}

fn read_text(shape: &Shape, text: &str) -> Result<Val, String> {
    let mut values = read::fields(&[field("v", shape.clone())], text)?;
    assert_eq!(values.len(), 1);
    Ok(values.remove(0))
}

fn written(shape: &Shape, value: &Val) -> Value {
    let text = write::json(shape, value, MAX_BYTES).expect("it is of its type");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Checks a value against a schema; the error says why it does not fit.
fn fits(schema: &Schema, value: &RawJson) -> Result<(), String> {
    // `Budget::steps` has a time limit, which a busy machine exceeds.
    let mut unbounded = || Ok(());
    match schema.check(value, &mut Budget::looked_after(&mut unbounded)).expect("no limit") {
        Verdict::Fits => Ok(()),
        Verdict::Misfit(what) => Err(what),
    }
}

/// The schema of arguments with a single member of this shape.
fn checked(shape: &Shape) -> Schema {
    let schema = schema::object(&[field("v", shape.clone())]);
    Schema::compile(
        &RawJson::of(&schema),
        Bounds { bytes: 1 << 24, depth: 128 },
        &mut Allowance::of_component(),
    )
    .expect("it is a schema")
}

fn wide() -> Shape {
    Shape::Integer(Integer::S64)
}

fn bytes() -> Shape {
    Shape::List(Box::new(Shape::Integer(Integer::U8)))
}

fn maybe_bool() -> Shape {
    some(some(Shape::Bool))
}

fn record() -> Shape {
    Shape::Record(vec![field("a", Shape::Bool), field("b", some(Shape::Bool))])
}

fn variant() -> Shape {
    Shape::Variant(vec![case("all", None), case("some-of", Some(Shape::String))])
}

fn map(key: Shape) -> Shape {
    Shape::Map(Box::new((key, Shape::Bool)))
}

#[test]
fn each_value_is_written_in_one_way_and_read_back() {
    let boxed = |value: Val| Some(Box::new(value));
    let text = |text: &str| Val::String(text.into());
    let entries = |key: Val| Val::Map(vec![(key, Val::Bool(true))]);
    let fields = vec![("a".into(), Val::Bool(true)), ("b".into(), Val::Option(None))];
    let fallible = || result(None, Some(Shape::String));
    let (edge, small) = ((1 << 53) - 1, || Shape::Integer(Integer::U8));
    for (rule, shape, value, json) in [
        ("integers beyond 2^53 are strings", wide(), Val::S64(edge), json!(edge)),
        ("integers beyond 2^53 are strings", wide(), Val::S64(edge + 1), json!("9007199254740992")),
        ("integers beyond 2^53 are strings", wide(), Val::S64(i64::MIN), json!("-9223372036854775808")),
        ("floats that JSON lacks are strings", Shape::F64, Val::Float64(f64::INFINITY), json!("Infinity")),
        ("floats that JSON lacks are strings", Shape::F32, Val::Float32(-f32::INFINITY), json!("-Infinity")),
        ("the shortest, not 0.10000000149011612", Shape::F32, Val::Float32(0.1), json!(0.1)),
        ("bytes are base64", bytes(), Val::List(vec![Val::U8(0), Val::U8(255)]), json!("AP8=")),
        ("options in options stay apart", maybe_bool(), Val::Option(None), json!(null)),
        (
            "options in options stay apart",
            maybe_bool(),
            Val::Option(boxed(Val::Option(None))),
            json!({"some": null}),
        ),
        (
            "options in options stay apart",
            maybe_bool(),
            Val::Option(boxed(Val::Option(boxed(Val::Bool(true))))),
            json!({"some": true}),
        ),
        ("optional fields are left out", record(), Val::Record(fields), json!({"a": true})),
        ("a case is its name", variant(), Val::Variant("all".into(), None), json!("all")),
        (
            "or an object with it",
            variant(),
            Val::Variant("some-of".into(), boxed(text("x"))),
            json!({"some-of": "x"}),
        ),
        ("so is a result", fallible(), Val::Result(Ok(None)), json!("ok")),
        ("so is a result", fallible(), Val::Result(Err(boxed(text("e")))), json!({"err": "e"})),
        ("maps by string are objects", map(Shape::String), entries(text("k")), json!({"k": true})),
        ("other maps are pairs", map(small()), entries(Val::U8(3)), json!([[3, true]])),
    ] {
        assert_eq!(written(&shape, &value), json, "{rule}");
        assert_eq!(read_one(&shape, &json), Ok(value), "{rule}");
    }
    assert_eq!(written(&Shape::F32, &Val::Float32(f32::NAN)), json!("NaN"));
    let schema = schema::object(&[field("x", Shape::Bool), field("y", some(Shape::Bool))]);
    assert_eq!(schema["required"], json!(["x"]), "an optional parameter may be left out");
}

#[test]
fn other_ways_to_write_a_value_are_taken() {
    let fields = vec![("a".into(), Val::Bool(true)), ("b".into(), Val::Option(None))];
    let small = || Shape::Integer(Integer::S32);
    for (shape, given, value) in [
        (Shape::Integer(Integer::U64), "18446744073709551615", Val::U64(u64::MAX)),
        (wide(), "\"-5\"", Val::S64(-5)),
        // A whole number with a point is an integer in JSON Schema.
        (small(), "1.0", Val::S32(1)),
        (small(), "1e3", Val::S32(1000)),
        (bytes(), "[0,255]", Val::List(vec![Val::U8(0), Val::U8(255)])),
        (record(), r#"{"a":true,"b":null}"#, Val::Record(fields)),
    ] {
        assert_eq!(read_text(&shape, &format!("{{\"v\":{given}}}")), Ok(value), "{given}");
    }
}

#[test]
fn what_is_not_of_its_type_is_refused() {
    let small = || Shape::Integer(Integer::S32);
    let pair = Shape::FixedList(Box::new(Shape::Bool), 2);
    for (shape, given, says) in [
        (wide(), r#""9223372036854775808""#, "at `/v`"),
        (wide(), r#""9223372036854775808""#, "not between"),
        (small(), r#"1.5 "1""#, ""),
        (Shape::F64, r#""inf" "1" "nan" true"#, ""),
        (Shape::F32, "1e39", "out of the range"),
        (bytes(), r#""!""#, "base64"),
        (bytes(), "[256]", "at `/v/0`"),
        (maybe_bool(), r#"{"other":null} {"some":null,"more":1}"#, ""),
        (record(), r#"{"b":true}"#, "`a` is missing"),
        (record(), r#"{"a":true,"a":true}"#, "twice"),
        (variant(), r#""some-of" "none" {} {"all":1} {"all":null,"b":1} 3"#, ""),
        (map(small()), "[[3]]", ""),
        (pair, "[true]", ""),
    ] {
        for given in given.split(' ') {
            let why = read_text(&shape, &format!("{{\"v\":{given}}}")).expect_err(given);
            assert!(why.contains(says), "{given}: {why}");
        }
    }
}

#[test]
fn an_integer_in_a_string_is_written_in_one_way() {
    for integer in [Integer::U64, Integer::S64] {
        let shape = Shape::Integer(integer);
        for wrong in ["07", "+7", "7.0", "7e0", " 7", "7 ", "-0", "00", "", "0x7", "inf", "NaN", "1_0", "٧"]
        {
            assert!(read_one(&shape, &json!(wrong)).is_err(), "{wrong}");
            let arguments = RawJson::of(&json!({"v": wrong}));
            assert!(fits(&checked(&shape), &arguments).is_err(), "{wrong}");
        }
        // The JSON escape stands for a digit; it is refused like the others.
        assert!(read_text(&shape, r#"{"v":"\u0037"}"#).is_err());
        assert!(read_one(&shape, &json!("7")).is_ok());
        assert!(read_one(&shape, &json!("0")).is_ok());
    }
}

#[test]
fn rules_see_values_and_not_how_they_were_written() {
    let seen = |shape: &Shape, text: &str| {
        let value = read_text(shape, &format!("{{\"v\":{text}}}")).expect("taken");
        let seen = argument::of_fields(&[field("v", shape.clone())], &[value]).expect("of its type");
        let ArgumentValue::Object(mut members) = seen else { panic!("an object") };
        members.remove(0).1
    };
    let exact = |text: &str| ArgumentValue::Exact(text.to_owned());
    let (wide, small) = (Shape::Integer(Integer::U64), Shape::Integer(Integer::U32));
    for text in ["22", "22.0", "2.2e1", "0.22E2"] {
        assert_eq!(seen(&small, text), exact("22"));
        assert_eq!(seen(&wide, text), exact("22"));
        assert_eq!(seen(&Shape::F64, text), exact("22"));
    }
    assert_eq!(seen(&wide, "\"22\""), exact("22"));
    assert_eq!(seen(&wide, "9007199254740993"), exact("9007199254740993"));
    assert_eq!(seen(&Shape::F64, "9007199254740993"), exact("9007199254740992"));
    assert_eq!(seen(&Shape::F32, "16777217"), exact("16777216"));
    assert_eq!(seen(&Shape::F32, "0.1"), exact("0.1"));
    assert_eq!(seen(&Shape::F64, "-0"), exact("-0"));
    assert_eq!(seen(&Shape::F64, "\"NaN\""), ArgumentValue::Text("NaN".into()));
    for text in ["\"AP8=\"", "[0,255]", "[0.0, 2.55e2]", "\"A\\u00508=\""] {
        assert_eq!(seen(&bytes(), text), ArgumentValue::Bytes(vec![0, 255]), "{text}");
    }
    let variant = Shape::Variant(vec![case("all", None), case("one", Some(small))]);
    assert_eq!(seen(&variant, "{\"all\":null}"), ArgumentValue::Text("all".into()));
    assert_eq!(seen(&variant, "{\"one\":7.0}"), ArgumentValue::Object(vec![("one".into(), exact("7"))]));
    let flags = Shape::Flags(vec!["bold".into(), "italic".into()]);
    let bold = ArgumentValue::List(vec![ArgumentValue::Text("bold".into())]);
    assert_eq!(seen(&flags, r#"["bo\u006cd"]"#), bold);
    assert_eq!(seen(&some(Shape::Bool), "null"), ArgumentValue::Null);
    assert_eq!(seen(&some(Shape::Bool), "true"), ArgumentValue::Bool(true));
}

/// A function with this result.
fn returning(result: Option<Shape>) -> Function {
    let module = wat::parse_str(
        r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
           (func (export "f") (canon lift (core func $i "f"))))"#,
    );
    let engine = wasmtime::Engine::new(&crate::component::toolchain::config()).expect("starts");
    let component = wasmtime::component::Component::new(&engine, module.expect("parses")).expect("compiles");
    let index = component.get_export_index(None, "f").expect("is there");
    Function { index, params: Vec::new(), result }
}

#[test]
fn results_become_structured_content_and_errors_failures() {
    let string = || Val::String("hello".into());
    let plain = returning(Some(Shape::String)).result(Some(&string()), MAX_BYTES).expect("well");
    assert_eq!(plain.structured_content.as_deref(), Some(r#"{"result":"hello"}"#));
    assert!(matches!(&plain.content[..], [Content::Text(text)] if text.text == "hello"));

    let fallible = returning(Some(result(None, Some(Shape::String))));
    let failed = Val::Result(Err(Some(Box::new(string()))));
    let failed = fallible.result(Some(&failed), MAX_BYTES).expect("well");
    assert!(failed.is_error && failed.structured_content.is_none());
    assert!(matches!(&failed.content[..], [Content::Text(text)] if text.text == "hello"));
    let done = fallible.result(Some(&Val::Result(Ok(None))), MAX_BYTES).expect("well");
    assert!(!done.is_error && done.structured_content.is_none());

    let record = Shape::Record(vec![field("n", Shape::Integer(Integer::U8))]);
    let value = Val::Record(vec![("n".into(), Val::U8(1))]);
    let object = returning(Some(record)).result(Some(&value), MAX_BYTES).expect("well");
    assert_eq!(object.structured_content.as_deref(), Some(r#"{"n":1}"#));
    let long = Val::String("x".repeat(100));
    let over = returning(Some(Shape::String)).result(Some(&long), 50);
    assert_eq!(over.err(), Some(crate::limits::failure::Failure::Output));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The schema accepts every written value, and reading returns the original.
    #[test]
    fn every_value_of_every_type_survives_json((shape, value) in arbitrary::shape_and_value(true)) {
        let json = written(&shape, &value);
        prop_assert_eq!(fits(&checked(&shape), &RawJson::of(&json!({"v": json}))), Ok(()));
        let text = write::json(&shape, &value, MAX_BYTES).expect("written");
        let read = read_text(&shape, &format!("{{\"v\":{text}}}"));
        prop_assert_eq!(read.map(arbitrary::normal), Ok(arbitrary::normal(value)));
    }

    /// The access rules get every value in one form, however the client wrote it.
    #[test]
    fn every_value_has_one_form_for_the_rules((shape, value) in arbitrary::shape_and_value(true)) {
        let fields = [field("v", shape.clone())];
        let seen = argument::of_fields(&fields, std::slice::from_ref(&value));
        prop_assert!(seen.is_some(), "{}", shape);
        let text = write::json(&shape, &value, MAX_BYTES).expect("written");
        let read = read_text(&shape, &format!(" {{ \"\\u0076\" : {text} }} ")).expect("read");
        let again = argument::of_fields(&fields, &[arbitrary::normal(read)]);
        prop_assert_eq!(again, argument::of_fields(&fields, &[arbitrary::normal(value)]));
    }

    /// Any JSON is either read or refused, whatever the type.
    #[test]
    fn no_json_brings_the_reader_down((shape, _) in arbitrary::shape_and_value(true), json in arbitrary::json()) {
        let read = read_one(&shape, &json);
        if let Ok(value) = read {
            let again = written(&shape, &value);
            prop_assert_eq!(read_one(&shape, &again).map(arbitrary::normal), Ok(arbitrary::normal(value)));
        }
    }
}
