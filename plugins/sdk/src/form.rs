//! Forms (MCP elicitation) from Rust types: a flat object of texts, numbers, booleans and choices. Other
//! types cannot be shown to a user, so asking with them fails before the client receives the question.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::schema;

/// The only field of a form for a type that is a field itself, such as `String`.
const FIELD: &str = "answer";

/// The schema of the form.
pub(crate) fn of<T: JsonSchema>() -> Result<Value, String> {
    flat(schema::input::<T>())
}

/// The schema of a form with a field of type `T` for each name.
pub(crate) fn each<T: JsonSchema>(names: &[String]) -> Result<Value, String> {
    let mut fields = Map::new();
    for name in names {
        fields.insert(name.clone(), field(name, schema::input::<T>())?);
    }
    Ok(json!({ "type": "object", "properties": fields, "required": names }))
}

/// Parses the content that the user filled in.
pub(crate) fn read<T: DeserializeOwned + JsonSchema>(content: Value) -> Result<T, String> {
    let value = match (content, is_object(&schema::input::<T>())) {
        (Value::Object(mut content), false) => content.remove(FIELD).unwrap_or_default(),
        // An accepted form without fields may come back without content.
        (Value::Null, true) => json!({}),
        (content, _) => content,
    };
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn is_object(schema: &Value) -> bool {
    schema["type"] == "object"
}

fn flat(mut schema: Value) -> Result<Value, String> {
    if !is_object(&schema) {
        return Ok(
            json!({ "type": "object", "properties": { FIELD: field(FIELD, schema)? }, "required": [FIELD] }),
        );
    }
    let Value::Object(fields) = schema["properties"].take() else {
        return Ok(json!({ "type": "object", "properties": {} }));
    };
    let mut shown = Map::new();
    for (name, one) in fields {
        let one = field(&name, one)?;
        shown.insert(name, one);
    }
    let required = match schema["required"].take() {
        Value::Array(required) => required,
        _ => Vec::new(),
    };
    Ok(json!({ "type": "object", "properties": shown, "required": required }))
}

/// A field, reduced to the keywords that forms know.
fn field(name: &str, schema: Value) -> Result<Value, String> {
    let Value::Object(mut members) = schema else { return Err(too_much(name)) };
    if let Some(choices) = choices(&members) {
        members.insert("type".to_owned(), "string".into());
        members.remove("enum");
        members.extend(choices);
    }
    let known: &[&str] = match members.get("type").and_then(Value::as_str) {
        Some("string") => &["minLength", "maxLength", "format", "pattern", "enum", "oneOf"],
        Some("integer" | "number") => &["minimum", "maximum"],
        Some("boolean") => &[],
        Some("array") => {
            let items = members.get("items").and_then(Value::as_object).and_then(choices);
            let mut items = items.ok_or_else(|| too_much(name))?;
            // In a multiple choice, the titled options are in an `anyOf`.
            if let Some(titled) = items.remove("oneOf") {
                items.insert("anyOf".to_owned(), titled);
            } else {
                items.insert("type".to_owned(), "string".into());
            }
            members.insert("items".to_owned(), Value::Object(items));
            &["items", "minItems", "maxItems"]
        }
        _ => return Err(too_much(name)),
    };
    let common = ["type", "title", "description", "default"];
    members.retain(|key, _| common.contains(&key.as_str()) || known.contains(&key.as_str()));
    if let Some(format) = members.get("format")
        && !["email", "uri", "date", "date-time"].iter().any(|known| format == known)
    {
        members.remove("format");
    }
    Ok(Value::Object(members))
}

/// The choices of an enum of unit variants: `enum`, or `oneOf` with titles if the variants have comments or
/// titles.
fn choices(schema: &Map<String, Value>) -> Option<Map<String, Value>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values
            .iter()
            .all(Value::is_string)
            .then(|| Map::from_iter([("enum".to_owned(), json!(values))]));
    }
    let mut titled = Vec::new();
    for variant in schema.get("oneOf")?.as_array()? {
        let consts = match (&variant["const"], &variant["enum"]) {
            (Value::String(name), _) => vec![name.as_str()],
            (_, Value::Array(names)) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
            _ => return None,
        };
        for name in consts {
            let title = [&variant["title"], &variant["description"]].into_iter().find_map(Value::as_str);
            titled.push(json!({ "const": name, "title": title.unwrap_or(name) }));
        }
    }
    Some(Map::from_iter([("oneOf".to_owned(), Value::Array(titled))]))
}

fn too_much(name: &str) -> String {
    format!(
        "its field `{name}` is not a text, number, boolean or choice; a form has no other fields and no nested forms"
    )
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Size {
        /// Fits a pocket.
        Small,
        Large,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    enum Day {
        Mon,
        Tue,
    }

    /// Not shown.
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Order {
        /// The customer.
        #[schemars(title = "Name", length(max = 40))]
        name: String,
        count: u8,
        size: Size,
        day: Option<Day>,
        #[serde(default)]
        days: Vec<Day>,
    }

    #[test]
    fn a_struct_is_a_form_of_its_fields() {
        let expected = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "title": "Name", "description": "The customer.", "maxLength": 40 },
                "count": { "type": "integer", "minimum": 0, "maximum": 255 },
                "size": {
                    "type": "string",
                    "oneOf": [
                        { "const": "large", "title": "large" },
                        { "const": "small", "title": "Fits a pocket." },
                    ],
                },
                "day": { "type": "string", "enum": ["Mon", "Tue"] },
                "days": { "type": "array", "items": { "type": "string", "enum": ["Mon", "Tue"] } },
            },
            "required": ["name", "count", "size"],
        });
        assert_eq!(of::<Order>(), Ok(expected));
        let filled = json!({ "name": "Ada", "count": 2, "size": "small", "days": ["Tue"] });
        let order = read::<Order>(filled).expect("it fits");
        let wanted =
            Order { name: "Ada".to_owned(), count: 2, size: Size::Small, day: None, days: vec![Day::Tue] };
        assert_eq!(order, wanted);
        assert!(read::<Order>(json!({ "name": "Ada" })).expect_err("more is needed").contains("count"));
    }

    #[test]
    fn one_value_is_a_form_of_one_field() {
        let form = of::<bool>().expect("a form");
        assert_eq!(form["properties"], json!({ "answer": { "type": "boolean" } }));
        assert_eq!(form["required"], json!(["answer"]));
        assert_eq!(read::<bool>(json!({ "answer": true })), Ok(true));
        assert_eq!(read::<Option<u8>>(json!({})), Ok(None));
        assert!(read::<u8>(json!({})).is_err() && read::<u8>(Value::Null).is_err());
        assert_eq!(read::<crate::NoArguments>(Value::Null), Ok(crate::NoArguments {}));
    }

    #[derive(Deserialize, JsonSchema)]
    struct Nested {
        #[expect(dead_code, reason = "its type is what counts")]
        inner: Order,
    }

    #[test]
    fn what_cannot_be_shown_is_refused_by_name() {
        for what in [of::<Nested>().expect_err("nested"), of::<NestedList>().expect_err("a list of forms")] {
            assert!(what.contains("`inner`"), "{what}");
        }
    }

    #[derive(Deserialize, JsonSchema)]
    struct NestedList {
        #[expect(dead_code, reason = "its type is what counts")]
        inner: Vec<Order>,
    }
}
