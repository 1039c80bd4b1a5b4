//! Checks the files that decide how this host behaves: other users must not change them, and no
//! guest is granted one of them.

use crate::config::value::AuditTo;
use crate::config::{Config, StoreChoice};
use crate::outsiders::{OVERRIDE, outsiders_of, remedy};
use anyhow::{Context as _, bail};
use rustix::process::geteuid;
use std::fs::{Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use toolyard_cli::read::if_exists;
use toolyard_engine::{Outsiders, Protected, Scope};
use toolyard_transport::auth::KeySource;

/// The mode bits that give other users any access.
const OTHERS: u32 = 0o077;

/// Folders in the data folder. The engine looks at `compiled` itself.
const FOLDERS: [&str; 2] = ["detached", "nodes"];

/// Variables that name certificates which this host trusts, besides those of the system.
const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The paths that no guest is granted. For all commands the plugin folder is that of the
/// configuration, even if the command looks at a component in another folder.
pub fn withheld(config: &Config) -> Vec<Protected> {
    let mut withheld = Vec::new();
    let mut withhold = |path: &Path, what, scope| {
        withheld.push(Protected { path: path.to_owned(), what, scope });
    };
    withhold(&config.data, "the data of this host", Scope::Whole);
    withhold(&config.plugins, "the plugins of this host", Scope::Around);
    // If it does not exist yet, the next start would read a file that a guest made there.
    let scope = if config.file.exists() { Scope::Around } else { Scope::Changes };
    withhold(&config.file, "the configuration file of this host", scope);
    if let Some(keys) = &config.key_file {
        withhold(keys, "the keys of `encryption.key-file`", Scope::Around);
    }
    for issuer in &config.auth.issuers {
        if let KeySource::File(keys) = &issuer.keys {
            withhold(keys, "the keys of a `jwks-file`", Scope::Around);
        }
    }
    if let Some(audit) = audit_file(config) {
        withhold(&audit, "the audit log of this host", Scope::Around);
    }
    for path in CERTIFICATES.iter().filter_map(std::env::var_os) {
        withhold(Path::new(&path), "certificates that this host trusts", Scope::Changes);
    }
    if let Ok(program) = std::env::current_exe() {
        withhold(&program, "this program", Scope::Changes);
    }
    withheld
}

/// The path of the audit log, if entries may go to a file.
pub fn audit_file(config: &Config) -> Option<PathBuf> {
    let limits = &config.limits;
    match limits.audit_to {
        AuditTo::Auto | AuditTo::File => Some(config.data.join(&limits.audit_file)),
        AuditTo::Stderr | AuditTo::Off => None,
    }
}

/// Checks the plugin folder and the data folder, and warns of paths that cannot be checked.
///
/// # Errors
/// If another user decides what runs here, or could have changed the host's data.
pub fn check(config: &Config) -> anyhow::Result<()> {
    plugin_folder(config)?;
    data_folder(config)?;
    warn_of_links(config);
    Ok(())
}

/// Checks the plugin folder: a user who can write to it decides what runs here and what is granted
/// to it.
fn plugin_folder(config: &Config) -> anyhow::Result<()> {
    let folder = config.plugins.display();
    let outsiders = toolyard_engine::outsiders(&config.plugins)
        .with_context(|| format!("cannot check the plugin folder {folder}"))?;
    match outsiders {
        None => {}
        Some(Outsiders::Everybody) if !config.limits.others_may_write => bail!(
            "the plugin folder {folder}: {}, and could add tools and grant them anything; \
             remove that permission (`chmod o-w`), or set `plugins.others-may-write = true` if that is \
             intended",
            Outsiders::Everybody
        ),
        Some(outsiders) => tracing::warn!(
            event = "plugin.folder_not_protected", path = %folder, reason = %outsiders,
            "others can write to the plugin folder, add tools and grant them anything"
        ),
    }
    Ok(())
}

/// Makes the data folder, and checks its content. It holds the arguments and results of all principals,
/// signing keys, and machine code of this host. So no other user may read it, and the host uses nothing in it
/// that another user could have written.
///
/// # Errors
/// If it cannot be made, or others may change it or its content.
pub fn data_folder(config: &Config) -> anyhow::Result<()> {
    let data = &config.data;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .with_context(|| format!("cannot use the data folder {}; name another by --data", data.display()))?;
    if config.limits.data_others_may_write {
        return Ok(());
    }
    let of_folder = |path: &Path, what: &str| match toolyard_engine::outsiders(path) {
        Ok(None) => Ok(()),
        Ok(Some(outsiders)) => bail!(
            "{what} {}: {outsiders}, and could change tasks, keys and the code that runs; {}, or set {OVERRIDE} \
             if that is intended",
            path.display(),
            remedy(outsiders),
        ),
        Err(error) => Err(error).with_context(|| format!("cannot check {what} {}", path.display())),
    };
    of_folder(data, "the data folder")?;
    for name in FOLDERS {
        let path = data.join(name);
        if look(&path)?.is_some_and(|found| !found.is_dir()) {
            bail!("{} is not a folder; remove it", path.display());
        }
        of_folder(&path, "the folder")?;
    }
    config.store.files().iter().try_for_each(|name| database(&data.join(name)))
}

/// Checks a file of the database, if it exists. No other user may have been able to write to it. If others
/// may read it, the host removes that permission.
fn database(path: &Path) -> anyhow::Result<()> {
    let Some(found) = look(path)? else { return Ok(()) };
    let path_shown = path.display();
    if !found.is_file() {
        bail!("{path_shown} is not a regular file; name the folder of the file itself by --data");
    }
    if let Some(outsiders) = outsiders_of(&found) {
        bail!(
            "{path_shown}: {outsiders}, and could have changed tasks and keys; check its content, then {}, or \
             set {OVERRIDE} if that is intended",
            remedy(outsiders)
        );
    }
    if found.mode() & OTHERS != 0 && found.uid() == geteuid().as_raw() {
        std::fs::set_permissions(path, Permissions::from_mode(0o600))
            .with_context(|| format!("others can read {path_shown}, and its mode cannot be changed"))?;
        tracing::info!(
            event = "data.mode_changed", path = %path_shown,
            "others could read this file; its mode is 600 now"
        );
    }
    Ok(())
}

/// Warns of files with more than one name. A folder is granted or refused by the paths that lead to these
/// files, and no path leads from a file to its other names. So a guest could read such a file by a name in
/// its own folder.
fn warn_of_links(config: &Config) {
    let named = withheld(config).into_iter().filter(|protected| protected.scope == Scope::Around);
    let named = named.map(|protected| (protected.path, protected.what));
    // Also the files of a host that uses another store by now.
    let database =
        StoreChoice::Sqlite.files().iter().map(|name| (config.data.join(name), "the database of this host"));
    for (path, what) in named.chain(database) {
        if has_other_names(&path) {
            tracing::warn!(
                event = "data.hard_link", path = %path.display(), kind = what,
                "file has hard links; a guest whose folder has one of them can read it"
            );
        }
    }
}

fn has_other_names(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.nlink() > 1)
}

/// The metadata of the file or link of this name; `None` if there is none.
fn look(path: &Path) -> anyhow::Result<Option<Metadata>> {
    if_exists(std::fs::symlink_metadata(path)).with_context(|| format!("cannot check {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_another_name_is_warned_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, other] = ["file", "other"].map(|name| folder.path().join(name));
        assert!(!has_other_names(&file) && !has_other_names(folder.path()));
        std::fs::write(&file, "x").expect("writes");
        assert!(!has_other_names(&file));
        std::fs::hard_link(&file, &other).expect("links");
        assert!(has_other_names(&file) && has_other_names(&other));
    }

    #[test]
    fn a_file_of_the_database_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("toolyard.sqlite");
        database(&path).expect("there is none yet");
        std::fs::write(&path, "x").expect("writes");
        let set = |mode| std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("sets");
        for mode in [0o600, 0o644, 0o640, 0o604] {
            set(mode);
            database(&path).expect("is ours");
            assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        }
        for (mode, who) in [(0o666, "everybody"), (0o602, "everybody"), (0o660, "the group")] {
            set(mode);
            let error = database(&path).expect_err("others wrote").to_string();
            assert!([who, "chmod go-w", OVERRIDE].iter().all(|part| error.contains(part)), "{error}");
        }
        std::fs::remove_file(&path).expect("removes");
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("links");
        assert!(database(&path).expect_err("a link").to_string().contains("not a regular file"));
    }
}
