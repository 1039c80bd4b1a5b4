//! The encryption keys of tasks, from a file that only its owner can read or from the environment. The host
//! reads them when it opens a store. No stored or shown configuration contains them.

use super::value::hex_bytes;
use anyhow::{Context as _, bail};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use toolyard_cli::read;
use toolyard_store::Keyring;

/// The variable that holds the keys themselves.
pub const VARIABLE: &str = "TOOLYARD_ENCRYPTION_KEYS";

/// The largest key file, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// The mode bits of users other than the owner.
const OTHERS: u32 = 0o077;

/// The keys; `None` if tasks are stored in plain text.
///
/// # Errors
/// If the file cannot be read, others may read it, or a line is not a key. The error shows no part of a key.
pub fn keys(file: Option<&Path>) -> anyhow::Result<Option<Arc<Keyring>>> {
    let variable = std::env::var(VARIABLE).ok().filter(|keys| !keys.trim().is_empty());
    match (file, variable) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => bail!("both `encryption.key-file` and {VARIABLE} are set; unset one of them"),
        (Some(file), None) => {
            let text =
                read_private(file).with_context(|| format!("`encryption.key-file` = {}", file.display()))?;
            let keys = parse(&text).with_context(|| format!("in {}", file.display()))?;
            if keys.is_none() {
                bail!("there is no key in {}", file.display());
            }
            Ok(keys)
        }
        (None, Some(keys)) => parse(&keys.replace(',', "\n")).with_context(|| format!("in {VARIABLE}")),
    }
}

fn read_private(path: &Path) -> anyhow::Result<String> {
    let file = read::open(path)?;
    let mode = file.metadata()?.mode();
    if mode & OTHERS != 0 {
        bail!("users other than its owner may use it (mode {:o}); run `chmod 600` on it", mode & 0o777);
    }
    Ok(read::text_of(file, MAX_BYTES)?)
}

/// Parses one key per line, the newest first. A `#` starts a comment.
fn parse(text: &str) -> anyhow::Result<Option<Arc<Keyring>>> {
    let mut keys = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let expected = "expected a key of 64 hexadecimal digits, as `openssl rand -hex 32` makes one";
            keys.push(hex_bytes(line).with_context(|| format!("line {}: {expected}", number + 1))?);
        }
    }
    Ok(Keyring::new(keys))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

    #[test]
    fn the_first_key_of_a_list_seals_and_comments_are_left_out() {
        let other = "ff".repeat(32);
        let both = parse(&format!("# newest\n\n {KEY} # since May\n{other}\n")).expect("valid").expect("two");
        let first = parse(KEY).expect("valid").expect("one");
        assert_eq!(both.newest(), first.newest());
        assert!(both.has(parse(&other).expect("valid").expect("one").newest()));
        assert!(parse("\n# nothing\n").expect("valid").is_none());
    }

    #[test]
    fn what_is_no_key_is_refused_by_its_line_and_not_shown() {
        for bad in ["secret", &KEY[1..], &format!("{KEY}0"), &KEY.replace('0', "g"), &"\u{e4}".repeat(32)] {
            let error = format!("{:#}", parse(&format!("{KEY}\n{bad}")).expect_err(bad));
            assert!(error.contains("line 2") && error.contains("openssl rand -hex 32"), "{error}");
            assert!(!error.contains(bad), "{error}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        fs::write(&path, KEY).expect("writes");
        for (mode, fits) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("sets");
            let read = keys(Some(&path));
            assert_eq!(read.is_ok(), fits, "{mode:o}: {read:?}");
        }
        assert!(format!("{:#}", keys(Some(&path)).expect_err("too open")).contains("chmod 600"));
        assert!(keys(Some(folder.path())).is_err(), "a folder");
        assert!(keys(Some(&folder.path().join("none"))).is_err(), "not there");
        fs::write(&path, "# none\n").expect("writes");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("sets");
        assert!(format!("{:#}", keys(Some(&path)).expect_err("empty")).contains("there is no key"));
    }
}
