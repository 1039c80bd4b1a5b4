//! The little of an OCI manifest that trust depends on.

use crate::digest::Digest;
use serde::Deserialize;

/// The media type of a component's layer.
const WASM: &str = "application/wasm";

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
}

/// Whether this OCI manifest has exactly one layer of WebAssembly, and it is this component.
pub(crate) fn is_of_component(manifest: &[u8], component: &Digest) -> bool {
    let Ok(manifest) = serde_json::from_slice::<Manifest>(manifest) else { return false };
    let mut components = manifest.layers.iter().filter(|layer| layer.media_type == WASM);
    let first = components.next();
    components.next().is_none() && first.is_some_and(|layer| layer.digest.parse() == Ok(*component))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(layers: &[(&str, &str)]) -> Vec<u8> {
        let layers: Vec<_> = layers
            .iter()
            .map(|(kind, of)| {
                serde_json::json!({"mediaType": kind, "digest": Digest::of(of.as_bytes()).to_string(), "size": 1})
            })
            .collect();
        serde_json::json!({"schemaVersion": 2, "layers": layers}).to_string().into_bytes()
    }

    #[test]
    fn the_only_layer_of_webassembly_is_the_component() {
        let ours = Digest::of(b"ours");
        assert!(is_of_component(&manifest(&[(WASM, "ours")]), &ours));
        assert!(is_of_component(&manifest(&[("application/vnd.policy", "p"), (WASM, "ours")]), &ours));
        assert!(!is_of_component(&manifest(&[(WASM, "other")]), &ours));
        assert!(!is_of_component(&manifest(&[(WASM, "ours"), (WASM, "other")]), &ours), "two layers");
        assert!(!is_of_component(&manifest(&[("application/octet-stream", "ours")]), &ours));
        assert!(!is_of_component(&manifest(&[]), &ours));
        for text in ["", "{", "[]", "{\"layers\": 1}", "{\"layers\": [], \"layers\": []}"] {
            assert!(!is_of_component(text.as_bytes(), &ours), "{text}");
        }
    }
}
