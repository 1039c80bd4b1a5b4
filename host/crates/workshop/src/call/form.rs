//! The form of an `elicitation/create`, read for a terminal (E-2, E-5).

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;
use toolyard_dispatch::RawJson;

/// A form, or a page to open.
pub struct Form {
    /// The message to the person.
    pub message: String,
    /// The page, in URL mode.
    pub url: Option<String>,
    /// The fields, in the order of the form.
    pub fields: Vec<Field>,
}

/// One field.
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Whether it must be given.
    pub required: bool,
    /// The value of an empty line.
    pub default: Option<Value>,
    schema: Value,
}

#[derive(Deserialize)]
struct Wire {
    message: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default, rename = "requestedSchema")]
    schema: Option<Schema>,
}

#[derive(Deserialize)]
struct Schema {
    #[serde(default)]
    properties: InOrder,
    #[serde(default)]
    required: Vec<String>,
}

/// The members of an object as they come.
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
    pub fn read(params: &RawJson) -> Result<Self, serde_json::Error> {
        let wire: Wire = params.decode()?;
        let Schema { properties, required } =
            wire.schema.unwrap_or(Schema { properties: InOrder::default(), required: Vec::new() });
        let field = |(name, schema): (String, Value)| Field {
            title: schema["title"].as_str().unwrap_or(&name).to_owned(),
            required: required.contains(&name),
            default: schema.get("default").cloned(),
            name,
            schema,
        };
        Ok(Self {
            message: wire.message,
            url: wire.url,
            fields: properties.0.into_iter().map(field).collect(),
        })
    }
}

impl Field {
    /// The values that may be entered, in words.
    pub fn kind(&self) -> String {
        match (self.choices(), self.schema["type"].as_str()) {
            (Some(choices), Some("array")) => format!("some of {}, with commas between", choices.join(", ")),
            (Some(choices), _) => choices.join(", "),
            (None, Some("boolean")) => "yes or no".to_owned(),
            (None, Some(other)) => other.to_owned(),
            (None, None) => "text".to_owned(),
        }
    }

    fn choices(&self) -> Option<Vec<String>> {
        let schema = if self.schema["type"] == "array" { &self.schema["items"] } else { &self.schema };
        let texts = |list: &Value, of: fn(&Value) -> Option<&str>| {
            let list = list.as_array()?;
            Some(list.iter().filter_map(of).map(str::to_owned).collect())
        };
        texts(&schema["enum"], Value::as_str)
            .or_else(|| texts(&schema["oneOf"], |choice| choice["const"].as_str()))
            .or_else(|| texts(&schema["anyOf"], |choice| choice["const"].as_str()))
    }

    /// The value of what was entered; none where the field is left out.
    pub fn value(&self, text: &str) -> Result<Option<Value>, String> {
        if text.is_empty() {
            return match (&self.default, self.required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err("this one is needed".to_owned()),
            };
        }
        let is_choice =
            |text: &str| self.choices().is_none_or(|choices| choices.iter().any(|known| known == text));
        match self.schema["type"].as_str() {
            Some("boolean") => match text.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Some(true.into())),
                "n" | "no" | "false" => Ok(Some(false.into())),
                _ => Err("yes or no".to_owned()),
            },
            Some("integer") => {
                text.parse::<i64>().map(|number| Some(number.into())).map_err(|_| "a whole number".to_owned())
            }
            Some("number") => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number.into())),
                _ => Err("a number".to_owned()),
            },
            Some("array") => {
                let chosen: Vec<&str> =
                    text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect();
                match chosen.iter().find(|text| !is_choice(text)) {
                    Some(other) => Err(format!("`{other}` is not among them")),
                    None => Ok(Some(chosen.into())),
                }
            }
            _ if !is_choice(text) => Err(format!("one of {}", self.kind())),
            _ => {
                let length = text.chars().count() as u64;
                let bound = |name: &str| self.schema[name].as_u64();
                match (bound("minLength"), bound("maxLength")) {
                    (Some(least), _) if length < least => Err(format!("at least {least} characters")),
                    (_, Some(most)) if length > most => Err(format!("at most {most} characters")),
                    _ => Ok(Some(text.into())),
                }
            }
        }
    }
}
