//! Manifests and indexes of the OCI image specification, as a registry or a tar gives them.

use crate::error::Problem;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use toolyard_trust::Digest;
use toolyard_trust::definition::escape;

pub const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const IMAGE_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";
pub const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
pub const WASM_LAYER: &str = "application/wasm";

const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const HELM_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";

/// A manifest with the fields that this crate reads. A registry chooses all of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    subject: Option<Descriptor>,
    annotations: Option<BTreeMap<String, String>>,
}

/// A reference from one document to another, or to a blob.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: String,
    #[serde(deserialize_with = "digest")]
    pub digest: Digest,
    pub size: u64,
    pub artifact_type: Option<String>,
    pub annotations: Option<BTreeMap<String, String>>,
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

fn digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

impl Descriptor {
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn platform(&self) -> String {
        let shown = |platform: &Platform| format!("{}/{}", platform.architecture, platform.os);
        self.platform.as_ref().map_or_else(|| "no platform".to_owned(), shown)
    }
}

/// A manifest or an index.
#[derive(Debug)]
pub enum Document {
    Image(Box<ImageManifest>),
    Index(Vec<Descriptor>),
}

#[derive(Debug)]
pub struct ImageManifest {
    pub artifact_type: Option<String>,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
    pub subject: Option<Descriptor>,
    pub annotations: BTreeMap<String, String>,
}

impl Document {
    pub fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        let wrong = |why: &str| Problem::malformed("the manifest", why);
        let raw: RawDocument =
            serde_json::from_slice(bytes).map_err(|error| Problem::malformed("the manifest", error))?;
        // Two readers of such a document could see two artifacts under one digest (CVE-2021-41190).
        if raw.manifests.is_some() && (raw.layers.is_some() || raw.config.is_some()) {
            return Err(wrong("it is both a manifest and an index"));
        }
        let media_type = raw.media_type.as_deref();
        let claims = |types: [&str; 2]| media_type.is_none_or(|media_type| types.contains(&media_type));
        if let Some(manifests) = raw.manifests {
            return match claims([IMAGE_INDEX, DOCKER_LIST]) {
                true => Ok(Self::Index(manifests)),
                false => Err(wrong("it is an index with another media type")),
            };
        }
        if !claims([IMAGE_MANIFEST, DOCKER_MANIFEST]) {
            return Err(wrong("its media type is not one of a manifest"));
        }
        let config = raw.config.ok_or_else(|| wrong("it has no config"))?;
        Ok(Self::Image(Box::new(ImageManifest {
            artifact_type: raw.artifact_type,
            config,
            layers: raw.layers.unwrap_or_default(),
            subject: raw.subject,
            annotations: raw.annotations.unwrap_or_default(),
        })))
    }

    pub fn image(self) -> Result<ImageManifest, Problem> {
        match self {
            Self::Image(image) => Ok(*image),
            Self::Index(_) => Err(Problem::malformed("the index", "its entry is an index again")),
        }
    }
}

/// The entry of an index that is the component: the one for `wasm/wasip2`, else the only one for `wasm`, else
/// the only one.
pub fn component_entry(entries: &[Descriptor]) -> Result<&Descriptor, Problem> {
    let is_wasm =
        |entry: &&Descriptor| entry.platform.as_ref().is_some_and(|platform| platform.architecture == "wasm");
    let is_wasip2 = |entry: &&Descriptor| {
        is_wasm(entry) && entry.platform.as_ref().is_some_and(|platform| platform.os == "wasip2")
    };
    // Build tools add attestations with this platform.
    let is_known = |entry: &&Descriptor| entry.platform() != "unknown/unknown";
    let candidates: [Vec<&Descriptor>; 3] = [
        entries.iter().filter(is_wasip2).collect(),
        entries.iter().filter(is_wasm).collect(),
        entries.iter().filter(is_known).collect(),
    ];
    match candidates.iter().find(|candidates| !candidates.is_empty()).map(Vec::as_slice) {
        Some([only]) => Ok(only),
        _ => {
            let platforms: BTreeSet<String> = entries.iter().map(Descriptor::platform).collect();
            // A hostile index has thousands of them.
            let shown: Vec<_> = platforms.iter().take(8).map(|text| visible(text)).collect();
            let platforms = if shown.is_empty() { "no entries".to_owned() } else { shown.join(", ") };
            Err(Problem::Other(format!(
                "the index has no single component for wasm/wasip2, but {platforms}; \
                 give the digest of one of its manifests"
            )))
        }
    }
}

impl ImageManifest {
    /// The only layer that is a component. Other layers are ignored: wassette adds policies.
    pub fn component(&self) -> Result<&Descriptor, Problem> {
        if let Some(kind) = self.other_kind() {
            return Err(Problem::Other(format!(
                "this is {kind}, not a WebAssembly component (config {}); \
                 ask its publisher for the address of the component",
                visible(&self.config.media_type)
            )));
        }
        let mut layers = self.layers.iter().filter(|layer| layer.media_type == WASM_LAYER);
        match (layers.next(), layers.count()) {
            (Some(layer), 0) => Ok(layer),
            (first, others) => {
                let count = usize::from(first.is_some()) + others;
                Err(Problem::Other(format!(
                    "the manifest has {count} layers of application/wasm; expected one"
                )))
            }
        }
    }

    /// The kind of an artifact that is not a component.
    fn other_kind(&self) -> Option<String> {
        match self.config.media_type.as_str() {
            WASM_CONFIG => None,
            IMAGE_CONFIG | DOCKER_CONFIG => Some("a container image".to_owned()),
            HELM_CONFIG => Some("a Helm chart".to_owned()),
            config => {
                let kind = self.artifact_type.as_deref().unwrap_or(config);
                Some(format!("an artifact of the type {}", visible(kind)))
            }
        }
    }
}

/// The beginning of a text of a registry, for one line of a terminal.
pub fn visible(text: &str) -> String {
    let beginning: String = text.trim().chars().take(200).collect();
    escape(&beginning).into_owned()
}

#[cfg(test)]
mod tests;
