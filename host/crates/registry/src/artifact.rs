//! A component in the layout of the CNCF for WebAssembly artifacts.

use crate::carrier::describe;
use crate::component::World;
use crate::document::{IMAGE_MANIFEST, ImageManifest, WASM_CONFIG, WASM_LAYER};
use crate::error::{Error, Problem, expect_digest};
use crate::limits::{MAX_CONFIG, MAX_SUGGESTED_MANIFEST};
use serde_json::json;
use std::collections::BTreeMap;
use toolyard_trust::Digest;
use toolyard_trust::signature::Signature;

/// The annotation with the manifest of the plugin (`NAME.toml`) that its author suggests.
pub const SUGGESTED_MANIFEST: &str = "io.toolyard.manifest";

/// A component with its manifest and signatures. The digests of the manifest have been verified; the
/// signatures have not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The manifest, as the registry has it.
    pub manifest: Vec<u8>,
    /// The configuration.
    pub config: Vec<u8>,
    /// The component.
    pub component: Vec<u8>,
    /// The annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
    /// The signatures of both carriers.
    pub signatures: Vec<Signature>,
}

impl Artifact {
    /// The artifact of a component that comes from no registry. Equal components give equal bytes.
    ///
    /// # Errors
    /// If the bytes are not a component.
    pub fn new(component: Vec<u8>) -> Result<Self, Error> {
        let world = World::of(&component).map_err(Error::Component)?;
        let config = json!({
            // Readers of other programs demand a time.
            "created": "1970-01-01T00:00:00Z",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [Digest::of(&component).to_string()],
            "component": { "exports": world.exports, "imports": world.imports, "target": null },
        });
        let config = config.to_string().into_bytes();
        if config.len() as u64 > MAX_CONFIG {
            let item = "the list of its imports and exports";
            return Err(Error::Component(Problem::TooLarge { item, limit: MAX_CONFIG, setting: "" }));
        }
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": IMAGE_MANIFEST,
            "config": describe(WASM_CONFIG, &config),
            "layers": [describe(WASM_LAYER, &component)],
        });
        let manifest = manifest.to_string().into_bytes();
        Ok(Self { manifest, config, component, annotations: BTreeMap::new(), signatures: Vec::new() })
    }

    /// The digest of the manifest, by which registries and signatures know the artifact.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    /// The manifest of the plugin that its author suggests. It grants nothing by itself.
    #[must_use]
    pub fn suggested_manifest(&self) -> Option<&str> {
        let text = self.annotations.get(SUGGESTED_MANIFEST)?;
        (text.len() <= MAX_SUGGESTED_MANIFEST).then_some(text)
    }

    /// Compares the parts with the digests of the manifest, and puts them together.
    pub(crate) fn from_parts(
        manifest: Vec<u8>,
        document: ImageManifest,
        config: Vec<u8>,
        component: Vec<u8>,
    ) -> Result<Self, Problem> {
        expect_digest("the configuration", &config, document.config.digest, "manifest")?;
        expect_digest("the component", &component, document.component()?.digest, "manifest")?;
        let annotations = document.annotations;
        Ok(Self { manifest, config, component, annotations, signatures: Vec::new() })
    }
}

#[cfg(test)]
mod tests;
