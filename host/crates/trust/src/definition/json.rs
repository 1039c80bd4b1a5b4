//! JSON in the lock file, which people review.

use crate::escape::is_hidden;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt::{self, Write as _};

/// Reads a JSON text and refuses a key that occurs twice: reviewers and programs could read different values.
pub(crate) fn strict(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Strict>(text).map(|strict| strict.0)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((key, Strict(value))) = map.next_entry::<String, _>()? {
            if members.insert(key, value).is_some() {
                return Err(de::Error::custom("a key occurs twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

/// The indented text of a value, with sorted keys, whichever map serde_json is built with. Hidden characters are
/// escaped, and so are apostrophes in a row, which would end a literal of TOML.
pub(crate) fn pretty(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    for char in text.chars() {
        // Both occur within strings only, but for the line feeds of the indentation.
        if (char == '\'' && before == Some('\'')) || (char != '\n' && is_hidden(char)) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(char);
        }
        before = Some(char);
    }
    out
}
