//! A file put in the place of another whole, by renaming: who reads meanwhile, such as a
//! host that watches the folder, sees the one or the other.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The permissions of a file that all users may read. A temporary file is its owner's alone.
pub fn readable() -> Permissions {
    Permissions::from_mode(0o644)
}

/// Writes the file, whose folder must be there.
///
/// # Errors
/// If it cannot be written; then what was there is there still.
pub fn replace(path: &Path, bytes: &[u8], permissions: Permissions) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A name that does not look like a plugin's.
    let mut partial = tempfile::Builder::new().prefix(".").suffix(".partial").tempfile_in(folder)?;
    partial.write_all(bytes)?;
    partial.as_file().set_permissions(permissions)?;
    partial.persist(path)?;
    Ok(())
}
