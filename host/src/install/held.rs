//! Versions of plugins that wait for a person: `toolyard update` holds a version that changes what a tool says of itself
//! or what it reaches for, and `toolyard accept` takes it. Each is an OCI image layout in `DATA/held`.

use super::fetch::Fetched;
use crate::config::Config;
use crate::lock_file::stem;
use anyhow::Context as _;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use toolyard_cli::read::if_exists;
use toolyard_cli::replace;
use toolyard_registry::layout;
use toolyard_registry::reference::Source;

/// The folder of held versions, below the data folder.
pub fn folder(data: &Path) -> PathBuf {
    data.join("held")
}

fn path(config: &Config, name: &str) -> PathBuf {
    folder(&config.data).join(format!("{name}.tar"))
}

/// Keeps a version until a person decides, in place of the one that waits already.
///
/// # Errors
/// If it cannot be written.
pub fn hold(config: &Config, name: &str, fetched: &Fetched) -> anyhow::Result<()> {
    let path = path(config, name);
    let cannot = || format!("cannot write {}", path.display());
    DirBuilder::new().recursive(true).mode(0o700).create(folder(&config.data)).with_context(cannot)?;
    let mut tar = Vec::new();
    layout::write(&fetched.artifact, None, &mut tar).with_context(cannot)?;
    replace::replace(&path, &tar, Permissions::from_mode(0o600)).with_context(cannot)
}

/// The version that waits, from this source.
///
/// # Errors
/// If it cannot be read.
pub fn find(config: &Config, name: &str, source: &str) -> anyhow::Result<Option<Fetched>> {
    let path = path(config, name);
    let cannot = || format!("cannot read {}", path.display());
    let Some(file) = if_exists(File::open(&path)).with_context(cannot)? else { return Ok(None) };
    let artifact = layout::read(file, config.limits.component.as_u64()).with_context(cannot)?;
    let is_oci = matches!(source.parse(), Ok(Source::Oci(_) | Source::Layout(_)));
    Ok(Some(Fetched { source: source.to_owned(), artifact, is_oci }))
}

/// Forgets the version that waits. Returns whether there was one.
///
/// # Errors
/// If it cannot be removed.
pub fn forget(config: &Config, name: &str) -> anyhow::Result<bool> {
    let path = path(config, name);
    let removed = if_exists(fs::remove_file(&path));
    Ok(removed.with_context(|| format!("cannot remove {}", path.display()))?.is_some())
}

/// Whether a version of the plugin with this component waits.
pub fn is_held(data: &Path, component: &str) -> bool {
    names(data).iter().any(|name| name == stem(component))
}

/// The names of the plugins with a version that waits.
pub fn names(data: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder(data)).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".tar").map(str::to_owned);
    let mut names: Vec<String> = entries.filter_map(name).filter(|name| super::is_name(name)).collect();
    names.sort_unstable();
    names
}
