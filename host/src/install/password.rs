//! Passwords, from an environment variable or a terminal that does not show them.

use anyhow::{Context as _, bail};
use std::io::{self, IsTerminal as _};
use zeroize::Zeroizing;

/// The password of a key that exists.
///
/// # Errors
/// If there is neither the variable nor a terminal.
pub fn existing(variable: &str, prompt: &str) -> anyhow::Result<Zeroizing<String>> {
    if let Ok(password) = std::env::var(variable) {
        return Ok(Zeroizing::new(password));
    }
    if !io::stdin().is_terminal() {
        bail!("there is no terminal to ask for the password; set {variable}");
    }
    rpassword::prompt_password(prompt).map(Zeroizing::new).context("cannot read the password")
}

/// A new password, typed twice.
///
/// # Errors
/// If there is neither the variable nor a terminal, or the two differ.
pub fn new(variable: &str) -> anyhow::Result<Zeroizing<String>> {
    let first = existing(variable, "Password for the private key: ")?;
    if std::env::var_os(variable).is_none() {
        let second = existing(variable, "The same once more: ")?;
        if first != second {
            bail!("the two passwords differ");
        }
    }
    Ok(first)
}
