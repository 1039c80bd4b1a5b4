//! Forms: flat objects of primitive fields, and their answers (E-2, E-3).

mod describe;
mod misfit;

pub use describe::{describe_form, example_content, one_line, quoted};
pub use misfit::misfit;

use crate::raw::RawJson;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;

/// The most fields of one form.
const MAX_FIELDS: usize = 100;

/// A form, or a page to open, as `elicitation/create` requests it (E-2, E-5).
#[derive(Debug, Clone)]
pub struct Form {
    /// The message for the person.
    pub message: String,
    /// The page, in URL mode.
    pub url: Option<String>,
    /// The fields, in the order of the form.
    pub fields: Vec<Field>,
}

/// A field of a form.
#[derive(Debug, Clone)]
pub struct Field {
    /// The name of the field.
    pub name: String,
    /// The name of the field for people; the same as `name` if the form gives no other.
    pub title: String,
    /// Whether it is required.
    pub required: bool,
    /// The value that the form suggests.
    pub default: Option<Value>,
    /// The JSON Schema of the field.
    pub schema: Value,
}

#[derive(Deserialize)]
struct FormWire {
    message: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default, rename = "requestedSchema")]
    schema: Option<FormSchema>,
}

#[derive(Default, Deserialize)]
struct FormSchema {
    #[serde(default)]
    properties: InOrder,
    #[serde(default)]
    required: Vec<String>,
}

impl FormSchema {
    fn fields(self) -> Vec<Field> {
        let Self { properties, required } = self;
        let field = |(name, schema): (String, Value)| Field {
            title: schema["title"].as_str().unwrap_or(&name).to_owned(),
            required: required.contains(&name),
            default: schema.get("default").cloned(),
            name,
            schema,
        };
        properties.0.into_iter().map(field).collect()
    }
}

/// The members of an object in the order of the text.
#[derive(Default)]
struct InOrder(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = InOrder;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InOrder, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(InOrder(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl Form {
    /// Reads the params of `elicitation/create`.
    ///
    /// # Errors
    /// That of `serde_json`, if they do not have the shape of a form or a page.
    pub fn read(params: &RawJson) -> Result<Self, serde_json::Error> {
        let FormWire { message, url, schema } = params.decode()?;
        Ok(Self { message, url, fields: schema.unwrap_or_default().fields() })
    }
}

/// Keywords of JSON Schema by which the properties alone do not describe an object.
const COMBINATIONS: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"];

impl Form {
    /// The fields of a JSON Schema that describes an object by its properties, such as the input schema of a tool, in
    /// the order of the text. `None` for any other schema.
    #[must_use]
    pub fn fields_of(schema: &RawJson) -> Option<Vec<Field>> {
        let described: Value = schema.decode().ok()?;
        if !is_object_of_properties(&described) {
            return None;
        }
        Some(schema.decode::<FormSchema>().ok()?.fields())
    }
}

fn is_object_of_properties(schema: &Value) -> bool {
    let has_fields = schema["properties"].as_object().is_some_and(|fields| fields.len() <= MAX_FIELDS);
    schema["type"] == "object" && has_fields && COMBINATIONS.iter().all(|key| schema.get(key).is_none())
}

impl Field {
    /// The fields of an object within an object, by name. `None` if its properties do not describe it.
    #[must_use]
    pub fn members(&self) -> Option<Vec<Self>> {
        let is_described = is_object_of_properties(&self.schema);
        is_described.then(|| FormSchema::deserialize(&self.schema).ok().map(FormSchema::fields)).flatten()
    }

    /// The JSON type of its values.
    #[must_use]
    pub fn type_name(&self) -> Option<&str> {
        self.schema["type"].as_str()
    }

    /// The texts to choose from. `None` if any text may be entered.
    #[must_use]
    pub fn choices(&self) -> Option<Vec<String>> {
        let schema = if self.schema["type"] == "array" { &self.schema["items"] } else { &self.schema };
        let texts = |list: &Value, of: fn(&Value) -> Option<&str>| {
            let list = list.as_array()?;
            Some(list.iter().filter_map(of).map(str::to_owned).collect())
        };
        texts(&schema["enum"], Value::as_str)
            .or_else(|| texts(&schema["oneOf"], |choice| choice["const"].as_str()))
            .or_else(|| texts(&schema["anyOf"], |choice| choice["const"].as_str()))
    }
}

/// Checks the params of `elicitation/create` in form mode.
pub(super) fn check(params: &Map<String, Value>) -> Result<(), String> {
    if !params.get("message").is_some_and(Value::is_string) {
        return Err("`message` must be a string".to_owned());
    }
    let schema = params.get("requestedSchema").and_then(Value::as_object);
    let schema = schema.ok_or("`requestedSchema` must be an object")?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("`requestedSchema.type` must be \"object\"".to_owned());
    }
    let known = |name: &str| matches!(name, "$schema" | "type" | "properties" | "required");
    if let Some(other) = schema.keys().find(|name| !known(name)) {
        return Err(format!("`requestedSchema` has `{other}`; a form has only properties and required"));
    }
    let fields = schema.get("properties").and_then(Value::as_object);
    let fields = fields.ok_or("`requestedSchema.properties` must be an object")?;
    if fields.len() > MAX_FIELDS {
        return Err(format!("a form has at most {MAX_FIELDS} fields"));
    }
    for (name, field) in fields {
        check_field(field).map_err(|what| format!("the field `{name}` {what}"))?;
        if [Some(name.as_str()), field["title"].as_str()].into_iter().flatten().any(is_secret) {
            return Err(format!(
                "the field `{name}` asks for a secret; send the user to a page (\"mode\": \"url\")"
            ));
        }
    }
    match schema.get("required") {
        None => Ok(()),
        Some(Value::Array(required)) => {
            let is_field = |name: &Value| name.as_str().is_some_and(|name| fields.contains_key(name));
            match required.iter().find(|name| !is_field(name)) {
                Some(name) => Err(format!("`required` names {name}, which is no field of the form")),
                None => Ok(()),
            }
        }
        Some(_) => Err("`requestedSchema.required` must be an array".to_owned()),
    }
}

/// E-4: whether the name of a field stands for something that must not pass through a client and a
/// model. Only the name can be judged.
fn is_secret(name: &str) -> bool {
    const SECRETS: [&str; 10] = [
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "secret",
        "apikey",
        "accesstoken",
        "privatekey",
        "creditcard",
        "cardnumber",
    ];
    let bare: String =
        name.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    SECRETS.iter().any(|secret| bare.contains(secret))
}

fn check_field(field: &Value) -> Result<(), String> {
    let Some(members) = field.as_object() else { return Err("must be an object".to_owned()) };
    let known: &[&str] = match field["type"].as_str() {
        Some("string") => {
            if let Some(format) = members.get("format") {
                let formats = ["email", "uri", "date", "date-time"];
                if !format.as_str().is_some_and(|format| formats.contains(&format)) {
                    return Err(format!("has the format {format}; a form knows {}", formats.join(", ")));
                }
            }
            if let Some(choices) = members.get("enum") {
                strings(choices).map_err(|()| "must have an `enum` of strings")?;
            }
            if let Some(choices) = members.get("oneOf") {
                titled(choices).map_err(|()| "must have a `oneOf` of {const, title}")?;
            }
            &["minLength", "maxLength", "format", "pattern", "enum", "enumNames", "oneOf"]
        }
        Some("number" | "integer") => &["minimum", "maximum"],
        Some("boolean") => &[],
        Some("array") => {
            let items = &field["items"];
            if strings(&items["enum"]).is_err() && titled(&items["anyOf"]).is_err() {
                return Err("is an array, which must be a choice: `items.enum` or `items.anyOf`".to_owned());
            }
            &["items", "minItems", "maxItems"]
        }
        _ => return Err("must be a string, number, integer, boolean, or a choice of several".to_owned()),
    };
    let common = ["type", "title", "description", "default"];
    match members.keys().find(|name| !common.contains(&name.as_str()) && !known.contains(&name.as_str())) {
        Some(other) => Err(format!("has `{other}`, which forms do not know")),
        None => Ok(()),
    }
}

fn strings(choices: &Value) -> Result<(), ()> {
    let choices = choices.as_array().ok_or(())?;
    if choices.iter().all(Value::is_string) { Ok(()) } else { Err(()) }
}

fn titled(choices: &Value) -> Result<(), ()> {
    let choices = choices.as_array().ok_or(())?;
    let fits = |choice: &Value| choice["const"].is_string() && choice["title"].is_string();
    if choices.iter().all(fits) { Ok(()) } else { Err(()) }
}

/// Checks the form of an `ElicitResult` (E-3). A caller with a JSON Schema library checks its
/// content against the schema of the question.
pub(super) fn check_answer(answer: &Value) -> Result<(), String> {
    if !matches!(answer["action"].as_str(), Some("accept" | "decline" | "cancel")) {
        return Err("`action` must be accept, decline or cancel".to_owned());
    }
    let is_text_list = |value: &Value| strings(value).is_ok();
    let is_plain = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    match &answer["content"] {
        Value::Null => Ok(()),
        Value::Object(content) if content.values().all(|value| is_plain(value) || is_text_list(value)) => {
            Ok(())
        }
        _ => Err("`content` must be an object of strings, numbers, booleans and lists of strings".to_owned()),
    }
}
