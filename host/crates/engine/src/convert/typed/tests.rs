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

#[test]
fn integers_beyond_2_53_are_strings_and_taken_both_ways() {
    let shape = Shape::Integer(Integer::U64);
    let edge = (1_u64 << 53) - 1;
    assert_eq!(written(&shape, &Val::U64(edge)), json!(edge));
    assert_eq!(written(&shape, &Val::U64(edge + 1)), json!("9007199254740992"));
    for given in ["18446744073709551615", "\"18446744073709551615\""] {
        let read = read_text(&shape, &format!("{{\"v\":{given}}}")).expect("taken");
        assert_eq!(read, Val::U64(u64::MAX));
    }
    let shape = Shape::Integer(Integer::S64);
    assert_eq!(written(&shape, &Val::S64(i64::MIN)), json!("-9223372036854775808"));
    assert_eq!(read_one(&shape, &json!("-9223372036854775808")), Ok(Val::S64(i64::MIN)));
    assert_eq!(read_one(&shape, &json!(-5)), Ok(Val::S64(-5)));
    let why = read_one(&shape, &json!("9223372036854775808")).expect_err("too large");
    assert!(why.contains("at `/v`") && why.contains("not between"), "{why}");
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
fn whole_numbers_with_a_point_are_integers_as_json_schema_has_it() {
    let shape = Shape::Integer(Integer::S32);
    assert_eq!(read_text(&shape, "{\"v\":1.0}"), Ok(Val::S32(1)));
    assert_eq!(read_text(&shape, "{\"v\":1e3}"), Ok(Val::S32(1000)));
    assert!(read_text(&shape, "{\"v\":1.5}").is_err());
    assert!(read_text(&shape, "{\"v\":\"1\"}").is_err(), "a small integer is not a string");
}

#[test]
fn floats_that_json_lacks_are_strings() {
    for (value, text) in [(f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")] {
        assert_eq!(written(&Shape::F64, &Val::Float64(value)), json!(text));
        assert_eq!(read_one(&Shape::F64, &json!(text)), Ok(Val::Float64(value)));
    }
    assert_eq!(written(&Shape::F32, &Val::Float32(f32::NAN)), json!("NaN"));
    let Ok(Val::Float32(read)) = read_one(&Shape::F32, &json!("NaN")) else { panic!("taken") };
    assert!(read.is_nan());
    assert_eq!(written(&Shape::F32, &Val::Float32(0.1)), json!(0.1), "the shortest, not 0.10000000149011612");
    for wrong in [json!("inf"), json!("1"), json!("nan"), json!(true)] {
        assert!(read_one(&Shape::F64, &wrong).is_err(), "{wrong}");
    }
    let why = read_text(&Shape::F32, "{\"v\":1e39}").expect_err("too large for f32");
    assert!(why.contains("out of the range"), "{why}");
}

#[test]
fn bytes_are_base64_and_taken_one_by_one_too() {
    let shape = Shape::List(Box::new(Shape::Integer(Integer::U8)));
    let bytes = Val::List(vec![Val::U8(0), Val::U8(255)]);
    assert_eq!(written(&shape, &bytes), json!("AP8="));
    assert_eq!(read_one(&shape, &json!("AP8=")), Ok(bytes.clone()));
    assert_eq!(read_one(&shape, &json!([0, 255])), Ok(bytes));
    assert!(read_one(&shape, &json!("!")).expect_err("no base64").contains("base64"));
    assert!(read_one(&shape, &json!([256])).expect_err("no byte").contains("at `/v/0`"));
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
    let bytes = Shape::List(Box::new(Shape::Integer(Integer::U8)));
    for text in ["\"AP8=\"", "[0,255]", "[0.0, 2.55e2]", "\"A\\u00508=\""] {
        assert_eq!(seen(&bytes, text), ArgumentValue::Bytes(vec![0, 255]), "{text}");
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

#[test]
fn options_in_options_stay_apart() {
    let shape = some(some(Shape::Bool));
    let none = Val::Option(None);
    let some_none = Val::Option(Some(Box::new(none.clone())));
    let some_some = Val::Option(Some(Box::new(Val::Option(Some(Box::new(Val::Bool(true)))))));
    for (value, json) in
        [(none, json!(null)), (some_none, json!({"some": null})), (some_some, json!({"some": true}))]
    {
        assert_eq!(written(&shape, &value), json);
        assert_eq!(read_one(&shape, &json), Ok(value));
    }
    assert!(read_one(&shape, &json!({"other": null})).is_err());
    assert!(read_one(&shape, &json!({"some": null, "more": 1})).is_err());
}

#[test]
fn optional_fields_and_parameters_may_be_left_out() {
    let shape = Shape::Record(vec![field("a", Shape::Bool), field("b", some(Shape::Bool))]);
    let expected = Val::Record(vec![("a".into(), Val::Bool(true)), ("b".into(), Val::Option(None))]);
    assert_eq!(read_one(&shape, &json!({"a": true})), Ok(expected.clone()));
    assert_eq!(read_one(&shape, &json!({"a": true, "b": null})), Ok(expected.clone()));
    assert_eq!(written(&shape, &expected), json!({"a": true}));
    let schema = schema::object(&[field("x", Shape::Bool), field("y", some(Shape::Bool))]);
    assert_eq!(schema["required"], json!(["x"]));
    let why = read_one(&shape, &json!({"b": true})).expect_err("a is missing");
    assert!(why.contains("`a` is missing"), "{why}");
    let why = read_text(&shape, "{\"v\":{\"a\":true,\"a\":true}}").expect_err("twice");
    assert!(why.contains("twice"), "{why}");
}

#[test]
fn variants_and_results_are_a_name_or_an_object_with_one() {
    let shape = Shape::Variant(vec![case("all", None), case("some-of", Some(Shape::String))]);
    let value = Val::Variant("some-of".into(), Some(Box::new(Val::String("x".into()))));
    assert_eq!(written(&shape, &value), json!({"some-of": "x"}));
    assert_eq!(read_one(&shape, &json!({"some-of": "x"})), Ok(value));
    assert_eq!(read_one(&shape, &json!("all")), Ok(Val::Variant("all".into(), None)));
    for wrong in [
        json!("some-of"),
        json!("none"),
        json!({}),
        json!({"all": 1}),
        json!({"all": null, "b": 1}),
        json!(3),
    ] {
        assert!(read_one(&shape, &wrong).is_err(), "{wrong}");
    }
    let shape = result(None, Some(Shape::String));
    assert_eq!(read_one(&shape, &json!("ok")), Ok(Val::Result(Ok(None))));
    let value = Val::Result(Err(Some(Box::new(Val::String("e".into())))));
    assert_eq!(written(&shape, &value), json!({"err": "e"}));
}

#[test]
fn maps_by_string_are_objects_and_others_pairs() {
    let entry = |key: Val| (key, Val::Bool(true));
    let shape = Shape::Map(Box::new((Shape::String, Shape::Bool)));
    let value = Val::Map(vec![entry(Val::String("k".into()))]);
    assert_eq!(written(&shape, &value), json!({"k": true}));
    assert_eq!(read_one(&shape, &json!({"k": true})), Ok(value));
    let shape = Shape::Map(Box::new((Shape::Integer(Integer::U8), Shape::Bool)));
    let value = Val::Map(vec![entry(Val::U8(3))]);
    assert_eq!(written(&shape, &value), json!([[3, true]]));
    assert_eq!(read_one(&shape, &json!([[3, true]])), Ok(value));
    assert!(read_one(&shape, &json!([[3]])).is_err());
    let shape = Shape::FixedList(Box::new(Shape::Bool), 2);
    assert!(read_one(&shape, &json!([true])).is_err());
    assert!(read_one(&shape, &json!([true, false])).is_ok());
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
