//! Converts between TOML and JSON: cases are written in TOML, and tools use JSON.

use serde_json::Value;

/// The value as JSON. Dates become their text.
pub fn json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Datetime(moment) => moment.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(json).collect(),
        toml::Value::Table(table) => json_object(table).into(),
    }
}

/// The table as a JSON object.
pub fn json_object(table: toml::Table) -> serde_json::Map<String, Value> {
    table.into_iter().map(|(key, value)| (key, json(value))).collect()
}

/// The value as TOML; `None` if TOML cannot express it: TOML has no null, and its integers are signed 64-bit
/// numbers.
pub fn toml(value: &Value) -> Option<toml::Value> {
    toml::Value::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_toml_can_say_comes_back_and_the_rest_is_not_said() {
        for value in [
            json!({"a": 1, "b": [true, "x\ny", 1.5, {"c": []}], "d": {}}),
            json!(i64::MIN),
            json!([["nested"], [1]]),
        ] {
            let there = toml(&value).expect("it can be said");
            assert_eq!(super::json(there), value);
        }
        for value in [json!(null), json!({"a": [null]}), json!(u64::MAX)] {
            assert_eq!(toml(&value), None, "{value}");
        }
        let date: toml::Table = "d = 1979-05-27".parse().expect("TOML");
        assert_eq!(Value::from(json_object(date)), json!({"d": "1979-05-27"}));
    }
}
