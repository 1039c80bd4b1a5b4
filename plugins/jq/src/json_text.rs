//! Writes jaq's values as JSON. They include values that JSON lacks: NaN and infinities, byte strings, and
//! keys that are not strings. Those are written as jq writes them, because the host refuses a result that is
//! not JSON.

use jaq_json::{Num, Val};
use serde_json::value::RawValue;

/// The most levels of a value. The host allows 128 levels, and the structured result adds two around each
/// output.
const MOST_LEVELS: usize = 120;

/// The reason why a value cannot be written.
#[derive(Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// It has too many levels.
    TooDeep,
    /// Its text is longer than the limit.
    TooLong,
}

/// The JSON text of a value, if it is no longer than `room` bytes. Values share their parts, so a small
/// program can make one whose text would exceed any memory. So the length is checked while writing.
pub fn write(value: &Val, room: usize) -> Result<String, Unwritable> {
    let mut text = String::new();
    write_value(&mut text, value, MOST_LEVELS, room)?;
    Ok(text)
}

fn write_value(text: &mut String, value: &Val, levels: usize, room: usize) -> Result<(), Unwritable> {
    match value {
        Val::Null => text.push_str("null"),
        Val::Bool(true) => text.push_str("true"),
        Val::Bool(false) => text.push_str("false"),
        Val::Num(number) => text.push_str(&number_text(number)),
        Val::BStr(bytes) | Val::TStr(bytes) => {
            // Checked before the copy, so that a long string is not written twice.
            if bytes.len() > room {
                return Err(Unwritable::TooLong);
            }
            push_string(text, &String::from_utf8_lossy(bytes));
        }
        Val::Arr(items) => {
            let levels = levels.checked_sub(1).ok_or(Unwritable::TooDeep)?;
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(text, item, levels, room)?;
            }
            text.push(']');
        }
        Val::Obj(members) => {
            let levels = levels.checked_sub(1).ok_or(Unwritable::TooDeep)?;
            text.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                match key {
                    Val::TStr(bytes) | Val::BStr(bytes) => push_string(text, &String::from_utf8_lossy(bytes)),
                    other => {
                        let mut name = String::new();
                        write_value(&mut name, other, levels, room)?;
                        push_string(text, &name);
                    }
                }
                text.push(':');
                write_value(text, member, levels, room)?;
            }
            text.push('}');
        }
    }
    if text.len() > room { Err(Unwritable::TooLong) } else { Ok(()) }
}

fn push_string(text: &mut String, string: &str) {
    text.push_str(&serde_json::Value::from(string).to_string());
}

fn number_text(number: &Num) -> String {
    match number {
        Num::Int(_) | Num::BigInt(_) => number.to_string(),
        Num::Float(float) => float_text(*float),
        // A number keeps its text with all digits, unless JSON does not allow its notation, such as `+1.5`.
        Num::Dec(digits) if serde_json::from_str::<&RawValue>(digits).is_ok() => digits.to_string(),
        Num::Dec(digits) => float_text(digits.parse().unwrap_or(f64::NAN)),
    }
}

fn float_text(float: f64) -> String {
    /// Integers below this are exact, and shown without a fraction.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.is_nan() {
        "null".to_owned()
    } else if float.is_infinite() {
        Num::Float(f64::MAX.copysign(float)).to_string()
    } else if float.fract() == 0.0 && float.abs() < EXACT {
        format!("{float:.0}")
    } else {
        Num::Float(float).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn read(json: &str) -> Val {
        jaq_json::read::parse_single(json.as_bytes()).expect("the test's JSON parses")
    }

    #[test]
    fn json_comes_back_as_it_was() {
        let scalars = ["null", "true", "-12", "0.1", "1e400", "\"a\\n\\\"ä\\u0001\""];
        let large = ["123456789012345678901234567890", "3.14159265358979323846264338327950288"];
        let nested = ["[]", "{}", "[1,[2,{\"a\":[]}]]", "{\"b\":1,\"a\":2}"];
        for json in scalars.into_iter().chain(large).chain(nested) {
            assert_eq!(write(&read(json), 1_000).as_deref(), Ok(json));
        }
    }

    #[test]
    fn what_json_cannot_say_is_said_as_jq_does() {
        let cases = [
            (Val::from(f64::NAN), "null"),
            (Val::from(f64::INFINITY), "1.7976931348623157e308"),
            (Val::from(f64::NEG_INFINITY), "-1.7976931348623157e308"),
            (Val::from(5.0), "5"),
            (Val::from(2.5), "2.5"),
            (Val::byte_str(vec![b'a', 0xFF]), "\"a\u{FFFD}\""),
            (read("{1: 2, [3]: 4}"), "{\"1\":2,\"[3]\":4}"),
            (Val::Num(Num::Dec(Rc::new("+1.50".to_owned()))), "1.5"),
        ];
        for (value, json) in cases {
            let text = write(&value, 1_000).expect("it can be written");
            assert_eq!(text, json);
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }

    fn nested(levels: usize) -> Val {
        (0..levels).fold(Val::Null, |inner, _| Val::Arr(Rc::new(vec![inner])))
    }

    #[test]
    fn depth_and_length_are_bounded() {
        assert!(write(&nested(MOST_LEVELS), 1_000).is_ok());
        assert_eq!(write(&nested(MOST_LEVELS + 1), 1_000), Err(Unwritable::TooDeep));
        assert!(write(&read("\"1234\""), 6).is_ok());
        assert_eq!(write(&read("\"1234\""), 5), Err(Unwritable::TooLong));
        // Forty doublings: a terabyte of text from forty small arrays.
        let shared = (0..40).fold(Val::Null, |inner, _| Val::Arr(Rc::new(vec![inner.clone(), inner])));
        assert_eq!(write(&shared, 10_000), Err(Unwritable::TooLong));
    }
}
