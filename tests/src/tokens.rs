//! Access tokens in the configuration, for tests with several principals.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

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
    let mut hash = String::new();
    for byte in Sha256::digest(token(name)) {
        write!(hash, "{byte:02x}").expect("writing to a String does not fail");
    }
    format!("[[auth.tokens]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{rest}\n")
}
