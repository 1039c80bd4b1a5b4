//! Access tokens in the configuration, for tests with several principals.

use sha2::{Digest as _, Sha256};

/// The token of this name.
pub fn token(name: &str) -> String {
    format!("{name}-token-of-the-tests")
}

/// The configuration of this token.
pub fn stanza(name: &str, scopes: &[&str]) -> String {
    stanza_with(name, &format!("scopes = {scopes:?}"))
}

/// The same for a token whose principal is the local user.
pub fn local_stanza(name: &str) -> String {
    stanza_with(name, "local = true")
}

fn stanza_with(name: &str, rest: &str) -> String {
    let hash = sha256(token(name).as_bytes());
    format!("[[auth.tokens]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{rest}\n")
}

/// The SHA-256 hash of bytes, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
