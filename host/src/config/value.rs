//! The values of the configuration in text form.

use bytesize::ByteSize;
use jiff::SignedDuration;
use std::path::PathBuf;
use std::time::Duration;
use toolyard_dispatch::{Capture, OnClientTimeout, OutputSchemas, Rate};
use toolyard_trust::policy::Requirement;

/// A kind of value.
pub trait Value: Sized {
    /// The name of the kind, for the table of settings.
    const KIND: &'static str;

    /// Parses one.
    ///
    /// # Errors
    /// The expected form.
    fn read(text: &str) -> Result<Self, String>;
}

/// The 32 bytes that 64 hexadecimal digits stand for.
pub fn hex_bytes(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let decoded = base16ct::mixed::decode(text, &mut bytes).ok()?;
    (decoded.len() == 32).then_some(bytes)
}

impl Value for bool {
    const KIND: &'static str = "true or false";

    fn read(text: &str) -> Result<Self, String> {
        text.trim().parse().map_err(|_| format!("expected true or false, not `{text}`"))
    }
}

impl Value for u32 {
    const KIND: &'static str = "number";

    fn read(text: &str) -> Result<Self, String> {
        match text.trim().parse() {
            Ok(0) | Err(_) => Err(format!("expected a whole number from 1 on, not `{text}`")),
            Ok(number) => Ok(number),
        }
    }
}

/// A part of the whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio(f64);

impl Ratio {
    /// The part of `whole` that the ratio gives. A ratio of 1 gives `whole + 1`, so that nothing is left out.
    #[must_use]
    pub fn of(self, whole: u128) -> u128 {
        if self.0 >= 1.0 { whole + 1 } else { (whole as f64 * self.0) as u128 }
    }
}

impl Value for Ratio {
    const KIND: &'static str = "ratio";

    fn read(text: &str) -> Result<Self, String> {
        match text.trim().parse::<f64>() {
            Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(Self(ratio)),
            _ => Err(format!("expected a number from 0 to 1, not `{text}`")),
        }
    }
}

impl Value for Duration {
    const KIND: &'static str = "duration";

    fn read(text: &str) -> Result<Self, String> {
        text.trim()
            .parse::<SignedDuration>()
            .ok()
            .and_then(|duration| Self::try_from(duration).ok())
            .ok_or_else(|| format!("expected a duration such as 250ms, 30s, 10min or 1h, not `{text}`"))
    }
}

impl Value for Option<Rate> {
    const KIND: &'static str = "rate";

    fn read(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => Ok(None),
            rate => rate.parse().map(Some).map_err(|error| format!("{error}, or none, not `{text}`")),
        }
    }
}

impl Value for ByteSize {
    const KIND: &'static str = "size";

    fn read(text: &str) -> Result<Self, String> {
        text.trim().parse().map_err(|_| format!("expected a size such as 64KiB or 8MiB, not `{text}`"))
    }
}

/// A size; `auto` lets the machine decide.
impl Value for Option<ByteSize> {
    const KIND: &'static str = "size or auto";

    fn read(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(None),
            size => ByteSize::read(size).map(Some).map_err(|expected| format!("{expected}, or auto")),
        }
    }
}

impl Value for PathBuf {
    const KIND: &'static str = "path";

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("expected a path".to_owned()) } else { Ok(text.into()) }
    }
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// Text before the names of the host tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// The most characters, so that the longest name has 64, with the host's own prefix before it.
    const MAX_LENGTH: usize = 40;

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Value for Prefix {
    const KIND: &'static str = "letters, digits, `_` and `-`";

    fn read(text: &str) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if text.len() <= Self::MAX_LENGTH && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("expected at most {} {}, not `{text}`", Self::MAX_LENGTH, Self::KIND))
    }
}

/// How far the lock file is obeyed (`plugins.lock`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// The entries are enforced; a file without an entry is loaded.
    Auto,
    /// A file without an entry is refused.
    Enforce,
    /// The file is ignored.
    Off,
}

/// The destination of audit entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditTo {
    /// The command's default.
    Auto,
    /// To a file.
    File,
    /// To stderr.
    Stderr,
    /// Nowhere: none are written.
    Off,
}

impl AuditTo {
    /// Turns the default into a file, for commands that write one unless the operator says otherwise.
    pub fn or_file(&mut self) {
        if *self == Self::Auto {
            *self = Self::File;
        }
    }
}

macro_rules! words {
    ($($kind:ty: $expected:literal = $($word:literal => $value:ident),*;)*) => {
        $(impl Value for $kind {
            const KIND: &'static str = $expected;

            fn read(text: &str) -> Result<Self, String> {
                match text.trim() {
                    $($word => Ok(Self::$value),)*
                    other => Err(format!("expected {}, not `{other}`", Self::KIND)),
                }
            }
        })*
    };
}

words! {
    LogFormat: "text or json" = "text" => Text, "json" => Json;
    OnClientTimeout: "keep or stop" = "keep" => Keep, "stop" => Stop;
    OutputSchemas: "union or drop" = "union" => Union, "drop" => Drop;
    Capture: "off, errors or all" = "off" => Off, "errors" => Errors, "all" => All;
    LockMode: "auto, enforce or off" = "auto" => Auto, "enforce" => Enforce, "off" => Off;
    Requirement: "none, first-use or always" = "none" => None, "first-use" => FirstUse, "always" => Always;
    AuditTo: "auto, file, stderr or off" = "auto" => Auto, "file" => File, "stderr" => Stderr, "off" => Off;
}
