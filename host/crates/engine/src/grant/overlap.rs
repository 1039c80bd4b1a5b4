//! Checks the combined folder grants of one manifest and of all plugins.
//!
//! A guest that may write to a folder can replace any folder in it with another one or with a link.
//! Therefore the host grants no folder that lies in a writable one. It refuses the inner folder,
//! even if that one was granted first, because the guest may already have replaced it. Two grants
//! of exactly the same folder are allowed, because a guest cannot replace a folder from inside it.

use super::Grants;
use super::folders::{OpenFolder, fault};
use super::mounts::{Mounts, Way};
use std::collections::BTreeMap;
use std::path::Path;
use toolyard_manifest::{FolderMode, ManifestError, NamedSecret, Source};

/// The file of a secret.
#[derive(Debug, Clone)]
pub(crate) struct SecretFile {
    name: String,
    /// The folders and links that lead to it.
    way: Way,
}

impl SecretFile {
    /// The secrets that are read from files. The manifest lies in `place`.
    pub fn of(named: &[NamedSecret], place: &Path, mounts: Option<&Mounts>) -> Vec<Self> {
        let file = |secret: &NamedSecret| match &secret.source {
            Source::Variable(_) | Source::Command(_) => None,
            Source::File(path) => {
                Some(Self { name: secret.name.clone(), way: Way::to(&place.join(path), mounts) })
            }
        };
        named.iter().filter_map(file).collect()
    }
}

/// The errors if the folders of all these plugins are granted together, by plugin file.
pub(crate) fn faults<'a>(plugins: &[(&'a str, &Grants)]) -> BTreeMap<&'a str, ManifestError> {
    let fault_of = |plugin: &'a str, grants: &Grants| {
        let folders = grants.folders.iter();
        folders.map(|folder| (plugin, folder)).find_map(|(plugin, folder)| {
            let what = plugins.iter().find_map(|(other, grants)| {
                nested(plugin, folder, other, grants).or_else(|| beside_secret(folder, other, grants))
            })?;
            let named = (folder.grant.guest.as_str(), folder.grant.named.as_str());
            Some((plugin, fault(&toolyard_manifest::file_name(plugin), folder.line, named, &what)))
        })
    };
    plugins.iter().filter_map(|(plugin, grants)| fault_of(plugin, grants)).collect()
}

/// Whether the folder lies in one that `other` may write to; returns the reason.
fn nested(plugin: &str, folder: &OpenFolder, other: &str, grants: &Grants) -> Option<String> {
    let is_outer = |outer: &&OpenFolder| outer.grant.mode == FolderMode::Write && folder.lies_within(outer);
    let outer = &grants.folders.iter().find(is_outer)?.grant;
    let whose = if plugin == other { "the same plugin".to_owned() } else { format!("the plugin {other}") };
    Some(format!(
        "lies in {}, which {whose} may write (`fs.\"{}\"`), and so may put anything in its place; grant one \
         that does not lie in it, or the outer one with mode = \"read\"",
        outer.host.display(),
        outer.guest,
    ))
}

fn beside_secret(folder: &OpenFolder, other: &str, grants: &Grants) -> Option<String> {
    let secret = grants.secret_files.iter().find(|secret| folder.is_or_holds(&secret.way))?;
    Some(format!(
        "has the file of a secret in it (`secrets.{}` of {}); name a folder that has not, or move the file",
        secret.name,
        toolyard_manifest::file_name(other),
    ))
}
