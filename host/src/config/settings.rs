//! The settings in force, for people.

use super::limits::TABLE;
use super::{Config, PLAIN_KEYS};

/// A value as it was written, and where.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub value: String,
    /// The file, the environment variable or the flag.
    pub place: String,
}

/// A setting in force.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The key of the setting.
    pub key: &'static str,
    /// The value as written, or the default.
    pub value: String,
    /// The file, variable or flag that sets it; `None` for the default.
    pub origin: Option<String>,
}

impl Config {
    /// The server's name for people.
    pub fn shown_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// All settings that have a single value, in the order of the page of settings. A database address is left out,
    /// because it may contain a password.
    pub fn settings(&self) -> Vec<Setting> {
        let limits = TABLE.iter().map(|row| (row.key, Some(row.default)));
        let plain = PLAIN_KEYS.iter().filter(|key| **key != "store").map(|key| (*key, None));
        let setting = |(key, default): (&'static str, Option<&str>)| match (self.set.get(key), default) {
            (Some(set), _) => {
                Some(Setting { key, value: set.value.clone(), origin: Some(set.place.clone()) })
            }
            (None, Some(default)) => Some(Setting { key, value: default.to_owned(), origin: None }),
            (None, None) => None,
        };
        plain.chain(limits).filter_map(setting).collect()
    }
}
