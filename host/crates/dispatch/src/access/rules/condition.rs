//! Conditions on claims and arguments: a JSON pointer (RFC 6901) and a pattern for
//! the whole value there.
//!
//! A condition judges the values that a guest may read, not the text that a client wrote.
//! Guests read JSON differently, so one argument may have several readings: a number may be
//! written in many ways and rounded, Go ignores the case of member names, and C ends a text
//! at its first NUL. A rule that allows wants every reading to match, one that denies any.

use super::{number, reading};
use regex::Regex;
use serde_json::Value;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use toolyard_protocol::RawJson;
use toolyard_task::ArgumentValue;

/// The most numbers that one decision compares. Each is compared in up to a hundred spellings on a
/// thread that serves clients, so any further number counts as ambiguous.
const MAX_NUMBERS: u32 = 20_000;

/// The arguments of a call, as far as they are known.
#[derive(Debug)]
pub(super) enum Arguments<'a> {
    /// Not known: the question is whether some arguments match.
    Unknown,
    /// Known.
    Given {
        /// As the guest reads them.
        value: ArgumentValue<'a>,
        /// Numbers that this decision may still compare.
        numbers: Cell<u32>,
    },
    /// Two readers may understand them differently, for example because a name occurs twice.
    Ambiguous,
}

impl<'a> Arguments<'a> {
    /// The arguments of a guest that reads the text itself.
    pub fn given(arguments: &'a RawJson) -> Self {
        reading::read(arguments.as_str()).map_or(Self::Ambiguous, Self::typed)
    }

    /// The arguments of a guest that gets values.
    pub fn typed(value: ArgumentValue<'a>) -> Self {
        Self::Given { value, numbers: Cell::new(MAX_NUMBERS) }
    }
}

/// Which of several readings and values must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    All,
    Any,
}

/// A pointer and a pattern.
#[derive(Debug)]
pub(super) struct Condition {
    pub pointer: String,
    /// The names and indices of the pointer, decoded.
    steps: Vec<String>,
    pattern: Regex,
}

impl Condition {
    pub fn new(pointer: String, pattern: &str) -> Result<Self, String> {
        if !is_pointer(&pointer) {
            return Err(format!("`{pointer}` is not a JSON pointer (RFC 6901), such as `/path`"));
        }
        // By itself first: text that closes our group is not a pattern.
        let compiled = Regex::new(pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")));
        let pattern = compiled.map_err(|error| format!("`{pointer}`: {error}"))?;
        let steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
        Ok(Self { steps: steps.collect(), pointer, pattern })
    }

    /// For a rule that allows: there is a value, and all values match.
    pub fn every(&self, arguments: &Arguments<'_>) -> bool {
        match arguments {
            Arguments::Unknown => true,
            Arguments::Ambiguous => false,
            Arguments::Given { value, numbers } => {
                let scalars = scalars(self.places(value));
                is_at(value, &self.steps)
                    && !scalars.is_empty()
                    && scalars.iter().all(|value| self.fits(value, Quantity::All, numbers).unwrap_or(false))
            }
        }
    }

    /// For a rule that denies: any value matches.
    pub fn any(&self, arguments: &Arguments<'_>) -> bool {
        match arguments {
            Arguments::Unknown => false,
            Arguments::Ambiguous => true,
            Arguments::Given { value, numbers } => scalars(self.places(value))
                .iter()
                .any(|value| self.fits(value, Quantity::Any, numbers).unwrap_or(true)),
        }
    }

    /// Of claims: the value, or one of an array of values.
    pub fn holds_of(&self, claims: &Value) -> bool {
        match claims.pointer(&self.pointer) {
            Some(Value::Array(values)) => values.iter().any(|value| self.fits_claim(value)),
            Some(value) => self.fits_claim(value),
            None => false,
        }
    }

    /// A string as it is, a number or boolean as JSON writes it.
    fn fits_claim(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.pattern.is_match(text),
            Value::Null | Value::Array(_) | Value::Object(_) => false,
            other => self.pattern.is_match(&other.to_string()),
        }
    }

    /// Whether the readings of one value match. `None` if too many numbers were compared.
    fn fits(&self, value: &Scalar<'_>, quantity: Quantity, numbers: &Cell<u32>) -> Option<bool> {
        let of = |texts: &[String]| match quantity {
            Quantity::All => texts.iter().all(|text| self.pattern.is_match(text)),
            Quantity::Any => texts.iter().any(|text| self.pattern.is_match(text)),
        };
        match value {
            Scalar::Bool(true) => Some(self.pattern.is_match("true")),
            Scalar::Bool(false) => Some(self.pattern.is_match("false")),
            Scalar::Number(text) => {
                numbers.set(numbers.get().checked_sub(1)?);
                Some(of(&match quantity {
                    Quantity::All => number::plain(text),
                    Quantity::Any => number::spellings(text),
                }))
            }
            Scalar::Exact(text) => {
                numbers.set(numbers.get().checked_sub(1)?);
                Some(match quantity {
                    Quantity::All => self.pattern.is_match(text),
                    Quantity::Any => of(&number::exact_spellings(text)),
                })
            }
            Scalar::Text(text) => {
                let whole = self.pattern.is_match(text);
                // A guest in C may read no further than this.
                let cut = text.split_once('\0').map(|(before, _)| self.pattern.is_match(before));
                Some(match quantity {
                    Quantity::All => whole && cut.unwrap_or(true),
                    Quantity::Any => whole || cut.unwrap_or(false),
                })
            }
            Scalar::Bytes(bytes) => {
                let is_match = self.pattern.is_match(&base64_of(bytes));
                // The client may write an array of bytes instead of base64, so each byte counts. There
                // are at most 256 different ones.
                let any_byte = || {
                    let different: BTreeSet<u8> = bytes.iter().copied().collect();
                    different.into_iter().any(|byte| of(&number::exact_spellings(&byte.to_string())))
                };
                Some(is_match || (quantity == Quantity::Any && any_byte()))
            }
        }
    }

    /// The values at the pointer, by every reading of the member names on the way.
    fn places<'v>(&self, value: &'v ArgumentValue<'v>) -> Vec<Cow<'v, ArgumentValue<'v>>> {
        let mut here = vec![Cow::Borrowed(value)];
        for step in &self.steps {
            here = here.into_iter().flat_map(|value| below(value, step)).collect();
        }
        here
    }
}

/// The values one step below a value.
fn below<'v>(value: Cow<'v, ArgumentValue<'v>>, step: &str) -> Vec<Cow<'v, ArgumentValue<'v>>> {
    // Only a single byte is owned, and nothing is below a byte.
    let Cow::Borrowed(value) = value else { return Vec::new() };
    match value {
        ArgumentValue::Object(members) => {
            let wanted = folded(step);
            let named = members.iter().filter(|(name, _)| name == step || folded(name) == wanted);
            named.map(|(_, value)| Cow::Borrowed(value)).collect()
        }
        ArgumentValue::List(items) => {
            index(step).and_then(|index| items.get(index)).map(Cow::Borrowed).into_iter().collect()
        }
        ArgumentValue::Bytes(bytes) => {
            let byte = index(step).and_then(|index| bytes.get(index));
            let number = |byte: &u8| Cow::Owned(ArgumentValue::Exact(byte.to_string()));
            byte.map(number).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a value exists at the pointer, by exactly these names.
fn is_at(value: &ArgumentValue<'_>, steps: &[String]) -> bool {
    let Some((step, rest)) = steps.split_first() else { return true };
    match value {
        ArgumentValue::Object(members) => {
            members.iter().any(|(name, value)| name == step && is_at(value, rest))
        }
        ArgumentValue::List(items) => {
            index(step).and_then(|index| items.get(index)).is_some_and(|item| is_at(item, rest))
        }
        ArgumentValue::Bytes(bytes) => {
            rest.is_empty() && index(step).is_some_and(|index| index < bytes.len())
        }
        _ => false,
    }
}

/// An index as JSON pointers have it.
fn index(step: &str) -> Option<usize> {
    let is_plain = step == "0" || (!step.starts_with(['0', '+']) && !step.is_empty());
    is_plain.then(|| step.parse().ok()).flatten()
}

/// A member name as the most careless reader compares it: without regard to case, up to the
/// first NUL.
pub(super) fn folded(name: &str) -> Cow<'_, str> {
    let name = name.split_once('\0').map_or(name, |(before, _)| before);
    if name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(name);
    }
    // In both directions, since letters such as U+017F and U+212A match others in one direction only.
    Cow::Owned(name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect())
}

/// A value without parts.
enum Scalar<'v> {
    Bool(bool),
    Number(&'v str),
    Exact(Cow<'v, str>),
    Text(&'v str),
    Bytes(&'v [u8]),
}

/// Strings, numbers, bytes and booleans, at any depth.
fn scalars<'v>(places: Vec<Cow<'v, ArgumentValue<'v>>>) -> Vec<Scalar<'v>> {
    let mut found = Vec::new();
    let mut rest = Vec::new();
    for place in places {
        match place {
            Cow::Borrowed(value) => rest.push(value),
            Cow::Owned(ArgumentValue::Exact(text)) => found.push(Scalar::Exact(Cow::Owned(text))),
            Cow::Owned(_) => {}
        }
    }
    while let Some(value) = rest.pop() {
        match value {
            ArgumentValue::List(values) => rest.extend(values),
            ArgumentValue::Object(members) => rest.extend(members.iter().map(|(_, value)| value)),
            // `null` means the same as an absent value.
            ArgumentValue::Null => {}
            ArgumentValue::Bool(value) => found.push(Scalar::Bool(*value)),
            ArgumentValue::Number(text) => found.push(Scalar::Number(text)),
            ArgumentValue::Exact(text) => found.push(Scalar::Exact(Cow::Borrowed(text))),
            ArgumentValue::Text(text) => found.push(Scalar::Text(text)),
            ArgumentValue::Bytes(bytes) => found.push(Scalar::Bytes(bytes)),
        }
    }
    found
}

fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn is_pointer(text: &str) -> bool {
    let mut escapes = text.split('~').skip(1);
    (text.is_empty() || text.starts_with('/')) && escapes.all(|rest| rest.starts_with(['0', '1']))
}
