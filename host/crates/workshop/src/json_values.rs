//! Comparison of JSON values.

use serde_json::Value;

/// Whether two values are the same JSON, whatever the notation of numbers.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => a == b,
            _ => a.as_f64() == b.as_f64(),
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => one == other,
    }
}

/// Checks that the whole contains this part: the named members of objects, and each item of lists at its
/// position.
///
/// # Errors
/// The first place that differs, as a JSON pointer.
pub fn contains(whole: &Value, part: &Value, at: &str) -> Result<(), String> {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().try_for_each(|(key, part)| {
            let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            whole.get(key).map_or(Err(at.clone()), |whole| contains(whole, part, &at))
        }),
        (Value::Array(whole), Value::Array(part)) if whole.len() == part.len() => whole
            .iter()
            .zip(part)
            .enumerate()
            .try_for_each(|(place, (whole, part))| contains(whole, part, &format!("{at}/{place}"))),
        _ if same(whole, part) => Ok(()),
        _ => Err(at.to_owned()),
    }
}
