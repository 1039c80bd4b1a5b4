//! `toolyard keygen`: makes a key pair to sign plugins with, in the form of cosign.

use crate::config::Flags;
use crate::install::password;
use anyhow::Context as _;
use clap::Args;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use toolyard_cli::say;
use toolyard_trust::key::PrivateKey;

/// The options of `keygen`.
#[derive(Debug, Args)]
pub struct Options {
    /// The names of the two files, without `.key` and `.pub`.
    #[arg(long, short, value_name = "PATH", default_value = "cosign")]
    output: PathBuf,
}

/// Makes the pair. Never replaces a file.
pub fn run(_: &Flags, options: &Options) -> anyhow::Result<()> {
    let with = |extension: &str| {
        let mut path = options.output.clone().into_os_string();
        path.push(extension);
        PathBuf::from(path)
    };
    let (private, public) = (with(".key"), with(".pub"));
    let password = password::new("COSIGN_PASSWORD")?;
    let key = PrivateKey::generate();
    write(&private, &key.to_encrypted_pem(&password)?, 0o600)?;
    write(&public, &key.public().to_pem(), 0o644)?;
    say!("wrote {} (keep it secret) and {} (publish it)", private.display(), public.display());
    say!("fingerprint {}", key.public().fingerprint());
    Ok(())
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path).with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)
}
