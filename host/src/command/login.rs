//! `toolyard login`: keeps the credentials of a registry where Docker and Podman keep theirs.

use super::plugins;
use crate::assemble;
use crate::config::Flags;
use crate::install::{fetch, password};
use anyhow::{Context as _, bail};
use clap::Args;
use std::io::{self, Read as _};
use std::process::ExitCode;
use toolyard_cli::{say, tell};
use toolyard_registry::credentials::{Credential, Store};
use zeroize::Zeroizing;

/// The largest password, in bytes.
const MAX_PASSWORD_BYTES: u64 = 64 << 10;

/// The options of `login`.
#[derive(Debug, Args)]
pub struct Options {
    /// The registry, such as ghcr.io.
    registry: String,
    /// The user.
    #[arg(long, short)]
    username: String,
    /// Read the password, or a token, from stdin.
    #[arg(long)]
    password_stdin: bool,
}

/// Tries the credentials, and keeps them.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = plugins::configured(flags)?;
    let Options { registry, username, password_stdin } = options;
    let registry = registry.strip_prefix("oci://").unwrap_or(registry);
    let password = match password_stdin {
        true => from_stdin()?,
        false => password::existing(
            "TOOLYARD_REGISTRY_PASSWORD",
            &format!("Password of {username} at {registry}: "),
        )?,
    };
    assemble::with_runtimes(|_| async move {
        plugins::until_stopped(async {
            fetch::client(&config)?.login(registry, username, &password).await?;
            let credential = Credential::password(username, &password);
            let saved = Store::from_environment().save(registry, credential).await?;
            match &saved.helper {
                Some(helper) => tell!("toolyard: {helper} keeps the password"),
                None => tell!(
                    "toolyard: {} has the password in base64, which everybody who may read the file can read; \
                     `credsStore` in it names a helper that keeps it in the keychain",
                    saved.file.display()
                ),
            }
            say!("logged in at {registry} as {username}");
            Ok(ExitCode::SUCCESS)
        })
        .await
    })
}

fn from_stdin() -> anyhow::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    io::stdin()
        .take(MAX_PASSWORD_BYTES)
        .read_to_string(&mut text)
        .context("cannot read the password from stdin")?;
    let password = text.trim_end_matches(['\n', '\r']);
    if password.is_empty() {
        bail!("stdin has no password");
    }
    Ok(Zeroizing::new(password.to_owned()))
}
