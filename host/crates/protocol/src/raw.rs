//! JSON text that is carried, not parsed.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value as UTF-8 text, known to be well formed. Cloning counts a
/// reference; a value cut from a request body shares the body's memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Bytes);

/// Text nested deeper than this is not taken by [`RawJson::parse`], which is what
/// guests' JSON goes through. Params of a client are carried unread; whoever reads
/// them does so with serde_json, which stops at the same depth.
pub const MAX_DEPTH: usize = 128;

/// Why a text is not taken as JSON.
#[derive(Debug, thiserror::Error)]
pub enum RawJsonError {
    /// Not one well-formed JSON value.
    #[error("not valid JSON: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("JSON nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl RawJson {
    /// Checks `text` and takes it over. Scans the text once.
    ///
    /// # Errors
    /// [`RawJsonError`] if it is not one JSON value, or too deep.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, RawJsonError> {
        let text = text.into();
        let value: &RawValue = serde_json::from_slice(&text)?;
        let trimmed = text.slice_ref(value.get().as_bytes());
        if depth(&trimmed) > MAX_DEPTH {
            return Err(RawJsonError::TooDeep);
        }
        Ok(Self(trimmed))
    }

    /// The text of `value`, sharing the memory of `owner`, which must contain it.
    #[must_use]
    pub(crate) fn within(owner: &Bytes, value: &RawValue) -> Self {
        Self(owner.slice_ref(value.get().as_bytes()))
    }

    /// The text of `value` within `owner`, to be kept for longer than the rest: in memory of
    /// its own where the rest is large.
    #[must_use]
    pub(crate) fn kept(owner: &Bytes, value: &RawValue) -> Self {
        const LARGE: usize = 64 << 10;
        let within = Self::within(owner, value);
        if owner.len() > LARGE { within.detached() } else { within }
    }

    /// Encodes a value of ours. Values whose encoding can fail (maps with keys
    /// that are not strings) are not used with it.
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

    /// The same text in memory of its own: keeping it keeps nothing else.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// That of `serde_json`, if it does not have the shape of `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
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

/// The nesting depth of well-formed JSON text.
fn depth(text: &[u8]) -> usize {
    let (mut now, mut most) = (0_usize, 0_usize);
    let mut in_string = false;
    let mut escaped = false;
    for &byte in text {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                now += 1;
                most = most.max(now);
            }
            b']' | b'}' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Unlike `Option`'s own decoding, tells `null` from an absent member.
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
}
