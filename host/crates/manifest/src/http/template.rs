//! The values of headers that the host adds. They contain the names of secrets in braces.

use crate::values;
use serde::Deserialize;
use serde::de::Deserializer;

/// A value that contains the names of secrets in braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Secret(String),
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        values::parsed(deserializer, Self::parse)
    }
}

impl Template {
    /// # Errors
    /// The fault of the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("has a `{` without a `}`")?;
            parts.extend([Part::Text(before.to_owned()), Part::Secret(name.to_owned())]);
            rest = after;
        }
        if rest.contains('}') {
            return Err("has a `}` without a `{`".to_owned());
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self(parts))
    }

    /// The names of the secrets that it contains.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Secret(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text with the value of each secret inserted; `None` if `value` lacks one of them.
    pub fn filled<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(plain) => Some(plain.as_str()),
            Part::Secret(name) => value(name),
        });
        parts.collect()
    }
}
