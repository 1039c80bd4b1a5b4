//! The fields of a form at a terminal: a description of the values that may be entered, and the parser of an
//! entered line.

use serde_json::Value;
use toolyard_dispatch::Field;

/// Describes the values that may be entered.
pub fn kind(field: &Field) -> String {
    match (field.choices(), field.type_name()) {
        (Some(choices), Some("array")) => format!("some of {}, with commas between", choices.join(", ")),
        (Some(choices), _) => choices.join(", "),
        (None, Some("boolean")) => "yes or no".to_owned(),
        (None, Some(other)) => other.to_owned(),
        (None, None) => "text".to_owned(),
    }
}

/// The value of a line; `None` if the field is left out.
///
/// # Errors
/// The values that the field takes, in words.
pub fn value(field: &Field, text: &str) -> Result<Option<Value>, String> {
    if text.is_empty() {
        return match (&field.default, field.required) {
            (Some(default), _) => Ok(Some(default.clone())),
            (None, false) => Ok(None),
            (None, true) => Err("this one is needed".to_owned()),
        };
    }
    let is_choice =
        |text: &str| field.choices().is_none_or(|choices| choices.iter().any(|known| known == text));
    match field.type_name() {
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
            let chosen: Vec<&str> = text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect();
            match chosen.iter().find(|text| !is_choice(text)) {
                Some(other) => Err(format!("`{other}` is not among them")),
                None => Ok(Some(chosen.into())),
            }
        }
        _ if !is_choice(text) => Err(format!("one of {}", kind(field))),
        _ => {
            let length = text.chars().count() as u64;
            let bound = |name: &str| field.schema[name].as_u64();
            match (bound("minLength"), bound("maxLength")) {
                (Some(least), _) if length < least => Err(format!("at least {least} characters")),
                (_, Some(most)) if length > most => Err(format!("at most {most} characters")),
                _ => Ok(Some(text.into())),
            }
        }
    }
}
