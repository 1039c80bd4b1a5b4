//! A component on its way into the plugin folder: its verified signer, its entry for the lock file, and its files.

use super::Undecided;
use super::fetch::Fetched;
use super::folder::{Change, PluginFiles};
use crate::config::plugins::public_key;
use crate::system::SystemClock;
use anyhow::{Context as _, bail};
use std::path::Path;
use toolyard_cli::tell;
use toolyard_dispatch::Clock as _;
use toolyard_engine::{CheckReport, DeclaredDefinition, LOCK_FILE};
use toolyard_trust::Digest;
use toolyard_trust::definition::{Definition, Kind};
use toolyard_trust::key::PublicKey;
use toolyard_trust::lock::{Entry, Lock, Signer};
use toolyard_trust::policy::{Policy, Requirement};
use toolyard_trust::provenance::Provenance;
use toolyard_trust::signature::Keys;

/// The signer of a component, and what proves it.
#[derive(Debug)]
pub struct Verified {
    /// The signer.
    pub signer: Signer,
    /// The signatures of that signer, with its key. `None` if there is nothing to keep.
    pub provenance: Option<Provenance>,
}

/// The key that a person names by `--key`.
#[derive(Debug, Clone)]
pub struct NamedKey {
    /// The key.
    pub key: PublicKey,
    /// The file's name, for the lock file.
    pub file: String,
}

impl NamedKey {
    /// Reads the file of a public key.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { key: public_key(path)?, file })
    }
}

/// Verifies the signatures of a component as the policy and the signer pinned before demand. A key that a person names
/// replaces the pinned one.
///
/// # Errors
/// [`Undecided`] if the signer is not known or another one; the fault of the signatures otherwise.
pub fn verify(
    fetched: &Fetched,
    policy: &Policy,
    named: Option<&NamedKey>,
    pinned: Option<(&Signer, &[PublicKey])>,
) -> anyhow::Result<Verified> {
    let source = &fetched.source;
    let decision = policy.for_source(source);
    if let Some(named) = named
        && !decision.keys.is_empty()
        && !decision.keys.contains(&named.key)
    {
        bail!("{source}: [[plugins.signers]] allows other keys than {}", named.file);
    }
    let pinned_key = pinned.and_then(|(signer, keys)| match signer {
        Signer::Key { fingerprint, .. } => keys.iter().find(|key| key.fingerprint() == *fingerprint),
        _ => None,
    });
    if let (Some((Signer::Key { fingerprint, .. }, _)), None, None) = (pinned, pinned_key, named) {
        bail!("{LOCK_FILE} pins the signer {fingerprint}, whose key is not kept; name it by --key");
    }
    let keys: Vec<PublicKey> = match (named, pinned_key) {
        (Some(named), _) => vec![named.key.clone()],
        (None, Some(key)) => vec![key.clone()],
        (None, None) => decision.keys.to_vec(),
    };
    let signatures = &fetched.artifact.signatures;
    let manifest = fetched.is_oci.then(|| fetched.artifact.manifest.clone());
    if keys.is_empty() {
        if decision.require == Requirement::Always {
            return Err(Undecided(format!(
                "{source}: a signature is required (`plugins.require-signature`), and no key is known; name the \
                 publisher's key by --key"
            ))
            .into());
        }
        if !signatures.is_empty() {
            tell!("toolyard: {source} is signed; --key FILE with the publisher's key pins the signer");
        }
        // The date of today, in UTC.
        let accepted = SystemClock.now().to_string().chars().take(10).collect();
        let provenance = manifest.map(|manifest| Provenance {
            manifest: Some(manifest),
            signatures: Vec::new(),
            keys: Vec::new(),
        });
        return Ok(Verified { signer: Signer::None { accepted }, provenance });
    }
    let signer = Keys(keys.clone()).verify(&fetched.subject(), signatures);
    let fingerprint = signer.with_context(|| match pinned_key {
        Some(key) => format!("{source}: {LOCK_FILE} pins the signer {}", key.fingerprint()),
        None => source.clone(),
    })?;
    let file = named.map(|named| named.file.clone()).or_else(|| match pinned {
        Some((Signer::Key { file, .. }, _)) => file.clone(),
        _ => None,
    });
    let key = keys.into_iter().find(|key| key.fingerprint() == fingerprint).context("the key is known")?;
    let mut provenance = Provenance { manifest, signatures: signatures.clone(), keys: vec![key.clone()] };
    provenance.keep_signatures_of(&key, &fetched.subject());
    if provenance.is_too_large() {
        bail!("{source}: its OCI manifest and its signatures are too large to keep beside it");
    }
    Ok(Verified { signer: Signer::Key { fingerprint, file }, provenance: Some(provenance) })
}

/// The entry of a component for the lock file. `report` is of the component with its manifest.
///
/// # Errors
/// If a definition cannot be read.
pub fn entry(fetched: &Fetched, signer: Signer, report: &CheckReport) -> anyhow::Result<Entry> {
    Ok(Entry {
        file: report.file.clone(),
        source: fetched.source.clone(),
        manifest: fetched.is_oci.then(|| fetched.artifact.digest()),
        digest: Digest::of(&fetched.artifact.component),
        signer,
        grants: report.grant_lines.clone(),
        settings: Some(report.setting_lines.clone()),
        definitions: definitions(&report.definitions)?,
    })
}

/// The definitions of a component, as the lock file pins them.
///
/// # Errors
/// If one of them cannot be read.
pub fn definitions(declared: &[DeclaredDefinition]) -> anyhow::Result<Vec<Definition>> {
    let read = |declared: &DeclaredDefinition| {
        let kind = if declared.kind == "prompt" { Kind::Prompt } else { Kind::Tool };
        let value =
            declared.json.decode().with_context(|| format!("the {} {}", declared.kind, declared.name))?;
        Ok(Definition { kind, name: declared.name.clone(), value })
    };
    declared.iter().map(read).collect()
}

/// The change of the folder that makes this component the plugin. The component comes last, so that a running host never
/// sees it without its manifest.
pub fn change(
    fetched: &Fetched,
    provenance: Option<&Provenance>,
    manifest: Option<&str>,
    lock: &mut Lock,
    entry: Entry,
) -> Change {
    let files = PluginFiles::of(crate::lock_file::stem(&entry.file));
    let mut change = Change::default();
    if let Some(manifest) = manifest {
        change.write(&files.manifest, manifest);
    }
    change.set(&files.provenance, provenance.map(Provenance::to_json));
    lock.set(entry);
    change.write(LOCK_FILE, lock.to_text());
    change.write(&files.component, fetched.artifact.component.clone());
    change
}
