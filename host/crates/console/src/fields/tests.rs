use super::*;
use crate::form::Pairs;
use serde_json::{Map, json};
use toolyard_dispatch::{Form, RawJson};

fn fields(schema: Value) -> Vec<Field> {
    Form::fields_of(&RawJson::of(&schema)).expect("an object of properties")
}

/// The fields of a form, as `name=value|name=value`.
fn pairs(given: &str) -> Pairs {
    let pairs = given.split('|').map(|pair| pair.split_once('=').expect("a name and a value"));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn all_kinds() -> Vec<Field> {
    fields(json!({"type": "object", "properties": {
        "name": {"type": "string"}, "note": {"type": "string", "maxLength": 200}, "count": {"type": "integer"},
        "share": {"type": ["number", "null"]}, "ok": {"type": "boolean"}, "unset": {"type": "boolean"},
        "level": {"enum": [1, "two", null]}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "lines": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"},
        "inner": {"type": "object", "properties": {"a/b": {"type": "string"}, "deep": {"type": "object", "properties": {"x": {"type": "number"}}}}, "required": ["a/b"]},
        "free": {"type": "object"}, "shared": {"$ref": "#/$defs/x"},
    }, "required": ["name", "maybe"]}))
}

#[test]
fn fields_become_values_of_their_types_and_values_become_fields() {
    let form = pairs(
        "f.name=Ada|f.note=two\r\nlines|f.count= 7 |f.share=0.5|f.ok=true|f.unset=|f.level=1|f.tags=a|f.tags=b\
         |f.lines=one\r\n\r\ntwo|f.numbers=1\n2|f.maybe=|f.inner/a~1b=x|f.inner/deep/x=2|f.free={\"k\": [1]}\
         |other=1",
    );
    let (value, faults) = read(&all_kinds(), &form, Reading::Arguments);
    assert_eq!(faults, []);
    let expected = json!({
        "name": "Ada", "note": "two\nlines", "count": 7, "share": 0.5, "ok": true, "level": 1, "tags": ["a", "b"],
        "lines": ["one", "two"], "numbers": [1, 2], "maybe": null, "inner": {"a/b": "x", "deep": {"x": 2}},
        "free": {"k": [1]},
    });
    assert_eq!(Value::Object(value.clone()), expected);
    let again = entered(&all_kinds(), &value);
    assert_eq!(read(&all_kinds(), &again, Reading::Arguments), (value, Vec::new()));
}

#[test]
fn what_does_not_fit_is_named_at_its_field() {
    let form = pairs("f.count=x|f.level=3|f.numbers=1\ny|f.free={|f.inner/deep/x=1");
    let (_, faults) = read(&all_kinds(), &form, Reading::Arguments);
    let found: Vec<_> = faults.iter().map(|fault| format!("{} {}", fault.pointer, fault.text)).collect();
    let expected = [
        "/count must be a number",
        "/free is not valid JSON",
        "/inner/a~1b is required",
        "/level must be one of the choices",
        "/name is required",
        "/numbers must be a number",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(found.iter().zip(expected).all(|(fault, expected)| fault.starts_with(expected)), "{found:?}");
    let page = inputs(&all_kinds(), "f", &form, &faults).into_string();
    for text in [
        "name=\"f.count\" type=\"number\" value=\"x\"",
        "id=\"f-0-fault\">must be a number",
        "name=\"f.inner/a~1b\"",
        "aria-invalid=\"true\"",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let summary = summary(&all_kinds(), "f", &faults).into_string();
    assert!(summary.contains("<a href=\"#f-2-0\">a/b</a> is required"), "{summary}");
    // An optional object that was left out has no required members.
    assert_eq!(read(&all_kinds(), &pairs("f.name=Ada"), Reading::Arguments).1, []);
}

#[test]
fn an_answer_may_have_an_empty_text() {
    let asked =
        fields(json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}));
    let (value, faults) = read(&asked, &pairs("f.name="), Reading::Answer);
    assert_eq!((Value::Object(value), faults), (json!({"name": ""}), Vec::new()));
}

#[test]
fn only_an_object_of_properties_is_a_form() {
    for schema in [
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {"a": {}}, "oneOf": [{"required": ["a"]}]}),
        json!(true),
    ] {
        assert!(Form::fields_of(&RawJson::of(&schema)).is_none(), "{schema}");
    }
    assert_eq!(fields(json!({"type": "object", "properties": {}})).len(), 0);
    let nested = |depth: usize| {
        (0..depth)
            .fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"x": inner}}))
    };
    let page = |depth| inputs(&fields(nested(depth)), "f", &entered(&[], &Map::new()), &[]).into_string();
    assert_eq!(page(4).matches("<fieldset").count(), 3);
    assert!(!page(4).contains("as JSON") && page(5).contains("as JSON"), "deeper objects are JSON");
}

#[test]
fn what_a_schema_says_is_text() {
    let hostile = "<script>alert(1)</script>\u{202e}";
    let asked = fields(json!({"type": "object", "properties": {
        hostile: {"type": "string", "title": hostile, "description": hostile, "default": hostile},
        "choice": {"enum": [hostile]}, "json": {"title": hostile, "type": "object"},
    }}));
    let page = inputs(&asked, "f", &pairs("f.json=</textarea><script>"), &[]).into_string();
    assert!(!page.contains("<script") && page.contains("\\u{202e}"), "{page}");
}
