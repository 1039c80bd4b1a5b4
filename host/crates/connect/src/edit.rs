//! Editing one entry of a configuration file. Every edit is checked: the rest of the content stays the same.

use crate::change::Change;
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

    /// The text with the change of one entry of a section. Comments, line ends and indentation of the rest stay.
    ///
    /// # Errors
    /// The reason why the text cannot be edited so that its other content stays the same.
    pub fn edit(self, text: &str, section: &str, name: &str, change: &Change<'_>) -> Result<String, String> {
        let edited = match self {
            Self::Json => json::edit(text, section, name, change)?,
            Self::Toml => toml::edit(text, section, name, change)?,
        };
        let (former, new) = (self.parse(text)?, self.parse(&edited)?);
        let is_same = former.without(section, name) == new.without(section, name);
        let entry = new.get(section).and_then(|servers| servers.get(name));
        let is_changed = match change {
            Change::Remove => entry.is_none(),
            Change::Set { fields, dropped } => entry.is_some_and(|entry| {
                fields.iter().all(|(key, value)| entry.get(key) == Some(value))
                    && dropped.iter().all(|key| entry.get(key).is_none())
            }),
        };
        if is_same && is_changed { Ok(edited) } else { Err("an edit would change other content".to_owned()) }
    }
}
