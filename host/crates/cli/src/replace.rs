//! Replaces a whole file by renaming: a concurrent reader, such as a host that watches the folder, sees
//! either the old file or the new one.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The permissions of a file that all users may read. Only its owner may read a temporary file.
pub fn readable() -> Permissions {
    Permissions::from_mode(0o644)
}

/// Writes the file; its folder must exist.
///
/// # Errors
/// If the file cannot be written; the old content then remains.
pub fn replace(path: &Path, bytes: &[u8], permissions: Permissions) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A name that does not look like a plugin.
    let mut partial = tempfile::Builder::new().prefix(".").suffix(".partial").tempfile_in(folder)?;
    partial.write_all(bytes)?;
    partial.as_file().set_permissions(permissions)?;
    partial.persist(path)?;
    Ok(())
}
