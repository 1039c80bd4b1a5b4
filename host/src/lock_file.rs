//! The lock file `toolyard.lock`: its content, and the names of the plugins in it.

use toolyard_trust::lock::Lock;

/// Parses the content of a lock file.
///
/// # Errors
/// The fault, for people.
pub fn parse(text: &[u8]) -> Result<Lock, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    Lock::parse(text).map_err(|error| error.to_string())
}

/// The name of a plugin in commands.
pub fn stem(file: &str) -> &str {
    file.strip_suffix(".wasm").unwrap_or(file)
}
