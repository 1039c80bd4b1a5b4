//! Tool arguments that a client repeats in headers: which arguments they are, and whether a header
//! agrees with its argument (26XH).

use super::error::header_mismatch;
use super::headers;
use crate::error::RpcError;
use crate::members::each;
use crate::raw::RawJson;
use crate::tools::schema_keywords::{Contents, contents};
use crate::visible::clip;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The keyword of a schema that names the header.
const KEYWORD: &str = "x-mcp-header";

/// The types of an argument that a header repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
}

/// An argument that is repeated in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The end of the header's name, after `Mcp-Param-`.
    pub name: String,
    /// The names that lead to the argument, from the outside in.
    pub path: Vec<String>,
    /// The type in its schema.
    pub kind: ParamKind,
}

/// The arguments that an input schema wants to be repeated (26XH-1).
///
/// # Errors
/// A sentence that says which annotation is not allowed, and why: clients drop a
/// tool that has one.
pub fn param_headers(input_schema: &RawJson) -> Result<Vec<ParamHeader>, String> {
    let text = input_schema.as_str();
    if !text.contains(KEYWORD) && !text.contains("\\u") {
        return Ok(Vec::new());
    }
    let schema: Value =
        input_schema.decode().map_err(|error| format!("the schema cannot be read: {error}"))?;
    let mut found = Vec::new();
    walk(&schema, Some(&mut Vec::new()), &mut found)?;
    let mut names = HashSet::new();
    match found.iter().find(|header| !names.insert(header.name.to_ascii_lowercase())) {
        Some(twice) => Err(format!("`{KEYWORD}` names {:?} twice", clip(&twice.name, 100))),
        None => Ok(found),
    }
}

/// Gathers the annotations of a schema and of those within it. `path` is `None` where something other
/// than `properties` leads.
fn walk(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), String> {
    let Value::Object(members) = schema else { return Ok(()) };
    if let Some(name) = members.get(KEYWORD) {
        match path.as_deref().filter(|path| !path.is_empty()) {
            Some(path) => found.push(annotated(name, path, members)?),
            None => return Err(format!("`{KEYWORD}` is only for what `properties` alone lead to")),
        }
    }
    if let Some(Value::Object(properties)) = members.get("properties") {
        for (name, property) in properties {
            match path.as_deref_mut() {
                Some(path) => {
                    path.push(name.clone());
                    walk(property, Some(&mut *path), found)?;
                    path.pop();
                }
                None => walk(property, None, found)?,
            }
        }
    }
    // An argument found through another keyword has no fixed place.
    for (keyword, value) in members {
        match (contents(keyword), value) {
            (None, _) => {}
            (Some(Contents::Named), _) if keyword == "properties" => {}
            (Some(Contents::Named), Value::Object(schemas)) => {
                schemas.values().try_for_each(|schema| walk(schema, None, found))?;
            }
            (Some(_), Value::Array(schemas)) => {
                schemas.iter().try_for_each(|schema| walk(schema, None, found))?
            }
            (Some(_), schema) => walk(schema, None, found)?,
        }
    }
    Ok(())
}

fn annotated(name: &Value, path: &[String], members: &Map<String, Value>) -> Result<ParamHeader, String> {
    let place = clip(&path.join("."), 100);
    let name = name.as_str().filter(|name| is_token(name));
    let name = name.ok_or_else(|| format!("`{KEYWORD}` of {place:?} is not the name of a header"))?;
    let kind = match members.get("type").and_then(Value::as_str) {
        Some("string") => ParamKind::String,
        Some("integer") => ParamKind::Integer,
        Some("boolean") => ParamKind::Boolean,
        _ => {
            return Err(format!(
                "`{KEYWORD}` of {place:?}: only a string, an integer or a boolean can have it"
            ));
        }
    };
    Ok(ParamHeader { name: name.to_owned(), path: path.to_vec(), kind })
}

/// Whether a text can be in the name of a header (RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

impl ParamHeader {
    /// Checks that the header agrees with the argument (26XH-2). A header without an argument
    /// contradicts the body. The check of the arguments handles an argument of the wrong type.
    ///
    /// # Errors
    /// `-32020`.
    pub fn check(&self, arguments: &RawJson, header: Option<&str>) -> Result<(), RpcError> {
        let wrong = |what: &str| header_mismatch(format!("Mcp-Param-{} {what}", self.name));
        let argument = self.find(arguments.as_str()).map_err(|()| wrong("repeats what is there twice"))?;
        let argument = match argument {
            // No header can express it, and the schema refuses it.
            Some(argument) if argument.starts_with(['{', '[']) => return Ok(()),
            other => other,
        };
        let (argument, header) = match (argument, header) {
            (None, None) => return Ok(()),
            (None, Some(_)) => return Err(wrong("repeats an argument that is not there")),
            (Some(_), None) => return Err(wrong("is missing")),
            (Some(argument), Some(header)) => (argument, headers::value(header)?),
        };
        let same = match argument.as_bytes().first() {
            Some(b'"') => serde_json::from_str::<String>(argument).is_ok_and(|text| text == header),
            Some(b'-' | b'0'..=b'9') => match (Decimal::parse(argument), Decimal::parse(&header)) {
                (Some(argument), Some(header)) => argument == header,
                _ => false,
            },
            _ => argument == header,
        };
        if same { Ok(()) } else { Err(wrong("differs from the argument")) }
    }

    /// The text of the argument; `None` if it is absent or null. `Err` if a name on the way occurs
    /// twice: then it is unknown which one the tool will see.
    fn find<'a>(&self, arguments: &'a str) -> Result<Option<&'a str>, ()> {
        let mut value = arguments;
        for name in &self.path {
            if !value.starts_with('{') {
                return Ok(None);
            }
            let (mut found, mut count) = (None, 0);
            let read = each(value, |member| {
                if member.is(name) {
                    (found, count) = (Some(member.value.get()), count + 1);
                }
            });
            match (found, count) {
                (Some(found), 1) if read.is_ok() => value = found,
                (None, _) => return Ok(None),
                _ => return Err(()),
            }
        }
        Ok(Some(value).filter(|value| *value != "null"))
    }
}

/// A JSON number by its value, whatever its size: sign, digits without zeros around
/// them, power of ten.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        // The grammar is that of JSON.
        text.parse::<serde_json::Number>().ok().filter(|_| !text.starts_with(char::is_whitespace))?;
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent: i64 = exponent.parse().ok()?;
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0').trim_end_matches('0');
        if digits.is_empty() {
            return Some(Self { negative: false, digits: String::new(), exponent: 0 });
        }
        let zeros = all.len() - all.trim_end_matches('0').len();
        let exponent = exponent
            .checked_sub(i64::try_from(fraction.len()).ok()?)?
            .checked_add(i64::try_from(zeros).ok()?)?;
        Some(Self { negative, digits: digits.to_owned(), exponent })
    }
}

#[cfg(test)]
mod tests;
