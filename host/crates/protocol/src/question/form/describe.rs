//! Forms in words, for a client that reads texts alone: a model relays them to its user.
//!
//! Forms come from guests. Each text of theirs is quoted, short, and on one line, so that it is not
//! taken for a line of the host.

use super::{Field, FormSchema};
use crate::raw::RawJson;
use crate::visible;
use serde_json::Value;

/// The longest name, title, choice or value that is shown whole, in characters.
const MAX_TEXT_CHARS: usize = 200;
/// The size of a list of choices, in characters, at which the rest is left out.
const MAX_CHOICES_CHARS: usize = 2_000;
/// The size of a description or an example, in characters, at which the rest is left out: a model
/// pays for each. A form of ordinary size has far fewer.
const MAX_FORM_CHARS: usize = 8_000;

/// A line for each field of a form, such as `ok: true or false, required`. The last line counts the
/// fields that are left out of a very large form. A schema that does not describe a form has no lines.
#[must_use]
pub fn describe_form(requested_schema: &RawJson) -> Vec<String> {
    let fields = fields(requested_schema);
    let mut lines = Vec::new();
    let mut chars = 0;
    for (index, field) in fields.iter().enumerate() {
        if chars > MAX_FORM_CHARS {
            lines.push(format!("and {} more fields", fields.len() - index));
            break;
        }
        let line = describe(field);
        chars += line.chars().count();
        lines.push(line);
    }
    lines
}

/// A JSON object in the form of an answer: an example value for each required field, or for the first
/// field if none is required. A very large form has fields without one.
#[must_use]
pub fn example_content(requested_schema: &RawJson) -> String {
    let fields = fields(requested_schema);
    let required = fields.iter().filter(|field| field.required);
    let first = fields.iter().take(usize::from(!fields.iter().any(|field| field.required)));
    let mut members = Vec::new();
    let mut chars = 0;
    for field in required.chain(first) {
        if chars > MAX_FORM_CHARS {
            break;
        }
        let member = format!("{}: {}", exact(&field.name), example(field));
        chars += member.chars().count();
        members.push(member);
    }
    format!("{{{}}}", members.join(", "))
}

/// A foreign text on one line, in at most this many characters: without characters that cannot be seen
/// or that reorder a line, and with one space for each run of spaces and line ends.
#[must_use]
pub fn one_line(text: &str, max_chars: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut has_space = false;
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if char.is_whitespace() {
            has_space = count > 0;
            before = None;
            continue;
        }
        let is_joiner = matches!(char, '\u{200c}' | '\u{200d}');
        let has_use = is_joiner && visible::joins(before) && visible::joins(chars.peek().copied());
        if visible::is_unsafe(char) && !has_use {
            continue;
        }
        if count + usize::from(has_space) >= max_chars {
            out.push('…');
            break;
        }
        if has_space {
            out.push(' ');
        }
        out.push(char);
        count += 1 + usize::from(has_space);
        has_space = false;
        before = Some(char);
    }
    out
}

/// [`one_line`] in quotation marks. Quotation marks within the text have a backslash.
#[must_use]
pub fn quoted(text: &str, max_chars: usize) -> String {
    RawJson::of(&one_line(text, max_chars)).as_str().to_owned()
}

/// A JSON string with the same value, so that a client can send it back; clipped if it is long.
fn exact(text: &str) -> String {
    if text.chars().count() > MAX_TEXT_CHARS {
        return quoted(text, MAX_TEXT_CHARS);
    }
    visible::json(RawJson::of(text).as_str()).into_owned()
}

/// A JSON value exactly as written, or the beginning of its text.
fn exact_value(value: &Value) -> String {
    match value {
        Value::String(text) => exact(text),
        other => one_line(&visible::json(&other.to_string()), MAX_TEXT_CHARS),
    }
}

fn fields(requested_schema: &RawJson) -> Vec<Field> {
    requested_schema.decode::<FormSchema>().map(FormSchema::fields).unwrap_or_default()
}

fn describe(field: &Field) -> String {
    let name = match is_plain_name(&field.name) {
        true => field.name.clone(),
        false => exact(&field.name),
    };
    let required = if field.required { "required" } else { "optional" };
    let mut line = format!("{name}: {}, {required}", kind(field));
    if let Some(default) = &field.default {
        line += &format!(", default {}", exact_value(default));
    }
    if field.title != field.name {
        line += &format!("; titled {}", quoted(&field.title, MAX_TEXT_CHARS));
    }
    if let Some(description) = field.schema["description"].as_str() {
        line += &format!("; described as {}", quoted(description, MAX_TEXT_CHARS));
    }
    line
}

/// Whether a name can be shown without quotation marks: no text of the host looks like it.
fn is_plain_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The values that a field takes.
fn kind(field: &Field) -> String {
    let bound = |name: &str| field.schema.get(name).filter(|bound| bound.is_number()).map(Value::to_string);
    match (field.choices(), field.type_name()) {
        (Some(choices), Some("array")) => {
            let count = range(bound("minItems"), bound("maxItems"), "", " with ");
            let count = if count.is_empty() { count } else { format!("{count} items") };
            format!("a list{count}, of {}", choice_list(field, &choices))
        }
        (Some(choices), _) => format!("one of {}", choice_list(field, &choices)),
        (None, Some("boolean")) => "true or false".to_owned(),
        (None, Some("integer")) => {
            format!("a whole number{}", range(bound("minimum"), bound("maximum"), "from ", " "))
        }
        (None, Some("number")) => {
            format!("a number{}", range(bound("minimum"), bound("maximum"), "from ", " "))
        }
        (None, _) => text_kind(field, range(bound("minLength"), bound("maxLength"), "", " of ")),
    }
}

fn text_kind(field: &Field, length: String) -> String {
    let format = match field.schema["format"].as_str() {
        Some("email") => "an email address",
        Some("uri") => "a URI",
        Some("date") => "a date (YYYY-MM-DD)",
        Some("date-time") => "a date and time (RFC 3339)",
        _ => "text",
    };
    let length = if length.is_empty() { length } else { format!("{length} characters") };
    match field.schema["pattern"].as_str() {
        Some(pattern) => {
            format!("{format}{length} that matches {}", quoted(pattern, MAX_TEXT_CHARS))
        }
        None => format!("{format}{length}"),
    }
}

/// Bounds in words, after `lead`; empty without bounds. `from` opens a range with both.
fn range(least: Option<String>, most: Option<String>, from: &str, lead: &str) -> String {
    match (least, most) {
        (Some(least), Some(most)) => format!("{lead}{from}{least} to {most}"),
        (Some(least), None) => format!("{lead}at least {least}"),
        (None, Some(most)) => format!("{lead}at most {most}"),
        (None, None) => String::new(),
    }
}

/// The choices with their titles.
fn choice_list(field: &Field, choices: &[String]) -> String {
    let schema = if field.type_name() == Some("array") { &field.schema["items"] } else { &field.schema };
    let title = |index: usize| {
        schema["enumNames"][index]
            .as_str()
            .or_else(|| schema["oneOf"][index]["title"].as_str())
            .or_else(|| schema["anyOf"][index]["title"].as_str())
    };
    let mut list = String::new();
    for (index, choice) in choices.iter().enumerate() {
        if index > 0 {
            list.push_str(", ");
        }
        // Each is counted again, which the bound makes cheap.
        if list.chars().count() > MAX_CHOICES_CHARS {
            list += &format!("and {} more", choices.len() - index);
            break;
        }
        list += &exact(choice);
        if let Some(title) = title(index).filter(|title| title != choice) {
            list += &format!(" ({})", quoted(title, MAX_TEXT_CHARS));
        }
    }
    list
}

/// A value of the type of the field, as JSON.
fn example(field: &Field) -> String {
    if let Some(default) = field.default.as_ref().filter(|value| !value.is_object())
        && default.to_string().len() <= MAX_TEXT_CHARS
    {
        return visible::json(&default.to_string()).into_owned();
    }
    let choices = field.choices().unwrap_or_default();
    let choice = choices.first().map(|choice| exact(choice));
    match field.type_name() {
        Some("boolean") => "true".to_owned(),
        Some("integer" | "number") => match &field.schema["minimum"] {
            Value::Number(least) => least.to_string(),
            _ => "1".to_owned(),
        },
        Some("array") => format!("[{}]", choice.unwrap_or_default()),
        _ => choice.unwrap_or_else(|| "\"…\"".to_owned()),
    }
}

#[cfg(test)]
mod tests;
