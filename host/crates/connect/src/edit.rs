//! Editing one entry of a configuration file. Every edit is checked: the rest of the content stays the same.

use crate::fields::Fields;
use crate::value::Value;
use crate::{json, toml};

/// The format of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON, with or without comments.
    Json,
    /// TOML.
    Toml,
}

impl Format {
    /// The content of a text. An empty text has no keys.
    ///
    /// # Errors
    /// The reason and, if known, the line.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Json => json::parse(text),
            Self::Toml => toml::parse(text),
        }
    }

    /// The text in which one entry of a section has these fields, or without the entry if there are none. Comments,
    /// line ends and indentation of the rest stay.
    ///
    /// # Errors
    /// The reason why the text cannot be edited so that its other content stays the same.
    pub(crate) fn edit(
        self,
        text: &str,
        section: &str,
        name: &str,
        fields: Option<&Fields>,
    ) -> Result<String, String> {
        let edited = match self {
            Self::Json => json::edit(text, section, name, fields)?,
            Self::Toml => toml::edit(text, section, name, fields)?,
        };
        let (former, new) = (self.parse(text)?, self.parse(&edited)?);
        let is_same = former.without(section, name) == new.without(section, name);
        let entry = new.get(section).and_then(|servers| servers.get(name));
        let is_changed = match (fields, entry) {
            (Some(fields), Some(entry)) => fields.has(entry),
            (fields, entry) => fields.is_none() && entry.is_none(),
        };
        if is_same && is_changed { Ok(edited) } else { Err("an edit would change other content".to_owned()) }
    }
}
