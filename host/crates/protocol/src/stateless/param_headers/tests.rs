use super::*;

fn found(schema: &str) -> Result<Vec<ParamHeader>, String> {
    param_headers(&RawJson::parse(schema.to_owned()).expect("test JSON"))
}

fn header(name: &str, path: &[&str], kind: ParamKind) -> ParamHeader {
    ParamHeader { name: name.into(), path: path.iter().map(|name| (*name).into()).collect(), kind }
}

/// 26XH-1: at the top and deeper, only through `properties`.
#[test]
fn annotations_that_properties_lead_to_are_found() {
    let schema = r#"{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "plain":{"type":"string"},
        "where":{"type":"object","properties":{
            "zone":{"type":"integer","x-mcp-header":"Zone"},
            "deep":{"properties":{"on":{"type":"boolean","x-mcp-header":"On!"}}}}}}}"#;
    assert_eq!(
        found(schema),
        Ok(vec![
            header("Region", &["region"], ParamKind::String),
            header("On!", &["where", "deep", "on"], ParamKind::Boolean),
            header("Zone", &["where", "zone"], ParamKind::Integer),
        ])
    );
    assert_eq!(found(r#"{"type":"object","properties":{}}"#), Ok(Vec::new()));
    let escaped = r#"{"properties":{"a":{"type":"string","x-mcp-he\u0061der":"A"}}}"#;
    assert_eq!(found(escaped), Ok(vec![header("A", &["a"], ParamKind::String)]));
}

/// 26XH-1: a property of that name, and data that looks like an annotation, are not annotations.
#[test]
fn what_only_looks_like_an_annotation_is_none() {
    let schemas = r#"{"properties":{"x-mcp-header":{"type":"string"}}} {"description":"x-mcp-header"}
                     {"properties":{"a":{"type":"object","default":{"x-mcp-header":"A"}}}}
                     {"properties":{"a":{"const":{"x-mcp-header":"A"},"enum":[{"x-mcp-header":"A"}]}}}
                     {"properties":{"a":{"examples":[{"x-mcp-header":"B"}]}}}
                     {"$defs":{"x-mcp-header":{"type":"string"}}}"#;
    for schema in schemas.split_whitespace() {
        assert_eq!(found(schema), Ok(Vec::new()), "{schema}");
    }
}

/// 26XH-1: the name, the type and the place, each refused with the reason.
#[test]
fn annotations_that_are_not_allowed_are_refused() {
    let property = |text: &str| format!(r#"{{"properties":{{"a":{{{text}}}}}}}"#);
    for name in ["\"\"", "\"a b\"", "\"a:b\"", "\"é\"", "\"a\\nb\"", "5", "null", "true", "[]", "{}"] {
        let error = found(&property(&format!(r#""type":"string","x-mcp-header":{name}"#))).expect_err(name);
        assert!(error.contains("not the name of a header"), "{name}: {error}");
    }
    let kinds = r##""type":"number" "type":"object" "type":"array" "type":"null" "type":["string","null"]
                    "$ref":"#/$defs/a" "title":"untyped""##;
    for kind in kinds.split_whitespace() {
        let error = found(&property(&format!(r#"{kind},"x-mcp-header":"A""#))).expect_err(kind);
        assert!(error.contains("only a string"), "{kind}: {error}");
    }
    let one = r#"{"type":"string","x-mcp-header":"A"}"#;
    let inside = format!(r#"{{"properties":{{"b":{one}}}}}"#);
    let schemas = "additionalItems additionalProperties allOf anyOf contains contentSchema else if items not oneOf \
                   prefixItems propertyNames then unevaluatedItems unevaluatedProperties";
    let schemas = schemas
        .split(' ')
        .flat_map(|keyword| [format!(r#""{keyword}":{one}"#), format!(r#""{keyword}":[true,{inside}]"#)]);
    let named = "$defs definitions dependencies dependentSchemas patternProperties".split(' ');
    let named = named.map(|keyword| format!(r#""{keyword}":{{"a":{inside}}}"#));
    let others = [
        format!(r#""properties":{{"c":{{"anyOf":[{one}]}}}}"#),
        r#""type":"object","x-mcp-header":"A""#.to_owned(),
    ];
    for place in schemas.chain(named).chain(others) {
        let error = found(&format!("{{{place}}}")).expect_err(&place);
        assert!(error.contains("`properties` alone"), "{place}: {error}");
    }
    let twice = r#"{"properties":{"a":{"type":"string","x-mcp-header":"Region"},
        "b":{"type":"object","properties":{"c":{"type":"string","x-mcp-header":"REGION"}}}}}"#;
    assert!(found(twice).expect_err("twice").contains("twice"));
    let deep = format!("{}1{}", r#"{"x-mcp-header":"#.repeat(100_000), "}".repeat(100_000));
    assert!(param_headers(&RawJson::trusted(deep)).is_err(), "too deep to be read");
}

fn check(kind: ParamKind, argument: &str, value: Option<&str>) -> bool {
    let arguments = RawJson::trusted(format!(r#"{{"other":1,"a":{argument}}}"#));
    let result = header("A", &["a"], kind).check(&arguments, value);
    if let Err(error) = &result {
        assert_eq!(error.code, -32020, "{argument} {value:?}: {error}");
    }
    result.is_ok()
}

/// 26XH-2, 26H-5: the header agrees with the argument, by the rules of its type.
#[test]
fn a_header_says_what_the_argument_says() {
    use ParamKind::{Boolean, Integer, String};
    for (kind, argument, same, others) in [
        (String, r#""us-west""#, "us-west|\t us-west ", "us-east|US-WEST"),
        (String, r#""Hello""#, "=?base64?SGVsbG8=?=", "=?base64?SGVsbG8?=|=?BASE64?SGVsbG8=?="),
        (String, r#""=?base64?SGVsbG8=""#, "=?base64?SGVsbG8=", "=?base64?SGVs!!!bG8=?="),
        (String, r#""\u00e9""#, "=?base64?w6k=?=", "e"),
        (String, r#""""#, "|=?base64??=", "x"),
        (String, r#"" a ""#, "=?base64?IGEg?=", "a"),
        (String, r#""42""#, "42", "42.0"),
        (Integer, "42", "42", "-42|forty-two|+42|042||4 2"),
        (Integer, "4.2e1", "42", "4"),
        (Integer, "0", "-0", "1"),
        (Boolean, "true", "true", "false|True|1"),
        (Boolean, "false", "false", "true"),
    ] {
        for (values, agrees) in [(same, true), (others, false)] {
            for value in values.split('|') {
                assert_eq!(check(kind, argument, Some(value)), agrees, "{argument} {value}");
            }
        }
    }
    assert!(!check(String, r#""\ud800""#, Some("\u{fffd}")));
}

/// 26XH-2: an argument needs its header, and without an argument there is none.
#[test]
fn a_header_is_there_if_and_only_if_the_argument_is() {
    use ParamKind::{Boolean, Integer, String};
    for (kind, argument) in [(String, r#""x""#), (Integer, "0"), (Boolean, "false")] {
        assert!(!check(kind, argument, None), "{argument}");
    }
    assert!(check(String, "null", None));
    assert!(!check(String, "null", Some("null")) && !check(String, "null", Some("")));
    // No header could express it; the schema refuses it.
    assert!(check(String, "{}", None) && check(String, "[1]", Some("x")));
    let deep = header("A", &["a", "b"], String);
    for without in r#"{} {"a":null} {"a":"b"} {"a":[]} {"a":{"c":1}} {"a":{"b":null}}"#.split(' ') {
        let arguments = RawJson::trusted(without);
        assert_eq!(deep.check(&arguments, None), Ok(()), "{without}");
        assert!(deep.check(&arguments, Some("x")).is_err(), "{without}");
    }
    assert_eq!(deep.check(&RawJson::trusted(r#"{"a":{"b":"x"}}"#), Some("x")), Ok(()));
}

/// 26XH-2: it is unknown which of two a tool would see, so neither counts.
#[test]
fn an_argument_that_is_there_twice_agrees_with_no_header() {
    let one = header("A", &["a"], ParamKind::String);
    for value in [Some("x"), Some("y"), None] {
        let arguments = RawJson::trusted(r#"{"a":"x","\u0061":"y"}"#);
        assert_eq!(one.check(&arguments, value).expect_err("twice").code, -32020, "{value:?}");
    }
}

proptest::proptest! {
    /// 26XH-2: numbers are compared by their value, whatever their size.
    #[test]
    fn numbers_are_compared_by_value(number in proptest::prelude::any::<i128>(), zeros in 0_usize..6) {
        let exact = number.to_string();
        let padded = format!("{exact}.{}", "0".repeat(zeros + 1));
        let scaled = format!("{exact}{}e-{zeros}", "0".repeat(zeros));
        proptest::prop_assert!(check(ParamKind::Integer, &exact, Some(&padded)));
        proptest::prop_assert!(check(ParamKind::Integer, &scaled, Some(&exact)));
        let next = number.wrapping_add(1).to_string();
        proptest::prop_assert!(!check(ParamKind::Integer, &exact, Some(&next)));
    }
}
