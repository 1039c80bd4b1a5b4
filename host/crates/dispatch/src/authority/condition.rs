//! Conditions on claims and arguments: a JSON pointer (RFC 6901) and a pattern for
//! the whole value there.

use regex::Regex;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use toolyard_protocol::RawJson;

/// What is known of the arguments of a call.
#[derive(Debug)]
pub(super) enum Arguments {
    /// Nothing: the question is whether there could be some.
    Unknown,
    /// These.
    Given(Value),
    /// They say two things at once, such as a name twice: the guest may read them
    /// otherwise than we do.
    Ambiguous,
}

impl Arguments {
    pub fn given(arguments: &RawJson) -> Self {
        let mut reading = serde_json::Deserializer::from_str(arguments.as_str());
        match Unambiguous.deserialize(&mut reading).and_then(|value| reading.end().map(|()| value)) {
            Ok(value) => Self::Given(value),
            Err(_) => Self::Ambiguous,
        }
    }
}

/// A pointer and a pattern.
#[derive(Debug)]
pub(super) struct Condition {
    pub pointer: String,
    pattern: Regex,
}

impl Condition {
    pub fn new(pointer: String, pattern: &str) -> Result<Self, String> {
        if !is_pointer(&pointer) {
            return Err(format!("`{pointer}` is not a JSON pointer (RFC 6901), such as `/path`"));
        }
        // By itself first: what closes our group is no pattern.
        let compiled = Regex::new(pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")));
        let pattern = compiled.map_err(|error| format!("`{pointer}`: {error}"))?;
        Ok(Self { pointer, pattern })
    }

    /// For a rule that allows: there is something, and all of it matches.
    pub fn every(&self, arguments: &Arguments) -> bool {
        match arguments {
            Arguments::Unknown => true,
            Arguments::Ambiguous => false,
            Arguments::Given(value) => {
                let values = value.pointer(&self.pointer).map(scalars).unwrap_or_default();
                !values.is_empty() && values.iter().all(|value| self.fits(value))
            }
        }
    }

    /// For a rule that denies: any of it matches.
    pub fn any(&self, arguments: &Arguments) -> bool {
        match arguments {
            Arguments::Unknown => false,
            Arguments::Ambiguous => true,
            Arguments::Given(value) => {
                let values = value.pointer(&self.pointer).map(scalars).unwrap_or_default();
                values.iter().any(|value| self.fits(value))
            }
        }
    }

    /// Of claims: the value, or one of an array of values.
    pub fn holds_of(&self, claims: &Value) -> bool {
        match claims.pointer(&self.pointer) {
            Some(Value::Array(values)) => values.iter().any(|value| self.fits(value)),
            Some(value) => self.fits(value),
            None => false,
        }
    }

    /// A text as it is, a number or truth as JSON writes it.
    fn fits(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.pattern.is_match(text),
            Value::Null | Value::Array(_) | Value::Object(_) => false,
            other => self.pattern.is_match(&other.to_string()),
        }
    }
}

/// Texts, numbers and truths, at any depth.
fn scalars(value: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(values) => rest.extend(values),
            Value::Object(members) => rest.extend(members.values()),
            // Written or left out, it is nothing.
            Value::Null => {}
            scalar => found.push(scalar),
        }
    }
    found
}

fn is_pointer(text: &str) -> bool {
    let mut escapes = text.split('~').skip(1);
    (text.is_empty() || text.starts_with('/')) && escapes.all(|rest| rest.starts_with(['0', '1']))
}

/// Reads JSON in which no object has a name twice.
struct Unambiguous;

impl<'de> DeserializeSeed<'de> for Unambiguous {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reading: D) -> Result<Value, D::Error> {
        reading.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unambiguous {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated names")
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

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(value) = values.next_element_seed(Self)? {
            array.push(value);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Self)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name stands twice in one object"));
            }
        }
        Ok(Value::Object(object))
    }
}
