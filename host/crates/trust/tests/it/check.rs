//! The check of a component when the host loads it: each row of the table in `toolyard-lock.md`.

use crate::signed::{bytes, component, manifest, provenance, public, simple};
use crate::signing::PrivateKey;
use toolyard_trust::Digest;
use toolyard_trust::key::PublicKey;
use toolyard_trust::lock::{Entry, Refusal, Signer};
use toolyard_trust::policy::{Policy, Requirement, SignerRule};
use toolyard_trust::provenance::{Provenance, ProvenanceError};
use toolyard_trust::signature::{Signature, VerifyError};

fn pinned(key: &PublicKey) -> Signer {
    Signer::Key { fingerprint: key.fingerprint(), file: None }
}

/// An entry of the component in the fixtures, which cosign 3 signed.
fn entry() -> Entry {
    Entry {
        source: "oci://ghcr.io/acme/fetch:1".to_owned(),
        signer: pinned(&public("cosign3.pub")),
        ..crate::lock::entry("fetch.wasm")
    }
}

/// An entry of the component as an unsigned file.
fn unsigned() -> Entry {
    let signer = Signer::None { accepted: "2026-11-24".to_owned() };
    Entry { source: "file:/tmp/fetch.wasm".to_owned(), manifest: None, signer, ..entry() }
}

fn policy(keys: &[PublicKey], require: Requirement) -> Policy {
    let rule = SignerRule { from: vec!["oci://ghcr.io/acme/*".to_owned()], keys: keys.to_vec(), require };
    Policy { rules: vec![rule], default: require }
}

/// Checks the component of the fixtures with this provenance, under the default policy.
fn check(entry: &Entry, provenance: &Provenance) -> Result<(), Refusal> {
    check_by(entry, provenance, &Policy::default())
}

fn check_by(entry: &Entry, provenance: &Provenance, policy: &Policy) -> Result<(), Refusal> {
    entry.check_component(component())?;
    entry.check_signature(Some(&provenance.to_json()), policy)
}

#[test]
fn the_component_of_the_entry_is_loaded_and_another_is_refused() {
    assert_eq!(check(&entry(), &provenance()), Ok(()));
    for entry in [entry(), unsigned()] {
        let refused = entry.check_component(Digest::of(b"other")).unwrap_err();
        assert!(matches!(refused, Refusal::OtherComponent { .. }));
        assert_eq!(
            refused.to_string(),
            "is not the component that toolyard.lock names; `toolyard accept fetch` shows what changed and takes it"
        );
    }
}

#[test]
fn wider_grants_are_refused_and_named_and_fewer_are_loaded() {
    let grants = ["env LANG", "fs:/data=./data:write", "http *"].map(str::to_owned);
    assert_eq!(
        unsigned().check_grants(&grants).unwrap_err().to_string(),
        "has grants that toolyard.lock does not list: fs:/data=./data:write, http *; remove them from fetch.toml, or \
         take them with `toolyard accept fetch`"
    );
    assert_eq!(unsigned().check_grants(&grants[..1]), Ok(()));
}

#[test]
fn a_signature_is_required_as_the_policy_wants_and_that_of_a_pinned_signer_always() {
    for require in [Requirement::None, Requirement::FirstUse] {
        assert_eq!(unsigned().check_signature(None, &policy(&[], require)), Ok(()));
    }
    let refused = unsigned().check_signature(None, &policy(&[], Requirement::Always)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "is unsigned, and the policy for file:/tmp/fetch.wasm demands a signature; pin its signer with `toolyard \
         accept fetch --key FILE`"
    );
    let from_acme = Entry { source: entry().source, ..unsigned() };
    let keys = policy(&[public("cosign3.pub")], Requirement::None);
    assert!(matches!(from_acme.check_signature(None, &keys), Err(Refusal::Unsigned { .. })));
    for require in [Requirement::None, Requirement::FirstUse, Requirement::Always] {
        let refused = entry().check_signature(None, &policy(&[], require)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "has a pinned signer, and fetch.wasm.provenance.json is missing; `toolyard install` writes it again"
        );
    }
    let refused = check(&entry(), &Provenance { signatures: Vec::new(), ..provenance() }).unwrap_err();
    assert!(matches!(refused, Refusal::Signature { error: VerifyError::Unsigned, .. }));
    assert_eq!(
        refused.to_string(),
        "is not signed as toolyard.lock says: it carries no signature; ask its author to sign it, or set \
         require-signature for its source"
    );
}

#[test]
fn a_signature_by_another_key_or_of_another_manifest_is_refused() {
    let stranger = PrivateKey::of(1);
    let forged = Provenance {
        signatures: vec![stranger.bundle(manifest()), simple()],
        keys: vec![stranger.public(), public("cosign3.pub")],
        ..provenance()
    };
    let refused = check(&entry(), &forged).unwrap_err();
    assert!(matches!(refused, Refusal::Signature { error: VerifyError::OtherKey { .. }, .. }), "{refused}");
    for manifest in [None, Some(b"{}".to_vec()), Some([&bytes("manifest.json")[..], b"\n"].concat())] {
        let refused = check(&entry(), &Provenance { manifest, ..provenance() }).unwrap_err();
        assert!(matches!(refused, Refusal::OtherManifest { .. }), "{refused}");
    }
    let text = String::from_utf8(bytes("manifest.json")).unwrap();
    let other = text.replace(&component().to_string(), &Digest::of(b"other").to_string());
    assert_ne!(text, other);
    let digest = Digest::of(other.as_bytes());
    let key = PrivateKey::of(1);
    let entry = Entry { manifest: Some(digest), signer: pinned(&key.public()), ..entry() };
    let (signatures, keys) = (vec![key.bundle(digest)], vec![key.public()]);
    let provenance = Provenance { manifest: Some(other.into_bytes()), signatures, keys };
    let refused = check(&entry, &provenance).unwrap_err();
    assert!(matches!(refused, Refusal::NotInManifest { .. }), "{refused}");
}

#[test]
fn a_file_is_checked_by_the_signature_over_its_bytes() {
    let file = Entry { manifest: None, source: "file:/tmp/fetch.wasm".to_owned(), ..entry() };
    let blob = Signature::Bundle(bytes("component.cosign3.bundle.json"));
    let provenance = Provenance { manifest: None, signatures: vec![blob.clone()], ..provenance() };
    assert_eq!(check(&file, &provenance), Ok(()));
    assert!(check(&entry(), &Provenance { signatures: vec![blob], ..crate::signed::provenance() }).is_err());
}

#[test]
fn the_pinned_key_comes_from_the_provenance_or_from_the_policy() {
    let without = Provenance { keys: Vec::new(), ..provenance() };
    let keys = policy(&[public("cosign2.pub"), public("cosign3.pub")], Requirement::None);
    assert_eq!(check_by(&entry(), &without, &keys), Ok(()));
    assert_eq!(
        check(&entry(), &without).unwrap_err().to_string(),
        format!(
            "is pinned to the key {}, and neither fetch.wasm.provenance.json nor `plugins.signers` has that key; \
             `toolyard update fetch` with the key in `plugins.signers` adds it",
            public("cosign3.pub").fingerprint()
        )
    );
    let only_2 = Provenance { keys: vec![public("cosign2.pub")], ..provenance() };
    assert!(matches!(check(&entry(), &only_2), Err(Refusal::NoKey { .. })));
    let pins_2 = Entry { signer: pinned(&public("cosign2.pub")), ..entry() };
    assert_eq!(check(&pins_2, &only_2), Ok(()));
    let refused = check_by(&entry(), &provenance(), &policy(&[public("cosign2.pub")], Requirement::None));
    assert_eq!(
        refused.unwrap_err().to_string(),
        format!(
            "is pinned to the key {}, which `plugins.signers` does not name for oci://ghcr.io/acme/fetch:1; add the key \
             there, or pin another one with `toolyard accept fetch --key FILE`",
            public("cosign3.pub").fingerprint()
        )
    );
}

#[test]
fn a_provenance_that_cannot_be_read_and_keyless_signers_are_refused() {
    let refused = entry().check_signature(Some(b"{"), &Policy::default()).unwrap_err();
    assert!(matches!(refused, Refusal::Provenance { error: ProvenanceError::Malformed(_), .. }));
    assert!(
        refused.to_string().starts_with("fetch.wasm.provenance.json: the provenance cannot be read: "),
        "{refused}"
    );
    let signer =
        Signer::Identity { identity: "https://x/\u{202e}".to_owned(), issuer: "https://y".to_owned() };
    let keyless = Entry { signer, ..entry() };
    for require in [Requirement::None, Requirement::FirstUse, Requirement::Always] {
        let refused = check_by(&keyless, &provenance(), &policy(&[], require)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "is pinned to the identity https://x/\\u{202e}, and Toolyard cannot verify keyless signatures yet; pin a key \
             with `toolyard accept fetch --key FILE`"
        );
    }
}
