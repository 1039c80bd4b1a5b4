//! JSON text that is passed on without parsing.

use crate::visible::clip;
use bytes::Bytes;
use memchr::memchr2;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use smallvec::SmallVec;
use std::borrow::Cow;

/// A JSON value as UTF-8 text, known to be well formed. Cloning counts a
/// reference; a value cut from a request body shares the body's memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Bytes);

/// [`RawJson::parse`], which reads the JSON of guests, refuses text that is nested deeper than
/// this. Params of a client are carried unread; their readers use serde_json, which stops at the
/// same depth.
pub const MAX_DEPTH: usize = 128;
/// The most levels by which [`RawJson::pretty`] indents.
const MAX_INDENT: usize = 8;

/// Why a text is not accepted as JSON.
#[derive(Debug, thiserror::Error)]
pub enum RawJsonError {
    /// Not one well-formed JSON value.
    #[error("not valid JSON: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("JSON nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// JSON by its grammar, but readers refuse it or differ over its meaning (RFC 7493).
    #[error("JSON that not every client can read: {0}")]
    NotInteroperable(String),
}

impl RawJson {
    /// Checks that `text` is JSON that every reader understands in the same way (I-JSON, RFC 7493):
    /// whole surrogate pairs, each name once in an object, numbers that a double can hold. A client
    /// drops the whole message if it contains anything else.
    ///
    /// # Errors
    /// [`RawJsonError`] if it is not such a value, or is nested too deep.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, RawJsonError> {
        let text = text.into();
        let value: &RawValue = serde_json::from_slice(&text)?;
        let trimmed = text.slice_ref(value.get().as_bytes());
        check_interoperable(value.get())?;
        Ok(Self(trimmed))
    }

    /// The text of `value`, sharing the memory of `owner`, which must contain it.
    #[must_use]
    pub(crate) fn within(owner: &Bytes, value: &RawValue) -> Self {
        Self(owner.slice_ref(value.get().as_bytes()))
    }

    /// The text of `value` within `owner`, to be kept for longer than the rest: in memory of its own if
    /// the rest is large.
    #[must_use]
    pub(crate) fn kept(owner: &Bytes, value: &RawValue) -> Self {
        const LARGE: usize = 64 << 10;
        let within = Self::within(owner, value);
        if owner.len() > LARGE { within.detached() } else { within }
    }

    /// Encodes a value of the host. Values whose encoding can fail (maps with keys that are not
    /// strings) are not used with it.
    #[must_use]
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(
            serde_json::to_vec(value)
                .expect("our own types have string keys and encode without error")
                .into(),
        )
    }

    /// Takes text that this program encoded itself, such as what the store gives
    /// back, without scanning it again.
    #[must_use]
    pub fn trusted(text: impl Into<Bytes>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// The text as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text as shared bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// The same text in memory of its own: keeping it keeps nothing else alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// That of `serde_json`, if it does not have the shape of `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        // Once for the whole text, instead of once for each string in it.
        match std::str::from_utf8(&self.0) {
            Ok(text) => serde_json::from_str(text),
            // Its own error says where.
            Err(_) => serde_json::from_slice(&self.0),
        }
    }

    /// The text over several lines, for people: only the space between its parts differs.
    #[must_use]
    pub fn pretty(&self) -> String {
        let text = self.as_str();
        let mut out = String::with_capacity(text.len() * 2);
        let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            if in_text {
                out.push(char);
                in_text = is_escaped || char != '"';
                is_escaped = !is_escaped && char == '\\';
                continue;
            }
            let new_line = |out: &mut String, depth: usize| {
                out.push('\n');
                // Or a small text of many levels would become a large one.
                out.extend(std::iter::repeat_n("  ", depth.min(MAX_INDENT)));
            };
            match char {
                ' ' | '\t' | '\n' | '\r' => {}
                '{' | '[' => {
                    out.push(char);
                    while rest.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                    match rest.next_if(|next| matches!(next, '}' | ']')) {
                        Some(end) => out.push(end),
                        None => {
                            depth += 1;
                            new_line(&mut out, depth);
                        }
                    }
                }
                '}' | ']' => {
                    depth = depth.saturating_sub(1);
                    new_line(&mut out, depth);
                    out.push(char);
                }
                ',' => {
                    out.push(char);
                    new_line(&mut out, depth);
                }
                ':' => out.push_str(": "),
                char => {
                    in_text = char == '"';
                    out.push(char);
                }
            }
        }
        out
    }

    /// Whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Whether the value is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.0.first() == Some(&b'[')
    }

    /// `{}`.
    #[must_use]
    pub fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }
}

/// Checks well-formed JSON text by the rules of [`RawJson::parse`], in one pass.
pub(crate) fn check_interoperable(text: &str) -> Result<(), RawJsonError> {
    let bytes = text.as_bytes();
    // For each open container, where its names begin; `None` for an array.
    let mut open = SmallVec::<[Option<u32>; 8]>::new();
    // Names with an escape are decoded; each call passes through here, and most have a few short names.
    let mut names = SmallVec::<[Cow<'_, [u8]>; 8]>::new();
    let mut name_comes = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let begin = at;
        at += 1;
        match byte {
            b'"' => {
                let mut escaped = false;
                while let Some(found) = next_mark(bytes.get(at..).unwrap_or_default()) {
                    at += found;
                    if bytes[at] == b'"' {
                        break;
                    }
                    escaped = true;
                    at += 2;
                }
                at += 1;
                if !name_comes && !escaped {
                    continue;
                }
                let quoted = text.get(begin..at).unwrap_or_default();
                // The grammar allows half of a surrogate pair; decoding does not.
                let decoded = || {
                    serde_json::from_str::<String>(quoted)
                        .map_err(|_| RawJsonError::NotInteroperable("half of a surrogate pair".to_owned()))
                };
                if name_comes {
                    names.push(match escaped {
                        true => Cow::Owned(decoded()?.into_bytes()),
                        false => Cow::Borrowed(bytes.get(begin + 1..at - 1).unwrap_or_default()),
                    });
                    name_comes = false;
                } else if quoted.contains("\\u") {
                    decoded()?;
                }
            }
            b'{' | b'[' => {
                if open.len() == MAX_DEPTH {
                    return Err(RawJsonError::TooDeep);
                }
                let is_object = byte == b'{';
                open.push(is_object.then(|| u32::try_from(names.len()).unwrap_or(u32::MAX)));
                name_comes = is_object;
            }
            b'}' | b']' => {
                name_comes = false;
                if let Some(begin) = open.pop().flatten() {
                    check_names(&mut names[begin as usize..])?;
                    names.truncate(begin as usize);
                }
            }
            b',' => name_comes = open.last().is_some_and(Option::is_some),
            b'-' | b'0'..=b'9' => {
                let mut has_exponent = false;
                while let Some(byte @ (b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) = bytes.get(at) {
                    has_exponent |= matches!(byte, b'e' | b'E');
                    at += 1;
                }
                // A short number without an exponent is far below the largest double.
                let is_finite = || {
                    let number = text.get(begin..at).unwrap_or_default();
                    number.parse::<f64>().is_ok_and(f64::is_finite)
                };
                if (has_exponent || at - begin > 300) && !is_finite() {
                    return Err(RawJsonError::NotInteroperable("a number out of range".to_owned()));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The first quote or backslash. Most names and texts have a few bytes, and beginning a search costs as much as looking
/// at twenty.
fn next_mark(rest: &[u8]) -> Option<usize> {
    const SHORT: usize = 16;
    let (short, long) = rest.split_at(rest.len().min(SHORT));
    let in_short = short.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    in_short.or_else(|| memchr2(b'"', b'\\', long).map(|at| short.len() + at))
}

/// Checks that the names of one object differ. Sorts them.
fn check_names(names: &mut [Cow<'_, [u8]>]) -> Result<(), RawJsonError> {
    /// So few names are compared with each other without being sorted.
    const FEW: usize = 8;
    let twice = if names.len() <= FEW {
        let is_twice = |(at, name): &(usize, &Cow<'_, [u8]>)| names[..*at].contains(name);
        names.iter().enumerate().find(is_twice).map(|(_, name)| name)
    } else {
        names.sort_unstable();
        names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| &pair[0])
    };
    let twice = twice.map(|name| format!("the name {:?} twice", clip(&String::from_utf8_lossy(name), 100)));
    twice.map_or(Ok(()), |why| Err(RawJsonError::NotInteroperable(why)))
}

/// Unlike `Option`'s own decoding, distinguishes `null` from an absent member.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl std::fmt::Debug for RawJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Bytes::from(String::from(Box::<str>::from(raw)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrounding_space_is_cut_and_the_rest_kept_to_the_letter() {
        let raw = RawJson::parse(" {\"a\" : 1.0} \n").expect("valid");
        assert_eq!(raw.as_str(), "{\"a\" : 1.0}");
    }

    #[test]
    fn people_see_numbers_and_texts_as_they_are_written() {
        let raw = RawJson::trusted(r#"{"n":[1e2, 12345678901234567890123],"t":"a\n\"{b\\","e":{ },"l":[]}"#);
        let shown = "{\n  \"n\": [\n    1e2,\n    12345678901234567890123\n  ],\n  \"t\": \"a\\n\\\"{b\\\\\",\n  \
            \"e\": {},\n  \"l\": []\n}";
        assert_eq!(raw.pretty(), shown);
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in ["", "{", "[1,]", "nul", "1 2", "\"\u{1}\"", "{\"a\":}"] {
            assert!(RawJson::parse(text).is_err(), "{text:?}");
        }
        assert!(RawJson::parse(&b"\"\xff\""[..]).is_err(), "not UTF-8");
    }

    #[test]
    fn nesting_is_bounded_and_brackets_in_strings_do_not_count() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(RawJson::parse(nested(MAX_DEPTH)).is_ok());
        assert!(RawJson::parse(nested(MAX_DEPTH + 1)).is_err());
        assert!(RawJson::parse(nested(100_000)).is_err());
        assert!(RawJson::parse(format!("\"{}\\\"\"", "[".repeat(500))).is_ok());
    }

    #[test]
    fn what_clients_read_in_different_ways_or_not_at_all_is_refused() {
        let long = format!(r#"1e999999 {{"a":[-1e400]}} {}"#, "9".repeat(400));
        for (texts, says) in [
            (r#"{"a":"\ud800"} ["\udc00\ud800"] {"\ud83d":1}"#, "surrogate"),
            (r#"{"a":1,"a":2} {"a":1,"\u0061":2} [{"x":{"a":1,"c":[{}],"a":1}}]"#, "\"a\" twice"),
            (&long, "range"),
        ] {
            for text in texts.split(' ') {
                let error = RawJson::parse(text.to_owned()).expect_err(text).to_string();
                assert!(error.contains(says), "{text}: {error}");
            }
        }
        for text in [
            r#"{"a":{"a":{"a":["a","a",{"a":1}]}},"b":"\ud83d\ude00","c":"\\ud800","d":1e308}"#,
            r#"[{"a":1},{"a":1}]"#,
            r#"{"a,\"b":1,"a":"{\"a\":1,\"a\":2}"}"#,
        ] {
            RawJson::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }
}
