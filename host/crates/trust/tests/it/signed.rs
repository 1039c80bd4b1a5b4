//! Keys and signatures that cosign made (`tests/fixtures/signed`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::PathBuf;
use toolyard_trust::Digest;
use toolyard_trust::key::PublicKey;
use toolyard_trust::provenance::Provenance;
use toolyard_trust::signature::{Signature, Subject};

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/fixtures/signed")).join(name)
}

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn text(name: &str) -> String {
    String::from_utf8(bytes(name)).expect("text")
}

pub fn public(name: &str) -> PublicKey {
    PublicKey::from_pem(&text(name)).expect("a public key")
}

pub fn component() -> Digest {
    Digest::of(&bytes("component.wasm"))
}

pub fn manifest() -> Digest {
    Digest::of(&bytes("manifest.json"))
}

/// The component as it came from a registry.
pub fn pulled() -> Subject {
    Subject { manifest: Some(manifest()), component: component() }
}

/// The component as a file.
pub fn file() -> Subject {
    Subject { manifest: None, component: component() }
}

/// The signature of cosign 2 over the manifest.
pub fn simple() -> Signature {
    let signature = STANDARD.decode(text("simple.sig").trim()).expect("base64");
    Signature::SimpleSigning { payload: bytes("simple.payload.json"), signature }
}

/// The signature of cosign 3 over the manifest.
pub fn manifest_bundle() -> Signature {
    Signature::Bundle(bytes("manifest.bundle.json"))
}

/// All that cosign 2 and 3 left with the component in the registry.
pub fn provenance() -> Provenance {
    Provenance {
        manifest: Some(bytes("manifest.json")),
        signatures: vec![simple(), manifest_bundle()],
        keys: vec![public("cosign2.pub"), public("cosign3.pub")],
    }
}
