//! Why the content of an answer does not fit its form, in words for the person or model that answers.

use super::{Field, Form, quoted};
use crate::raw::RawJson;
use serde_json::{Map, Value};

/// The longest name or value that is shown whole, in characters.
const MAX_CHARS: usize = 200;

/// Why this content does not fit the form of these params of `elicitation/create`; `None` if it does.
/// Looks at names, types, choices and bounds, and not at formats and patterns.
#[must_use]
pub fn misfit(params: &RawJson, content: &RawJson) -> Option<String> {
    let Ok(form) = Form::read(params) else { return None };
    let Ok(content) = content.decode::<Map<String, Value>>() else {
        return Some("`content` must be an object".to_owned());
    };
    let is_known = |name: &&String| form.fields.iter().any(|field| field.name == **name);
    if let Some(other) = content.keys().find(|name| !is_known(name)) {
        return Some(format!("the form has no field {}", quoted(other, MAX_CHARS)));
    }
    form.fields.iter().find_map(|field| {
        let name = quoted(&field.name, MAX_CHARS);
        match content.get(&field.name) {
            None if field.required => Some(format!("the field {name} is missing")),
            None => None,
            Some(value) => fault(field, value).map(|fault| format!("the field {name} {fault}")),
        }
    })
}

fn fault(field: &Field, value: &Value) -> Option<String> {
    let bound = |name: &str| field.schema[name].as_f64();
    let within = |size: f64, least: &str, most: &str, what: &str| match (bound(least), bound(most)) {
        (Some(bound), _) if size < bound => Some(format!("must have at least {bound}{what}")),
        (_, Some(bound)) if size > bound => Some(format!("must have at most {bound}{what}")),
        _ => None,
    };
    let is_choice = |text: &str| field.choices().is_none_or(|choices| choices.iter().any(|one| one == text));
    match (field.type_name()?, value) {
        ("boolean", Value::Bool(_)) => None,
        ("boolean", _) => Some("must be true or false".to_owned()),
        ("integer", Value::Number(number)) if number.as_f64().is_none_or(|number| number.fract() != 0.0) => {
            Some("must be a whole number".to_owned())
        }
        ("integer" | "number", Value::Number(number)) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            match (bound("minimum"), bound("maximum")) {
                (Some(least), _) if number < least => Some(format!("must be at least {least}")),
                (_, Some(most)) if number > most => Some(format!("must be at most {most}")),
                _ => None,
            }
        }
        ("integer" | "number", _) => Some("must be a number".to_owned()),
        ("string", Value::String(text)) if is_choice(text) => {
            within(text.chars().count() as f64, "minLength", "maxLength", " characters")
        }
        ("string", Value::String(text)) => Some(format!("has no choice {}", quoted(text, MAX_CHARS))),
        ("string", _) => Some("must be a text".to_owned()),
        ("array", Value::Array(values)) => {
            let other = values.iter().find(|value| !value.as_str().is_some_and(is_choice));
            match other {
                Some(other) => Some(format!("has no choice {}", quoted(&other.to_string(), MAX_CHARS))),
                None => within(values.len() as f64, "minItems", "maxItems", " choices"),
            }
        }
        ("array", _) => Some("must be a list of choices".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(content: Value) -> Option<String> {
        let params = json!({"message": "Deploy?", "requestedSchema": {
            "type": "object",
            "properties": {
                "ok": {"type": "boolean"},
                "replicas": {"type": "integer", "minimum": 1, "maximum": 9},
                "zone": {"type": "string", "enum": ["a", "b"]},
                "note": {"type": "string", "minLength": 2, "maxLength": 4},
                "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 1},
            },
            "required": ["ok"],
        }});
        misfit(&RawJson::of(&params), &RawJson::of(&content))
    }

    #[test]
    fn an_answer_that_does_not_fit_is_told_what_is_wrong() {
        let whole = json!({"ok": true, "replicas": 9, "zone": "b", "note": "fine", "tags": ["y"]});
        for content in [json!({"ok": false}), whole] {
            assert_eq!(fault(content.clone()), None, "{content}");
        }
        for (content, expected) in [
            (json!([]), "`content` must be an object"),
            (json!({}), "the field \"ok\" is missing"),
            (json!({"ok": "yes"}), "the field \"ok\" must be true or false"),
            (json!({"ok": true, "extra": 1}), "the form has no field \"extra\""),
            (json!({"ok": true, "replicas": 1.5}), "the field \"replicas\" must be a whole number"),
            (json!({"ok": true, "replicas": 10}), "the field \"replicas\" must be at most 9"),
            (json!({"ok": true, "replicas": "1"}), "the field \"replicas\" must be a number"),
            (json!({"ok": true, "zone": "c"}), "the field \"zone\" has no choice \"c\""),
            (json!({"ok": true, "note": "x"}), "the field \"note\" must have at least 2 characters"),
            (json!({"ok": true, "tags": ["x", "y"]}), "the field \"tags\" must have at most 1 choices"),
            (json!({"ok": true, "tags": [1]}), "the field \"tags\" has no choice \"1\""),
        ] {
            assert_eq!(fault(content.clone()).as_deref(), Some(expected), "{content}");
        }
    }
}
