//! The name of a background host.

use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Environment variables by name; `None` if a variable is not set.
pub type Variables = BTreeMap<String, Option<OsString>>;

/// Sixteen hexadecimal digits that differ if the texts differ: short enough for a file name, and long enough
/// that two texts do not share them by chance.
pub fn fingerprint(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the background host for this fingerprint of the settings and for the variables that
/// manifests have asked for: a different secret means a different host.
pub fn host_name(settings: &str, variables: &Variables) -> String {
    fingerprint(&format!("{:?}", (settings, variables)))
}
