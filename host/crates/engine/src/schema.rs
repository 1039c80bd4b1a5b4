//! JSON Schemas of tools (TL-4, TL-5), compiled once when the plugin is loaded, and
//! of forms (E-2), compiled when they are asked: JSON Schema 2020-12.
//!
//! Schemas come from components, which are not trusted: no reference leaves the
//! schema, regular expressions take linear time, size and depth are bounded, and
//! references that lead in a circle without descending into the value, which
//! would recurse for ever, are refused.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use toolyard_task::wire::RawJson;
use toolyard_task::wire::error::clip;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// How many complaints about one value are listed.
const MAX_COMPLAINTS: usize = 5;
/// How long each may be, in characters.
const COMPLAINT_CHARS: usize = 300;
/// The largest compiled regular expression, in bytes.
const REGEX_BYTES: usize = 1 << 20;
/// How many subschemas one value may be checked against at one place, counting
/// through references.
const MAX_FAN: u64 = 10_000;
/// How long a chain of subschemas for one value may be, counting through
/// references.
const MAX_CHAIN: usize = 100;

/// How large a schema may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub bytes: usize,
    /// How deep it may nest.
    pub depth: usize,
}

/// A schema that is ready to check values.
pub(crate) struct Schema {
    validator: Validator,
}

impl Schema {
    /// Compiles the schema of an object.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile(text: &RawJson, bounds: Bounds) -> Result<Self, String> {
        if text.as_bytes().len() > bounds.bytes {
            return Err(format!("is larger than {} bytes", bounds.bytes));
        }
        let value: Value = text.decode().map_err(|error| format!("is not valid JSON: {error}"))?;
        if depth(&value) > bounds.depth {
            return Err(format!("nests deeper than {} levels", bounds.depth));
        }
        let Some(members) = value.as_object() else {
            return Err("is not a JSON object".to_owned());
        };
        if members.get("type").and_then(Value::as_str) != Some("object") {
            return Err("does not have `\"type\": \"object\"`".to_owned());
        }
        References::check(&value)?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex().size_limit(REGEX_BYTES).dfa_size_limit(REGEX_BYTES))
            .offline()
            .build(&value)
            .map_err(|error| {
                let place = error.instance_path().to_string();
                format!(
                    "is not valid JSON Schema 2020-12: at `{}`: {}",
                    slash(&place),
                    clip(&error.to_string(), 300)
                )
            })?;
        Ok(Self { validator })
    }

    /// Checks a value.
    ///
    /// # Errors
    /// What does not fit, up to five complaints, each with its place.
    pub fn check(&self, value: &RawJson) -> Result<(), String> {
        let value: Value = value.decode().map_err(|error| error.to_string())?;
        if self.validator.is_valid(&value) {
            return Ok(());
        }
        let mut errors = self.validator.iter_errors(&value);
        let mut complaints: Vec<String> = errors
            .by_ref()
            .take(MAX_COMPLAINTS)
            .map(|error| {
                let place = error.instance_path().to_string();
                format!("at `{}`: {}", slash(&place), clip(&error.to_string(), COMPLAINT_CHARS))
            })
            .collect();
        if errors.next().is_some() {
            complaints.push("and more".to_owned());
        }
        Err(complaints.join("; "))
    }
}

fn slash(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

fn depth(value: &Value) -> usize {
    // The text was no deeper than `MAX_DEPTH`, so neither is this recursion.
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Keywords that apply a subschema to the same value.
const SAME_VALUE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords that apply several to it.
const SAME_VALUE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose subschemas are applied to parts of the value.
const PARTS: [&str; 7] = [
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "unevaluatedItems",
    "contains",
    "contentSchema",
];
/// Keywords that hold subschemas by name.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// What refers to what within one schema.
#[derive(Default)]
struct References<'a> {
    /// Every subschema by its JSON pointer.
    at: HashMap<String, &'a Map<String, Value>>,
    anchors: HashMap<&'a str, String>,
    /// How many subschemas a value meets at a pointer.
    fan: HashMap<String, u64>,
}

impl<'a> References<'a> {
    fn check(schema: &'a Value) -> Result<(), String> {
        let mut found = Self::default();
        found.walk(schema, String::new())?;
        let mut pointers: Vec<String> = found.at.keys().cloned().collect();
        pointers.sort_unstable();
        for pointer in pointers {
            found.fan_at(&pointer, &mut HashSet::new())?;
        }
        Ok(())
    }

    fn walk(&mut self, schema: &'a Value, pointer: String) -> Result<(), String> {
        let Some(members) = schema.as_object() else {
            return Ok(()); // `true`, `false`, or something that the compiler refuses.
        };
        if let Some(dialect) = members.get("$schema").and_then(Value::as_str)
            && dialect.trim_end_matches('#') != DIALECT
        {
            return Err(format!("has the dialect `{}`; only 2020-12 is supported", clip(dialect, 100)));
        }
        if !pointer.is_empty() && members.contains_key("$id") {
            return Err("has an `$id` below its top, which is not supported".to_owned());
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = members.get(key).and_then(Value::as_str) {
                self.anchors.insert(name, pointer.clone());
            }
        }
        for (key, value) in members {
            let below = format!("{pointer}/{}", escaped(key));
            let key = key.as_str();
            if SAME_VALUE.contains(&key) || PARTS.contains(&key) {
                self.walk(value, below)?;
            } else if SAME_VALUE_LISTS.contains(&key) || key == "prefixItems" {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    self.walk(item, format!("{below}/{index}"))?;
                }
            } else if NAMED.contains(&key) {
                for (name, item) in value.as_object().into_iter().flatten() {
                    self.walk(item, format!("{below}/{}", escaped(name)))?;
                }
            }
        }
        self.at.insert(pointer, members);
        Ok(())
    }

    /// How many subschemas a value meets when it is checked against the one at
    /// `pointer`, parts of the value not counted.
    fn fan_at(&mut self, pointer: &str, open: &mut HashSet<String>) -> Result<u64, String> {
        if let Some(known) = self.fan.get(pointer) {
            return Ok(*known);
        }
        let Some(members) = self.at.get(pointer).copied() else {
            return Ok(1);
        };
        if !open.insert(pointer.to_owned()) {
            return Err("has references that lead in a circle without descending into the value".to_owned());
        }
        if open.len() > MAX_CHAIN {
            return Err(format!("has a chain of more than {MAX_CHAIN} subschemas for one value"));
        }
        let mut sum = 1_u64;
        for (key, value) in members {
            let below = format!("{pointer}/{}", escaped(key));
            let mut meets: Vec<String> = Vec::new();
            match key.as_str() {
                "$ref" | "$dynamicRef" => meets.push(self.target(value)?),
                key if SAME_VALUE.contains(&key) => meets.push(below),
                key if SAME_VALUE_LISTS.contains(&key) => {
                    meets.extend(
                        (0..value.as_array().map_or(0, Vec::len)).map(|index| format!("{below}/{index}")),
                    );
                }
                "dependentSchemas" => {
                    let names = value.as_object().into_iter().flat_map(|schemas| schemas.keys());
                    meets.extend(names.map(|name| format!("{below}/{}", escaped(name))));
                }
                _ => {}
            }
            for next in meets {
                sum = sum.saturating_add(self.fan_at(&next, open)?);
            }
        }
        open.remove(pointer);
        if sum > MAX_FAN {
            return Err(format!("has references that fan out to more than {MAX_FAN} checks of one value"));
        }
        self.fan.insert(pointer.to_owned(), sum);
        Ok(sum)
    }

    /// The pointer that a reference means.
    fn target(&self, reference: &Value) -> Result<String, String> {
        let Some(text) = reference.as_str() else {
            return Err("has a `$ref` that is not a string".to_owned());
        };
        let Some(fragment) = text.strip_prefix('#') else {
            return Err(format!("refers to `{}`, outside of itself", clip(text, 100)));
        };
        if fragment.is_empty() || fragment.starts_with('/') {
            let pointer = percent_decoded(fragment);
            return if self.at.contains_key(&pointer) {
                Ok(pointer)
            } else {
                Err(format!("refers to `{}`, which is no subschema of it", clip(text, 100)))
            };
        }
        let anchor = self.anchors.get(fragment);
        anchor.cloned().ok_or_else(|| format!("refers to `{}`, which is not there", clip(text, 100)))
    }
}

/// A name as a JSON pointer spells it (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// What a URI fragment spells.
fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) if bytes[at] == b'%' => {
                out.push(code);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests;
