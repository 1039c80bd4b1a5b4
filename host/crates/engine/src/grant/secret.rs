//! Secrets that a manifest names. They are read from the host's environment, from a file or from a command together
//! with the manifest, and never shown.

use super::secret_command;
use crate::settings::SecretCommands;
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
const MIN_BYTES: usize = 8;
const MAX_BYTES: u64 = 64 << 10;

/// A named secret. Its `Debug` and `Display` forms show only the name.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    name: Arc<str>,
    value: Arc<str>,
    /// Whether guests get it as an environment variable.
    pub exposed: bool,
    /// Whether this is the value that the manifest names. If not, it stands in for one that is not there.
    pub is_there: bool,
}

impl Secret {
    /// # Errors
    /// Why the value cannot be a secret.
    pub fn new(name: &str, value: &str) -> Result<Self, String> {
        if value.len() < MIN_BYTES {
            return Err(format!(
                "has fewer than {MIN_BYTES} bytes, which could not be kept out of results and logs"
            ));
        }
        if value.contains('\0') {
            return Err("holds a NUL".to_owned());
        }
        Ok(Self { name: name.into(), value: value.into(), exposed: false, is_there: true })
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

/// Where the values of secrets come from, besides files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// Reads a variable of the host's environment.
    pub variable: fn(&str) -> Option<OsString>,
    /// The commands of the configuration.
    pub commands: &'a SecretCommands,
    /// Whether a secret that is not there gets a value that is none, to try a plugin that is served elsewhere. No
    /// command is run then.
    pub stand_ins: bool,
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
    sources: Sources<'_>,
) -> Result<Vec<Secret>, ManifestError> {
    let Sources { variable, commands, stand_ins } = sources;
    let find = |named: &NamedSecret| {
        let refuse = |what: String| ManifestError {
            file: manifest.to_owned(),
            line: named.line,
            what: format!("`secrets.{}`: {what}", named.name),
        };
        let value = match &named.source {
            Source::Variable(name) => match variable(name) {
                Some(value) => Some(
                    value
                        .into_string()
                        .map_err(|_| refuse(format!("the environment variable {name} is not UTF-8")))?,
                ),
                None if stand_ins => None,
                None => {
                    let what = format!("the environment variable {name} is not set; set it for the host");
                    return Err(refuse(what));
                }
            },
            Source::File(path) if stand_ins && !place.join(path).exists() => None,
            Source::File(path) => {
                Some(read(&place.join(path)).map_err(|what| refuse(format!("the file {path} {what}")))?)
            }
            Source::Command(_) if stand_ins => None,
            Source::Command(name) => Some(match commands.get(name) {
                Some(command) => secret_command::run(command, MAX_BYTES)
                    .and_then(text)
                    .map_err(|what| refuse(format!("the command {name} {what}")))?,
                None => {
                    let what = format!("the configuration has no command {name} in `[secret-commands]`");
                    return Err(refuse(what));
                }
            }),
        };
        let is_there = value.is_some();
        let value = value.unwrap_or_else(|| format!("stands in for {}", named.name));
        let mut secret =
            Secret::new(&named.name, &value).map_err(|what| refuse(format!("its value {what}")))?;
        secret.is_there = is_there;
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
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("is larger than {MAX_BYTES} bytes"));
    }
    text(bytes)
}

/// The value in a file or in the output of a command: without the line end.
fn text(bytes: Vec<u8>) -> Result<String, String> {
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

    fn commands() -> SecretCommands {
        let shell = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
        let commands = [
            ("vault", "echo from the vault"),
            ("sealed", "echo sealed >&2; exit 1"),
            ("bad", "printf '\\377'"),
        ];
        commands.map(|(name, script)| (name.to_owned(), shell(script))).into()
    }

    fn sources(commands: &SecretCommands, stand_ins: bool) -> Sources<'_> {
        Sources { variable, commands, stand_ins }
    }

    fn variable(name: &str) -> Option<OsString> {
        match name {
            "SET" => Some("value-of-it".into()),
            "SHORT" => Some("value".into()),
            _ => None,
        }
    }

    #[test]
    fn values_come_from_a_variable_a_file_or_a_command_and_are_not_shown() {
        let place = tempfile::tempdir().expect("a folder");
        std::fs::write(place.path().join("key"), "from the file\n\n").expect("writes");
        let find = |source, expose| {
            find("p.toml", place.path(), &named(source, expose), &["KEY"], sources(&commands(), false))
        };
        let of_variable = find(Source::Variable("SET".into()), Some(true)).expect("found");
        assert_eq!((of_variable[0].reveal(), of_variable[0].exposed), ("value-of-it", true));
        assert_eq!(format!("{of_variable:?} {}", of_variable[0]), "[[secret KEY]] [secret KEY]");
        let of_file = find(Source::File("./key".into()), None).expect("found");
        assert_eq!((of_file[0].reveal(), of_file[0].exposed), ("from the file\n", false), "it is injected");
        let of_command = find(Source::Command("vault".into()), None).expect("found");
        assert_eq!(of_command[0].reveal(), "from the vault");
    }

    #[test]
    fn another_value_stands_in_for_one_that_is_not_there() {
        let place = tempfile::tempdir().expect("a folder");
        let find =
            |source| find("p.toml", place.path(), &named(source, None), &[], sources(&commands(), true));
        for (source, is_there) in [
            (Source::Variable("SET".into()), true),
            (Source::Variable("UNSET".into()), false),
            (Source::File("none".into()), false),
            // It is not run.
            (Source::Command("vault".into()), false),
        ] {
            assert_eq!(find(source.clone()).expect("a secret")[0].is_there, is_there, "{source:?}");
        }
        find(Source::Variable("SHORT".into())).expect_err("a wrong value is none");
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
            (Source::Command("none".into()), "the configuration has no command none in `[secret-commands]`"),
            (Source::Command("sealed".into()), "the command sealed failed with exit status: 1: sealed"),
            (Source::Command("bad".into()), "the command bad is not UTF-8"),
        ] {
            let error = find("p.toml", place.path(), &named(source, None), &[], sources(&commands(), false))
                .expect_err(says);
            let shown = error.to_string();
            assert!(shown.starts_with("the manifest p.toml line 3: `secrets.KEY`"), "{shown}");
            assert!(shown.contains(says) && !shown.contains("1234567"), "{shown}");
        }
    }
}
