//! Fetches plugins from their sources.

use crate::config::Config;
use crate::spinner::Spinner;
use anyhow::{Context as _, bail};
use std::fs::File;
use std::path::Path;
use toolyard_cli::read;
use toolyard_registry::reference::Source;
use toolyard_registry::{Artifact, Client, Proxies, Settings, credentials, layout};
use toolyard_trust::Digest;
use toolyard_trust::signature::{Signature, Subject};

/// The largest signature bundle, in bytes.
const MAX_BUNDLE_BYTES: u64 = 64 << 10;

/// The client for registries, with the configuration of this host.
///
/// # Errors
/// If a certificate cannot be read.
pub fn client(config: &Config) -> anyhow::Result<Client> {
    Ok(Client::new(Settings {
        registries: config.registries.clone(),
        proxies: Proxies::from_environment(),
        ..Settings::new(config.limits.component.as_u64(), credentials::Store::from_environment())
    })?)
}

/// A component with everything that its source says of it, unverified.
#[derive(Debug)]
pub struct Fetched {
    /// The source, as the lock file names it.
    pub source: String,
    /// The component, its manifest of OCI, and its signatures.
    pub artifact: Artifact,
    /// Whether the manifest of OCI is the publisher's. If not, it was made here, and signs nothing.
    pub is_oci: bool,
}

impl Fetched {
    /// The bytes that a signature must be over.
    pub fn subject(&self) -> Subject {
        Subject {
            manifest: self.is_oci.then(|| self.artifact.digest()),
            component: Digest::of(&self.artifact.component),
        }
    }
}

/// Additional parts of a source that is not a registry.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// The digest that the component must have.
    pub sha256: Option<Digest>,
    /// A bundle of `cosign sign-blob`.
    pub bundle: Option<&'a Path>,
}

/// Fetches from a source. Shows on a terminal that it works.
///
/// # Errors
/// If the source cannot be read, or its content is not one component.
pub async fn fetch(config: &Config, source: &Source, beside: Beside<'_>) -> anyhow::Result<Fetched> {
    let _spinner = Spinner::new(&format!("fetching {source}"));
    let limit = config.limits.component.as_u64();
    let mut fetched = match source {
        Source::Oci(reference) => {
            let artifact = client(config)?.pull(reference).await?;
            Fetched { source: source.to_string(), artifact, is_oci: true }
        }
        Source::Layout(path) => {
            let cannot = || format!("cannot read {}", path.display());
            let artifact =
                layout::read(File::open(path).with_context(cannot)?, limit).with_context(cannot)?;
            Fetched { source: source.to_string(), artifact, is_oci: true }
        }
        Source::File(path) => {
            let bytes =
                read::bytes(path, limit).with_context(|| format!("cannot read {}", path.display()))?;
            plain(source, bytes)?
        }
        Source::Https(uri) => {
            if beside.sha256.is_none() && beside.bundle.is_none() {
                bail!("{source}: name the digest of the component by --sha256, or its signature by --bundle");
            }
            plain(source, client(config)?.fetch(uri).await?)?
        }
    };
    let digest = Digest::of(&fetched.artifact.component);
    if let Some(expected) = beside.sha256
        && expected != digest
    {
        bail!("{source}: the component has {digest}, --sha256 says {expected}");
    }
    if let Some(path) = beside.bundle {
        let cannot = || format!("cannot read the bundle {}", path.display());
        let bundle = read::bytes(path, MAX_BUNDLE_BYTES).with_context(cannot)?;
        fetched.artifact.signatures.push(Signature::Bundle(bundle));
    }
    Ok(fetched)
}

/// A component that was not in a registry.
pub fn plain(source: &Source, component: Vec<u8>) -> anyhow::Result<Fetched> {
    let artifact = Artifact::new(component).with_context(|| source.to_string())?;
    Ok(Fetched { source: source.to_string(), artifact, is_oci: false })
}
