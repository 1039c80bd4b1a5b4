//! Deserializes TOML with serde from the tree of the `toml` crate, so that each error has a
//! position.
//!
//! The `toml` crate's own deserializer would quote a wrong value, which may be a misplaced secret,
//! and it does not suggest a key.

use crate::error::ManifestError;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde_spanned::de::{SpannedDeserializer, is_spanned};
use std::fmt::{self, Write as _};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The maximum length of a word that an error quotes where one of a few words is expected. A secret is longer.
const MAX_QUOTED_BYTES: usize = 8;
/// The maximum length of a key that is compared with the valid ones: a comparison takes longer for
/// longer keys.
const MAX_SUGGESTED_BYTES: usize = 24;

/// Deserializes `text`, the contents of `file`, and checks the result with `check`.
///
/// A [`Spanned`] value spans from its key to the end of the value. An item of an array spans only
/// itself.
pub(crate) fn read<T: DeserializeOwned, R>(
    file: &str,
    text: &str,
    check: impl FnOnce(T, &Lines) -> Result<R, Error>,
) -> Result<R, ManifestError> {
    let lines = Lines::of(text);
    let error = |at: Option<usize>, what| ManifestError {
        file: file.to_owned(),
        line: at.map(|at| lines.at(at)),
        what,
    };
    let table = DeTable::parse(text).map_err(|fault| {
        error(fault.span().map(|span| span.start), format!("is not TOML: {}", fault.message()))
    })?;
    let root = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
    let document = T::deserialize(Node { value: &root, start: 0 });
    document.and_then(|document| check(document, &lines)).map_err(|Error { at, what, .. }| {
        let mut path = String::new();
        match at {
            Some(at) if find(root.get_ref(), at, &mut path) => error(Some(at), format!("`{path}`: {what}")),
            _ => error(at, what),
        }
    })
}

/// Writes the path of the key or item that starts at `at`. Returns false if there is none.
fn find(value: &DeValue<'_>, at: usize, path: &mut String) -> bool {
    let parent = path.len();
    match value {
        DeValue::Table(table) => table.iter().any(|(key, value)| {
            path.truncate(parent);
            path.push_str(if parent == 0 { "" } else { "." });
            path.push_str(key.get_ref());
            key.span().start == at || find(value.get_ref(), at, path)
        }),
        DeValue::Array(items) => items.iter().enumerate().any(|(index, value)| {
            path.truncate(parent);
            let _ = write!(path, "[{index}]");
            value.span().start == at || find(value.get_ref(), at, path)
        }),
        _ => false,
    }
}

/// The positions of the line ends, in order.
#[derive(Default)]
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn at(&self, at: usize) -> usize {
        1 + self.0.partition_point(|end| *end < at)
    }

    /// The line number, from 1, of a value's key.
    pub fn line<T>(&self, value: &Spanned<T>) -> usize {
        self.at(value.span().start)
    }
}

/// An error about the key or item that starts at `at`.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Error {
    what: String,
    /// Whether the actual type of the value must still be added.
    lacks_type: bool,
    at: Option<usize>,
}

impl Error {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), lacks_type: false, at: None }
    }

    /// An error about this value.
    pub fn at<T>(value: &Spanned<T>, what: impl Into<String>) -> Self {
        Self { at: Some(value.span().start), ..Self::new(what) }
    }

    fn expected(what: impl fmt::Display) -> Self {
        Self { lacks_type: true, ..Self::new(format!("expected {what}")) }
    }
}

/// No error quotes a value, except a short word in place of another word.
impl de::Error for Error {
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self::new(what.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        // serde's names of types in TOML's terms.
        match expected.to_string().as_str() {
            "a boolean" => Self::expected("true or false"),
            "a sequence" => Self::expected("an array"),
            "a map" => Self::expected("a table"),
            // serde's default for a table without an example of its own.
            other if other.starts_with("struct ") => Self::expected("a table"),
            other => Self::expected(other),
        }
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::expected(expected)
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::expected(expected)
    }

    fn unknown_variant(word: &str, words: &'static [&'static str]) -> Self {
        let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        let expected = match quoted.split_last() {
            Some((last, others @ [_, ..])) => format!("{} or {last}", others.join(", ")),
            _ => quoted.concat(),
        };
        let is_word = (1..=MAX_QUOTED_BYTES).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_alphabetic());
        if is_word {
            Self::new(format!("expected {expected}, found \"{word}\""))
        } else {
            Self::expected(expected)
        }
    }

    fn unknown_field(key: &str, valid: &'static [&'static str]) -> Self {
        let is_short = key.len() <= MAX_SUGGESTED_BYTES;
        Self::new(match is_short.then(|| nearest(key, valid.iter().copied())).flatten() {
            Some(nearest) => format!("is not a key of a manifest; the nearest is `{nearest}`"),
            None => "is not a key of a manifest".to_owned(),
        })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(format!("has no `{key}`"))
    }
}

/// The known name with the smallest edit distance to `name`; `None` if there are no names.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|known| strsim::damerau_levenshtein(known, name))
}

/// A value with the start of its key or, for an item of an array, its own start.
#[derive(Clone, Copy)]
struct Node<'de> {
    value: &'de Spanned<DeValue<'de>>,
    start: usize,
}

impl<'de> Node<'de> {
    /// Deserializes the value. An error without a position gets the position of this value.
    fn read<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self).map_err(|mut error| {
            if error.at.is_none() && error.lacks_type {
                let _ = write!(error.what, ", found {}", self.value.get_ref().type_str());
            }
            Error { at: error.at.or(Some(self.start)), ..error }
        })
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_borrowed_str(text),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => visitor.visit_i64(number),
                // It stays text in JSON.
                Err(_) => visitor.visit_borrowed_str(number.as_str()),
            },
            DeValue::Float(number) => visitor.visit_f64(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(boolean) => visitor.visit_bool(*boolean),
            DeValue::Datetime(moment) => visitor.visit_string(moment.to_string()),
            DeValue::Array(items) => visitor.visit_seq(Items(items.iter())),
            DeValue::Table(table) => visitor.visit_map(Members { entries: table.iter(), value: None }),
        }
    }

    /// Does not accept numbers or dates as text.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value.get_ref() {
            DeValue::Integer(_) | DeValue::Datetime(_) => {
                Err(de::Error::invalid_type(Unexpected::Other("a value"), &visitor))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if is_spanned(name) {
            visitor.visit_map(SpannedDeserializer::new(self, self.start..self.value.span().end))
        } else if self.value.get_ref().is_table() {
            self.deserialize_any(visitor)
        } else {
            // Otherwise serde would also accept an array for a struct.
            Err(de::Error::invalid_type(Unexpected::Other("a value"), &visitor))
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value.get_ref() {
            DeValue::String(word) => visitor.visit_enum(StrDeserializer::new(word)),
            _ => Err(de::Error::unknown_variant("", words)),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for Node<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The members of a table.
struct Members<'de> {
    entries: toml::map::Iter<'de, Spanned<DeString<'de>>, Spanned<DeValue<'de>>>,
    value: Option<Node<'de>>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        let start = key.span().start;
        self.value = Some(Node { value, start });
        let key = seed.deserialize(BorrowedStrDeserializer::new(key.get_ref()));
        key.map(Some).map_err(|error: Error| Error { at: Some(start), ..error })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        self.value.take().ok_or_else(|| Error::new("a value comes after its key"))?.read(seed)
    }
}

/// The items of an array.
struct Items<'de>(std::slice::Iter<'de, Spanned<DeValue<'de>>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|value| Node { value, start: value.span().start }.read(seed)).transpose()
    }
}
