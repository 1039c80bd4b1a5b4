//! `[secrets]`: values that are nowhere in the manifest.

use super::read::{Entry, Section};
use crate::error::ManifestError;

const MOST: usize = 64;
const NAME_BYTES: usize = 128;

/// Where the value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In a variable of the host's environment.
    Variable(String),
    /// In a file, from the manifest's folder; a newline at its end is not part of it.
    File(String),
}

/// One entry of `[secrets]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSecret {
    /// Its name.
    pub name: String,
    /// Where its value is.
    pub source: Source,
    /// Whether guests see it; if nothing is said, unless it is injected.
    pub expose: Option<bool>,
    /// The line of the manifest, for errors.
    pub line: Option<usize>,
}

/// Reads the section.
pub(super) fn secrets(section: &Section<'_>) -> Result<Vec<NamedSecret>, ManifestError> {
    let secrets = section.entries().map(|entry| secret(&entry)).collect::<Result<Vec<_>, _>>()?;
    match section.entries().nth(MOST) {
        Some(entry) => Err(entry.error(format!("is one secret too many; {MOST} are the most"))),
        None => Ok(secrets),
    }
}

fn secret(entry: &Entry<'_>) -> Result<NamedSecret, ManifestError> {
    let name = entry.key();
    // It stands in the secret's place in text of any kind.
    let fits = (1..=NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if !fits {
        return Err(entry.error("is not a name of letters, digits and `_`".to_owned()));
    }
    let (mut source, mut expose) = (None, None);
    for member in entry.section()?.entries() {
        match member.key() {
            "env" | "file" if source.is_some() => {
                return Err(entry.error("has both `env` and `file`".to_owned()));
            }
            "env" => match member.text_of(1 << 10)? {
                text if text.is_empty() || text.contains(['=', '\0']) => {
                    return Err(member.expected("the name of an environment variable"));
                }
                text => source = Some(Source::Variable(text)),
            },
            "file" => match member.text_of(4 << 10)? {
                text if text.is_empty() || text.contains('\0') => {
                    return Err(member.expected("the path of a file, such as \"./api.key\""));
                }
                text => source = Some(Source::File(text)),
            },
            "expose" => expose = Some(member.boolean()?),
            _ => return Err(member.unknown(&["env", "file", "expose"])),
        }
    }
    let source = source.ok_or_else(|| entry.error("has neither `env` nor `file`".to_owned()))?;
    Ok(NamedSecret { name: name.to_owned(), source, expose, line: entry.line() })
}
