//! The two carriers of signatures: a manifest with a `subject` that holds one sigstore bundle (cosign 3), and
//! the manifest of the tag `sha256-HEX.sig` (cosign 2).

use crate::document::{Descriptor, Document, EMPTY, IMAGE_CONFIG, IMAGE_MANIFEST, ImageManifest};
use crate::limits::{MAX_SIGNATURE, MAX_SIGNATURES};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use toolyard_trust::Digest;
use toolyard_trust::signature::Signature;

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The media types of all versions of a bundle begin with this.
const BUNDLES: &str = "application/vnd.dev.sigstore.bundle";
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";

/// The tag of the index of referrers, for registries without the referrers API.
pub fn referrers_tag(subject: Digest) -> String {
    format!("sha256-{}", subject.hex())
}

/// The tag of cosign 2's signatures.
pub fn signature_tag(subject: Digest) -> String {
    format!("sha256-{}.sig", subject.hex())
}

/// The referrers that are worth reading, likely signatures first. Their artifact type is no filter: cosign 3
/// writes another one into the index of the tag (sigstore/cosign#4422).
pub fn likely_bundles(mut referrers: Vec<Descriptor>) -> Vec<Descriptor> {
    let rank = |referrer: &Descriptor| match referrer.artifact_type.as_deref() {
        Some(kind) if kind.starts_with(BUNDLES) => 0,
        None | Some(EMPTY) => 1,
        Some(_) => 2,
    };
    referrers.retain(|referrer| referrer.size <= MAX_SIGNATURE);
    referrers.sort_by_key(rank);
    referrers.truncate(MAX_SIGNATURES);
    referrers
}

/// The bundle of a manifest about `subject`.
pub fn bundle_layer(manifest: &ImageManifest, subject: Digest) -> Option<&Descriptor> {
    let is_about = manifest.subject.as_ref().is_some_and(|about| about.digest == subject);
    let kind = manifest.artifact_type.as_deref().unwrap_or(&manifest.config.media_type);
    let mut layers = manifest.layers.iter();
    let layer = layers.find(|layer| layer.media_type.starts_with(BUNDLES) && layer.size <= MAX_SIGNATURE);
    layer.filter(|_| is_about && (kind.starts_with(BUNDLES) || kind == EMPTY))
}

/// The layers of cosign 2's manifest, each with its signature in DER.
pub fn simple_layers(manifest: &ImageManifest) -> Vec<(&Descriptor, Vec<u8>)> {
    let signed = manifest.layers.iter().filter_map(|layer| {
        if layer.media_type != SIMPLE_SIGNING || layer.size > MAX_SIGNATURE {
            return None;
        }
        let signature = STANDARD.decode(layer.annotation(SIGNATURE_ANNOTATION)?).ok()?;
        Some((layer, signature))
    });
    signed.take(MAX_SIGNATURES).collect()
}

/// Reads everything that a hostile document can make this module read.
pub fn examine(document: &Document) {
    match document {
        Document::Image(image) => {
            let _ = std::hint::black_box(image.component());
            let subject = image.subject.as_ref().map(|subject| subject.digest);
            let _ = std::hint::black_box(subject.and_then(|subject| bundle_layer(image, subject)));
            let _ = std::hint::black_box(simple_layers(image));
        }
        Document::Index(entries) => {
            let _ = std::hint::black_box(crate::document::component_entry(entries));
            let _ = std::hint::black_box(likely_bundles(entries.clone()));
        }
    }
}

/// A manifest of signatures with its blobs.
#[derive(Debug)]
pub struct Carrier {
    pub manifest: Vec<u8>,
    pub blobs: Vec<Vec<u8>>,
}

/// The descriptor of these bytes.
pub fn describe(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::of(bytes).to_string(), "size": bytes.len() })
}

/// The manifest about `subject` that holds this bundle.
pub fn bundle_carrier(subject: &[u8], bundle: &[u8]) -> Carrier {
    let empty = b"{}".to_vec();
    let mut annotations = json!({ "dev.sigstore.bundle.content": "message-signature" });
    if let Some(predicate) = predicate_type(bundle) {
        annotations = json!({
            "dev.sigstore.bundle.content": "dsse-envelope",
            "dev.sigstore.bundle.predicateType": predicate,
        });
    }
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "artifactType": BUNDLE,
        "config": describe(EMPTY, &empty),
        "layers": [describe(BUNDLE, bundle)],
        "subject": describe(IMAGE_MANIFEST, subject),
        "annotations": annotations,
    });
    Carrier { manifest: manifest.to_string().into_bytes(), blobs: vec![empty, bundle.to_vec()] }
}

/// The entry of a bundle's manifest in an index.
pub fn bundle_entry(carrier: &Carrier) -> Value {
    let mut entry = describe(IMAGE_MANIFEST, &carrier.manifest);
    entry["artifactType"] = json!(BUNDLE);
    entry
}

/// The type of the statement in a DSSE envelope. cosign shows it in lists.
fn predicate_type(bundle: &[u8]) -> Option<String> {
    let bundle: Value = serde_json::from_slice(bundle).ok()?;
    let payload = bundle.get("dsseEnvelope")?.get("payload")?.as_str()?;
    let statement: Value = serde_json::from_slice(&STANDARD.decode(payload).ok()?).ok()?;
    statement.get("predicateType")?.as_str().map(str::to_owned)
}

/// The manifest of the tag `sha256-HEX.sig` with the signatures of cosign 2, if there are some.
pub fn simple_carrier(signatures: &[Signature]) -> Option<Carrier> {
    let (mut layers, mut blobs) = (Vec::new(), Vec::new());
    for signature in signatures {
        let Signature::SimpleSigning { payload, signature } = signature else { continue };
        let mut layer = describe(SIMPLE_SIGNING, payload);
        layer["annotations"] = json!({ SIGNATURE_ANNOTATION: STANDARD.encode(signature) });
        layers.push(layer);
        blobs.push(payload.clone());
    }
    if blobs.is_empty() {
        return None;
    }
    // cosign writes the configuration of an image without a platform. The layers are not compressed, so their
    // digests are those of their contents.
    let digests: Vec<_> = layers.iter().filter_map(|layer| layer.get("digest").cloned()).collect();
    let created = "0001-01-01T00:00:00Z";
    let config = json!({
        "architecture": "",
        "created": created,
        "history": vec![json!({ "created": created }); layers.len()],
        "os": "",
        "rootfs": { "type": "layers", "diff_ids": digests },
        "config": {},
    });
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "config": describe(IMAGE_CONFIG, &config),
        "layers": layers,
    });
    blobs.push(config);
    Some(Carrier { manifest: manifest.to_string().into_bytes(), blobs })
}

#[cfg(test)]
mod tests;
