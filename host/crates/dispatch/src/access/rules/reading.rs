//! Reads the arguments of a call for the rules, and keeps numbers as they are written.
//!
//! Refuses arguments that two readers may understand differently: one member name twice
//! in an object, a lone surrogate, a number that no 64-bit float can hold. Member names are
//! compared after their escapes are decoded.

use super::number;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;
use toolyard_protocol::raw::MAX_DEPTH;
use toolyard_task::ArgumentValue;

/// Up to this many members, comparing each with each is faster.
const FEW_MEMBERS: usize = 16;

/// Reads one JSON value. `None` if it is ambiguous, too deep, or no JSON.
pub(super) fn read(text: &str) -> Option<ArgumentValue<'_>> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    (reader.at == text.len()).then_some(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next byte that is not a space, if it is this one.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Option<ArgumentValue<'a>> {
        // Only what opens a level counts as one, as in `RawJson`.
        self.space();
        match self.peek()? {
            b'{' | b'[' if depth >= MAX_DEPTH => None,
            b'{' => self.object(depth + 1),
            b'[' => self.array(depth + 1),
            _ => self.scalar(),
        }
    }

    /// A text, a number or a word, as serde_json finds it.
    fn scalar(&mut self) -> Option<ArgumentValue<'a>> {
        let rest = self.text.get(self.at..)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        let text = values.next()?.ok()?.get();
        self.at += values.byte_offset();
        match text {
            "true" => Some(ArgumentValue::Bool(true)),
            "false" => Some(ArgumentValue::Bool(false)),
            "null" => Some(ArgumentValue::Null),
            _ if text.starts_with('"') => string(text).map(ArgumentValue::Text),
            _ => number::is_readable(text).then_some(ArgumentValue::Number(Cow::Borrowed(text))),
        }
    }

    fn array(&mut self, depth: usize) -> Option<ArgumentValue<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Some(ArgumentValue::List(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.take(b',') {
                continue;
            }
            return self.take(b']').then_some(ArgumentValue::List(items));
        }
    }

    fn object(&mut self, depth: usize) -> Option<ArgumentValue<'a>> {
        self.at += 1;
        let mut members: Vec<(Cow<'a, str>, ArgumentValue<'a>)> = Vec::new();
        if self.take(b'}') {
            return Some(ArgumentValue::Object(members));
        }
        loop {
            self.space();
            let Some(ArgumentValue::Text(name)) = self.scalar() else { return None };
            if !self.take(b':') {
                return None;
            }
            members.push((name, self.value(depth)?));
            if self.take(b',') {
                continue;
            }
            let whole = self.take(b'}') && !repeats(&members);
            return whole.then_some(ArgumentValue::Object(members));
        }
    }
}

/// The value of a JSON string.
fn string(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('\\') {
        return Some(Cow::Borrowed(&text[1..text.len() - 1]));
    }
    // Fails on a lone surrogate, which some readers replace and others keep.
    serde_json::from_str(text).ok().map(Cow::Owned)
}

/// Whether a name occurs twice.
fn repeats(members: &[(Cow<'_, str>, ArgumentValue<'_>)]) -> bool {
    if members.len() <= FEW_MEMBERS {
        let mut rest = members;
        while let [(name, _), after @ ..] = rest {
            if after.iter().any(|(other, _)| other == name) {
                return true;
            }
            rest = after;
        }
        return false;
    }
    let mut names = HashSet::with_capacity(members.len());
    !members.iter().all(|(name, _)| names.insert(name.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn as_json(value: &ArgumentValue<'_>) -> Value {
        match value {
            ArgumentValue::Null => Value::Null,
            ArgumentValue::Bool(value) => (*value).into(),
            ArgumentValue::Number(text) => serde_json::from_str(text).expect("a number"),
            ArgumentValue::Exact(text) => serde_json::from_str(text).expect("a number"),
            ArgumentValue::Text(text) => text.as_ref().into(),
            ArgumentValue::Bytes(bytes) => bytes.as_slice().into(),
            ArgumentValue::List(items) => items.iter().map(as_json).collect(),
            ArgumentValue::Object(members) => {
                members.iter().map(|(name, value)| (name.to_string(), as_json(value))).collect()
            }
        }
    }

    #[test]
    fn ambiguous_arguments_are_refused() {
        let many: String = (0..40).map(|n| format!("\"n{n}\":0,")).collect();
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"x":{"y":1,"y":1}}]"#,
            &format!("{{{many}\"n7\":0}}"),
            r#""\ud800""#,
            r#"{"\ud800":1}"#,
            "1e400",
            "1e99999999999999999999",
            &("[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1)),
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        for text in ["[1", "{\"a\":1", "{\"a\"}", "\"", "\"\\", "01", "+1", "1.", ".5", "1 2", ""] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(read(&("[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH))).is_some());
        assert!(read(&format!("{{{many}\"n40\":0}}")).is_some());
    }

    proptest::proptest! {
        #[test]
        fn it_agrees_with_serde_json_on_any_text(text in "[\\[\\]{}:,\"\\\\au0-9eE.+ntrfls -]{0,24}") {
            let expected: Option<Value> = serde_json::from_str(&text).ok();
            // It may refuse more, but never reads a different value.
            if let Some(value) = read(&text) {
                proptest::prop_assert_eq!(Some(as_json(&value)), expected);
            }
        }

        #[test]
        fn it_reads_any_object(members in proptest::collection::btree_map("\\PC{0,6}", -1e9..1e9_f64, 0..20)) {
            let value = json!({"\n": [members, [], true, false, null, "\u{1f600}\"\\"]});
            for text in [value.to_string(), format!("{value:#}")] {
                proptest::prop_assert_eq!(read(&text).map(|read| as_json(&read)), Some(value.clone()));
            }
        }
    }
}
