//! The signatures that this host has verified, so that a start does not verify them again. Each is the digest of all that
//! decided about it. The file is in the data folder, beside the machine code that the host trusts as much.

use parking_lot::Mutex;
use rustix::process::geteuid;
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use toolyard_trust::Digest;

/// The most digests that are remembered. A file with more begins again.
const MAX_VERIFIED: usize = 10_000;
/// The longest file that is read, in bytes: each digest has 64 digits and a line end.
const MAX_BYTES: u64 = MAX_VERIFIED as u64 * 65;
/// The mode bits by which other users could write.
const OTHERS_WRITE: u32 = 0o022;

/// The signatures that were verified.
#[derive(Debug)]
pub struct VerifiedSignatures {
    file: PathBuf,
    known: Mutex<HashSet<Digest>>,
}

impl VerifiedSignatures {
    /// Reads those of the data folder. A file that another user owns or can write counts as empty.
    pub fn of(data: &Path) -> Self {
        let file = data.join("verified-signatures");
        let known = read(&file).unwrap_or_default();
        Self { file, known: Mutex::new(known) }
    }

    /// Whether this one was verified.
    pub fn has(&self, digest: &Digest) -> bool {
        self.known.lock().contains(digest)
    }

    /// Remembers one. If the file cannot be written, the next start verifies it again.
    pub fn add(&self, digest: Digest) {
        let mut known = self.known.lock();
        let begins_again = known.len() >= MAX_VERIFIED;
        if begins_again {
            known.clear();
        }
        if !known.insert(digest) {
            return;
        }
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600).append(!begins_again).write(true).truncate(begins_again);
        if let Ok(mut file) = options.open(&self.file) {
            let _ = file.write_all(format!("{}\n", digest.hex()).as_bytes());
        }
    }
}

fn read(path: &Path) -> Option<HashSet<Digest>> {
    let file = OpenOptions::new().read(true).open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.uid() != geteuid().as_raw() || found.mode() & OTHERS_WRITE != 0 {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text.lines().filter_map(Digest::from_hex).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_signature_is_remembered_unless_others_could_have_written_so() {
        let data = tempfile::tempdir().expect("a folder");
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        VerifiedSignatures::of(data.path()).add(one);
        let again = VerifiedSignatures::of(data.path());
        assert!(again.has(&one) && !again.has(&other));
        again.add(other);
        assert!(VerifiedSignatures::of(data.path()).has(&other));
        let file = data.path().join("verified-signatures");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("changes");
        assert!(!VerifiedSignatures::of(data.path()).has(&one));
    }
}
