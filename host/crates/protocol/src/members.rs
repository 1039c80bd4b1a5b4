//! The members of an object as they are written: nothing is copied, nothing below
//! them is read, and a name is compared however it is escaped.

use serde::Deserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// A member of an object.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// The name of the member as it is written, with the quotes.
    pub name: &'a str,
    /// The value of the member.
    pub value: &'a RawValue,
}

impl<'a> Member<'a> {
    /// Whether it has this name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        if self.is_escaped() {
            // Half a surrogate pair is valid JSON, but occurs in no known name.
            return self.text().is_some_and(|text| text == name);
        }
        self.name.len() == name.len() + 2 && &self.name[1..self.name.len() - 1] == name
    }

    /// The name of the member; `None` if it has half a surrogate pair.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        serde_json::from_str(self.name).ok()
    }

    /// Whether something in its name is escaped.
    #[must_use]
    pub fn is_escaped(&self) -> bool {
        self.name.contains('\\')
    }

    /// The value of the member if that is an object.
    #[must_use]
    pub fn object(&self) -> Option<&'a str> {
        Some(self.value.get()).filter(|text| text.starts_with('{'))
    }
}

/// Passes each member of an object to `visit` in order, including those of the same name.
///
/// # Errors
/// That of `serde_json`, if the text is not an object; members before the fault were passed.
pub fn each<'a>(object: &'a str, visit: impl FnMut(Member<'a>)) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(object);
    reader.deserialize_map(Members(visit))
}

/// The value of the last member of this name, which counts when an object is read as a whole.
#[must_use]
pub fn last<'a>(object: &'a str, name: &str) -> Option<&'a RawValue> {
    let mut found = None;
    each(object, |member| {
        if member.is(name) {
            found = Some(member.value);
        }
    })
    .ok()?;
    found
}

struct Members<F>(F);

impl<'a, F: FnMut(Member<'a>)> Visitor<'a> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<&RawValue>()? {
            let name = name.get();
            if !name.starts_with('"') {
                return Err(A::Error::custom("a name is a string"));
            }
            self.0(Member { name, value: map.next_value()? });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
