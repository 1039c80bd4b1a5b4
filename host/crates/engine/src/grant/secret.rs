//! Secrets that a manifest names. They are read from the host's environment or from a file together
//! with the manifest, and never shown.

use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use toolyard_manifest::{ManifestError, NamedSecret, Source};

/// A shorter value cannot be distinguished from other text and therefore cannot be redacted.
const LEAST_BYTES: usize = 8;
const MOST_BYTES: u64 = 64 << 10;

/// A named secret. Its `Debug` and `Display` forms show only the name.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    name: Arc<str>,
    value: Arc<str>,
    /// Whether guests get it as an environment variable.
    pub exposed: bool,
}

impl Secret {
    /// # Errors
    /// Why the value cannot be a secret.
    pub fn new(name: &str, value: &str) -> Result<Self, String> {
        if value.len() < LEAST_BYTES {
            return Err(format!(
                "has fewer than {LEAST_BYTES} bytes, which could not be kept out of results and logs"
            ));
        }
        if value.contains('\0') {
            return Err("holds a NUL".to_owned());
        }
        Ok(Self { name: name.into(), value: value.into(), exposed: false })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value. The caller is responsible for where it goes.
    pub fn reveal(&self) -> &str {
        &self.value
    }

    /// The replacement text.
    pub fn mark(&self) -> String {
        format!("[secret {}]", self.name)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mark())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mark())
    }
}

/// Reads the secrets that `manifest`, a file in `place`, names. `injected` are the names of the
/// secrets that the host puts into headers.
///
/// # Errors
/// If a secret is missing or invalid. The message never contains the value.
pub(crate) fn find(
    manifest: &str,
    place: &Path,
    named: &[NamedSecret],
    injected: &[&str],
    variable: fn(&str) -> Option<OsString>,
) -> Result<Vec<Secret>, ManifestError> {
    let find = |named: &NamedSecret| {
        let refuse = |what: String| ManifestError {
            file: manifest.to_owned(),
            line: named.line,
            what: format!("`secrets.{}`: {what}", named.name),
        };
        let value = match &named.source {
            Source::Variable(name) => {
                let value = variable(name).ok_or_else(|| {
                    refuse(format!("the environment variable {name} is not set; set it for the host"))
                })?;
                value
                    .into_string()
                    .map_err(|_| refuse(format!("the environment variable {name} is not UTF-8")))?
            }
            Source::File(path) => {
                read(&place.join(path)).map_err(|what| refuse(format!("the file {path} {what}")))?
            }
        };
        let mut secret =
            Secret::new(&named.name, &value).map_err(|what| refuse(format!("its value {what}")))?;
        secret.exposed = named.expose.unwrap_or(!injected.contains(&named.name.as_str()));
        Ok(secret)
    };
    named.iter().map(find).collect()
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "is not there".to_owned(),
        kind => format!("cannot be read: {kind}"),
    };
    // A blocking open of a pipe would wait for a writer.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("is larger than {MOST_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let trimmed = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text));
    Ok(trimmed.unwrap_or(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(source: Source, expose: Option<bool>) -> Vec<NamedSecret> {
        vec![NamedSecret { name: "KEY".to_owned(), source, expose, line: Some(3) }]
    }

    fn variable(name: &str) -> Option<OsString> {
        match name {
            "SET" => Some("value-of-it".into()),
            "SHORT" => Some("value".into()),
            _ => None,
        }
    }

    #[test]
    fn values_come_from_a_variable_or_a_file_and_are_not_shown() {
        let place = tempfile::tempdir().expect("a folder");
        std::fs::write(place.path().join("key"), "from the file\n\n").expect("writes");
        let find = |source, expose| find("p.toml", place.path(), &named(source, expose), &["KEY"], variable);
        let of_variable = find(Source::Variable("SET".into()), Some(true)).expect("found");
        assert_eq!((of_variable[0].reveal(), of_variable[0].exposed), ("value-of-it", true));
        assert_eq!(format!("{of_variable:?} {}", of_variable[0]), "[[secret KEY]] [secret KEY]");
        let of_file = find(Source::File("./key".into()), None).expect("found");
        assert_eq!((of_file[0].reveal(), of_file[0].exposed), ("from the file\n", false), "it is injected");
    }

    #[test]
    fn what_is_missing_is_named_without_any_value() {
        let place = tempfile::tempdir().expect("a folder");
        std::fs::write(place.path().join("short"), "1234567\n").expect("writes");
        for (source, says) in [
            (Source::Variable("UNSET".into()), "the environment variable UNSET is not set"),
            (Source::Variable("SHORT".into()), "fewer than 8 bytes"),
            (Source::File("./none".into()), "the file ./none is not there"),
            (Source::File(".".into()), "is not a regular file"),
            (Source::File("short".into()), "fewer than 8 bytes"),
        ] {
            let error = find("p.toml", place.path(), &named(source, None), &[], variable).expect_err(says);
            let shown = error.to_string();
            assert!(shown.starts_with("the manifest p.toml line 3: `secrets.KEY`"), "{shown}");
            assert!(shown.contains(says) && !shown.contains("1234567"), "{shown}");
        }
    }
}
