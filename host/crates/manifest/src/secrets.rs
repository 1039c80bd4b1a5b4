//! `[secrets]`: values that are stored outside the manifest.

use crate::deserializer::{Error, Lines};
use crate::values;
use serde::Deserialize;
use serde::de::Deserializer;
use std::collections::BTreeMap;
use toml::Spanned;

const MAX_SECRETS: usize = 64;
const MAX_NAME_BYTES: usize = 128;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A variable of the host's environment.
    Variable(String),
    /// A file, relative to the manifest's folder. A newline at its end is not part of the value.
    File(String),
    /// A command of the host's configuration (`[secret-commands]`), by its name.
    Command(String),
}

/// An entry of `[secrets]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSecret {
    /// The secret's name.
    pub name: String,
    /// The source of its value.
    pub source: Source,
    /// Whether guests see it; `None` means only if it is not injected.
    pub expose: Option<bool>,
    /// The manifest's line, for errors.
    pub line: Option<usize>,
}

/// The section as in the text: secrets by name.
pub(crate) type SecretsSection = BTreeMap<String, Spanned<SecretTable>>;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { env = \"KEY\" }")]
pub(crate) struct SecretTable {
    #[serde(deserialize_with = "variable")]
    env: Option<String>,
    #[serde(deserialize_with = "path")]
    file: Option<String>,
    #[serde(deserialize_with = "command")]
    command: Option<String>,
    expose: Option<bool>,
}

fn variable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let fits = |text: &str| !text.is_empty() && !text.contains(['=', '\0']);
    values::bounded(deserializer, 1 << 10, "the name of an environment variable", fits).map(Some)
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let fits = |text: &str| !text.is_empty() && !text.contains('\0');
    values::bounded(deserializer, 4 << 10, "the path of a file, such as \"./api.key\"", fits).map(Some)
}

fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let fits = |text: &str| !text.is_empty() && !text.contains(char::is_control);
    let what = "the name of a command in `[secret-commands]` of the configuration";
    values::bounded(deserializer, 128, what, fits).map(Some)
}

/// Checks the section.
pub(crate) fn secrets(section: SecretsSection, lines: &Lines) -> Result<Vec<NamedSecret>, Error> {
    if let Some(entry) = section.values().nth(MAX_SECRETS) {
        return Err(Error::at(entry, format!("is one secret too many; {MAX_SECRETS} are the most")));
    }
    let secret = |(name, entry): (String, Spanned<SecretTable>)| {
        // The name replaces the secret in text of any kind.
        let fits = (1..=MAX_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !name.starts_with(|first: char| first.is_ascii_digit());
        if !fits {
            return Err(Error::at(&entry, "is not a name of letters, digits and `_`"));
        }
        let SecretTable { env, file, command, expose } = entry.get_ref();
        let source = match (env.clone(), file.clone(), command.clone()) {
            (Some(name), None, None) => Source::Variable(name),
            (None, Some(path), None) => Source::File(path),
            (None, None, Some(name)) => Source::Command(name),
            (None, None, None) => return Err(Error::at(&entry, "has none of `env`, `file` and `command`")),
            _ => return Err(Error::at(&entry, "has more than one of `env`, `file` and `command`")),
        };
        Ok(NamedSecret { name, source, expose: *expose, line: Some(lines.line(&entry)) })
    };
    section.into_iter().map(secret).collect()
}
