//! The provenance file.

use crate::signed::{manifest_bundle, provenance, public, pulled, simple};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolyard_trust::provenance::{MAX_KEYS, MAX_PROVENANCE, Provenance, ProvenanceError};
use toolyard_trust::signature::{MAX_SIGNATURES, Signature};

/// The text of a file after a change.
fn changed(change: impl FnOnce(&mut Value)) -> Result<Provenance, ProvenanceError> {
    let mut value = serde_json::from_slice(&provenance().to_json()).expect("JSON");
    change(&mut value);
    Provenance::parse(value.to_string().as_bytes())
}

#[test]
fn a_provenance_is_read_as_it_was_written_and_keeps_the_signatures_of_one_key_only() {
    for provenance in [provenance(), Provenance::default()] {
        let text = provenance.to_json();
        assert_eq!(Provenance::parse(&text), Ok(provenance.clone()));
        assert_eq!(Provenance::parse(&text).unwrap().to_json(), text);
        assert!(!provenance.is_too_large());
    }
    let mut some = provenance();
    some.signatures.push(Signature::Bundle(b"garbage".to_vec()));
    some.keep_signatures_of(&public("cosign3.pub"), &pulled());
    assert_eq!(some.signatures, [manifest_bundle()]);
    assert_eq!(some.manifest, provenance().manifest);
}

#[test]
fn unknown_keys_are_ignored_and_newer_versions_and_keys_twice_are_refused() {
    assert_eq!(changed(|file| file["note"] = json!([1])), Ok(provenance()));
    assert_eq!(Provenance::parse(b"{\"version\": 1}"), Ok(Provenance::default()));
    let error = changed(|file| *file = json!({"version": 2, "signatures": "x"})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the provenance has version 2, and this Toolyard reads version 1; update Toolyard"
    );
    assert_eq!(changed(|file| file["version"] = 0.into()), Err(ProvenanceError::Version(0)));
    for text in [
        "{\"version\": 1, \"version\": 1}",
        "{\"version\": 1, \"manifest\": \"\", \"manifest\": \"e30=\"}",
        "{\"version\": 1, \"signatures\": [], \"signatures\": []}",
    ] {
        let error = Provenance::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("duplicate field"), "{error}");
    }
}

#[test]
fn a_file_its_signatures_and_its_keys_are_bounded_before_it_is_parsed() {
    for many in [
        Provenance { signatures: vec![simple(); MAX_SIGNATURES + 1], ..provenance() },
        Provenance { keys: vec![public("cosign2.pub"); MAX_KEYS + 1], ..provenance() },
    ] {
        assert!(many.is_too_large() && Provenance::parse(&many.to_json()).is_err());
    }
    let mut largest = provenance().to_json();
    largest.resize(MAX_PROVENANCE, b' ');
    assert_eq!(Provenance::parse(&largest), Ok(provenance()));
    largest.push(b' ');
    assert_eq!(Provenance::parse(&largest), Err(ProvenanceError::TooLarge(MAX_PROVENANCE + 1)));
    let bundles = vec![Signature::Bundle(vec![b' '; 64 << 10]); 16];
    let provenance = Provenance { signatures: bundles, ..provenance() };
    assert!(provenance.is_too_large());
    assert!(matches!(Provenance::parse(&provenance.to_json()), Err(ProvenanceError::TooLarge(_))));
}

#[test]
fn faults_say_what_to_do() {
    let malformed = |change: fn(&mut Value)| match changed(change) {
        Err(ProvenanceError::Malformed(why)) => why,
        other => panic!("{other:?}"),
    };
    for part in [
        malformed(|file| file["manifest"] = "e30".into()),
        malformed(|file| file["signatures"][0]["simple-signing"]["payload"] = "*".into()),
        malformed(|file| file["signatures"][0]["simple-signing"]["signature"] = "AA=".into()),
        malformed(|file| file["signatures"][1]["bundle"] = "A".into()),
    ] {
        assert!(part.starts_with("a part of it is not base64"), "{part}");
    }
    assert!(malformed(|file| file["keys"][0] = "no".into()).starts_with("a key of it does not fit: "));
    assert!(malformed(|file| file["signatures"] = 1.into()).contains("invalid type"));
    assert!(malformed(|file| file["signatures"] = json!([{"pgp": ""}])).contains("unknown variant"));
    let hostile = malformed(|file| file["signatures"] = json!([{"\u{202e}".repeat(1_000): ""}]));
    assert!(!hostile.contains('\u{202e}') && hostile.len() < 2_500, "{hostile}");
    let error = Provenance::parse(b"\n[").unwrap_err().to_string();
    assert!(
        error.starts_with("the provenance cannot be read: ") && error.contains("toolyard install"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn any_bytes_of_signatures_are_kept(bytes in prop::collection::vec(any::<Vec<u8>>(), 4)) {
        let [manifest, payload, signature, bundle] = <[Vec<u8>; 4]>::try_from(bytes).unwrap();
        let signatures = vec![Signature::SimpleSigning { payload, signature }, Signature::Bundle(bundle)];
        let provenance = Provenance { manifest: Some(manifest), signatures, keys: Vec::new() };
        prop_assert_eq!(Provenance::parse(&provenance.to_json()), Ok(provenance));
    }
}
