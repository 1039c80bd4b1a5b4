//! Arguments that a rule or a person decides about. Their readers must understand them alike, so what some reader takes
//! for something else is refused: names that are equal without regard to case, and texts with a NUL. Numbers and names
//! that occur twice are refused for every tool, when a call is decoded.

use super::condition::folded;
use super::reading::read;
use serde_json::Value;
use std::collections::HashMap;
use toolyard_protocol::RawJson;
use toolyard_task::ArgumentValue;

/// The reason why these arguments are ambiguous for a tool with this schema; completes "they have". Two names that the schema
/// lists may be equal without regard to case.
pub(crate) fn ambiguity(arguments: &RawJson, schema: &RawJson) -> Option<String> {
    match read(arguments.as_str()) {
        Some(value) => find(&value, &schema.decode().unwrap_or_default()),
        None => Some("parts that can be read in two ways".to_owned()),
    }
}

fn find(value: &ArgumentValue<'_>, schema: &Value) -> Option<String> {
    let nul = || Some("a text with U+0000".to_owned());
    match value {
        ArgumentValue::Text(text) if text.contains('\0') => nul(),
        ArgumentValue::List(items) => items.iter().find_map(|item| find(item, &schema["items"])),
        ArgumentValue::Object(members) => {
            let listed = &schema["properties"];
            let mut names = HashMap::with_capacity(members.len());
            members.iter().find_map(|(name, value)| {
                if name.contains('\0') {
                    return nul();
                }
                let is_listed = |name: &str| !listed[name].is_null();
                match names.insert(folded(name), name) {
                    Some(other) if !(is_listed(name) && is_listed(other)) => {
                        Some(format!("the names {other:?} and {name:?}, which are equal but for their case"))
                    }
                    _ => find(value, &listed[name.as_ref()]),
                }
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_some_reader_takes_for_something_else_is_refused() {
        let schema = RawJson::of(&json!({"properties": {
            "a": {}, "A": true, "in": {"properties": {"k": {}}}, "list": {"items": {"properties": {"x": {}, "X": {}}}},
        }}));
        for (arguments, what) in [
            (r#"{"env":"production","Env":"test"}"#, "\"env\" and \"Env\""),
            (r#"{"in":{"k":1,"K":2}}"#, "\"k\" and \"K\""),
            ("{\"key\":1,\"\u{212a}ey\":2}", "case"),
            (r#"{"in":{"t":"x\u0000y"}}"#, "U+0000"),
            (r#"{"a\u0000b":1}"#, "U+0000"),
            (r#"{"b":1,"b":2}"#, "two ways"),
        ] {
            let found = ambiguity(&RawJson::trusted(arguments), &schema).expect(arguments);
            assert!(found.contains(what), "{arguments}: {found}");
        }
        for arguments in
            [r#"{"a":1,"A":9007199254740993}"#, r#"{"list":[{"x":1,"X":2},{"x":1}]}"#, r#"{"b":{"a":1}}"#]
        {
            assert_eq!(ambiguity(&RawJson::trusted(arguments), &schema), None, "{arguments}");
        }
    }
}
