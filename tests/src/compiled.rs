//! Machine code of components, kept from one test to the next: starting a host is mostly compiling. Tests put
//! the code into the folder in which a host keeps it, as if the host had run there before. A host that finds
//! damaged code compiles again.

use crate::guests;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

/// The code in the data folder of a host. New code is kept when this is dropped.
#[derive(Debug)]
pub struct Compiled(PathBuf);

impl Compiled {
    /// Puts the kept code into the data folder of a host before it starts. A folder that is not writable, or
    /// is on another disk, stays unchanged.
    #[must_use]
    pub fn given_to(data: &Path) -> Self {
        let own = data.join("compiled");
        let Some(kept) = kept() else { return Self(own) };
        if make(&own) {
            link(kept, &own);
        }
        Self(own)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let Some(kept) = kept() else { return };
        link(&self.0, kept);
    }
}

/// The folder for code of exactly this binary; `None` if it cannot be made.
fn kept() -> Option<&'static PathBuf> {
    static KEPT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let binary = fs::metadata(guests::binary()).ok()?;
        let mut name = DefaultHasher::new();
        (binary.len(), binary.modified().ok()?.duration_since(UNIX_EPOCH).ok()?).hash(&mut name);
        let all = guests::root().join("target/compiled");
        let kept = all.join(format!("{:016x}", name.finish()));
        // Folders of binaries that were replaced since.
        for other in fs::read_dir(&all).into_iter().flatten().flatten().filter(|other| other.path() != kept) {
            drop(fs::remove_dir_all(other.path()));
        }
        make(&kept).then_some(kept)
    };
    KEPT.get_or_init(find).as_ref()
}

/// Makes a folder that a host trusts.
fn make(folder: &Path) -> bool {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).is_ok()
}

/// Links complete entries of one folder that the other lacks: the code first, since the note beside it has
/// its checksum.
fn link(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let note = entry.path();
        if note.extension().is_some_and(|ending| ending == "offer") {
            // It may be there.
            drop(fs::hard_link(&note, to.join(entry.file_name())));
        }
        if note.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let code = note.with_extension("cwasm");
        let place = |of: &Path| of.file_name().map(|name| to.join(name));
        let (Some(code_to), Some(note_to)) = (place(&code), place(&note)) else { continue };
        // Another process may have been faster; then code and note are both from that process.
        if fs::hard_link(&code, code_to).is_ok() {
            drop(fs::hard_link(&note, note_to));
        }
    }
}
