//! Signatures of cosign 2 and 3, and of keys of these tests.

use crate::signed::{bytes, component, file, manifest, manifest_bundle, public, pulled, simple};
use crate::signing::{PrivateKey, statement};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use toolyard_trust::Digest;
use toolyard_trust::key::PublicKey;
use toolyard_trust::signature::{Keys, MAX_BUNDLE, MAX_SIGNATURES, Signature, Subject, VerifyError};

const OTHER: &[u8] = b"other bytes";

fn verify(key: &PublicKey, subject: &Subject, signature: Signature) -> Result<String, VerifyError> {
    Keys(vec![key.clone()]).verify(subject, &[signature])
}

/// A subject of other bytes.
fn other() -> Subject {
    Subject { manifest: Some(Digest::of(OTHER)), component: Digest::of(OTHER) }
}

/// The JSON of a bundle after a change.
fn changed(bundle: &Signature, change: impl FnOnce(&mut Value)) -> Signature {
    let Signature::Bundle(json) = bundle else { panic!("not a bundle") };
    let mut value = serde_json::from_slice(json).expect("JSON");
    change(&mut value);
    Signature::Bundle(value.to_string().into_bytes())
}

fn malformed(result: Result<String, VerifyError>) -> String {
    match result {
        Err(VerifyError::Malformed { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn signatures_of_cosign_2_and_3_count() {
    let blob = |release: &str| Signature::Bundle(bytes(&format!("component.{release}.bundle.json")));
    for (release, subject, signature) in [
        ("cosign2", pulled(), simple()),
        ("cosign3", pulled(), manifest_bundle()),
        ("cosign2", file(), blob("cosign2")),
        ("cosign3", file(), blob("cosign3")),
    ] {
        let key = public(&format!("{release}.pub"));
        assert_eq!(verify(&key, &subject, signature), Ok(key.fingerprint()), "{release}, {subject:?}");
    }
}

#[test]
fn a_signature_by_another_key_does_not_count() {
    let key = PrivateKey::of(1).public();
    let component = Signature::Bundle(bytes("component.cosign3.bundle.json"));
    for (subject, signature) in [(pulled(), simple()), (pulled(), manifest_bundle()), (file(), component)] {
        let refused = verify(&key, &subject, signature).unwrap_err();
        assert_eq!(refused, VerifyError::OtherKey { keys: vec![key.fingerprint()] });
    }
}

#[test]
fn any_of_several_keys_may_have_signed_and_without_keys_or_signatures_nothing_counts() {
    let refused = Keys(Vec::new()).verify(&pulled(), &[simple()]);
    assert_eq!(refused, Err(VerifyError::NoKeys));
    for keys in [Vec::new(), vec![public("cosign2.pub")]] {
        assert_eq!(Keys(keys).verify(&pulled(), &[]), Err(VerifyError::Unsigned));
    }
    let keys = Keys(vec![PrivateKey::of(1).public(), public("cosign3.pub"), public("cosign2.pub")]);
    assert_eq!(keys.verify(&pulled(), &[simple()]), Ok(public("cosign2.pub").fingerprint()));
    assert_eq!(keys.verify(&pulled(), &[manifest_bundle()]), Ok(public("cosign3.pub").fingerprint()));
}

#[test]
fn any_good_signature_of_several_counts() {
    let key = PrivateKey::of(1);
    let bad = [
        PrivateKey::of(2).simple(manifest()),
        key.simple(Digest::of(OTHER)),
        Signature::Bundle(b"garbage".to_vec()),
        manifest_bundle(),
    ];
    for bad in bad {
        let good = key.simple(manifest());
        for signatures in [[bad.clone(), good.clone()], [good, bad]] {
            let signer = Keys(vec![key.public()]).verify(&pulled(), &signatures);
            assert_eq!(signer, Ok(key.public().fingerprint()));
        }
    }
}

#[test]
fn a_signature_over_something_else_does_not_count() {
    let key = PrivateKey::of(1);
    let component_bundle = key.blob(&bytes("component.wasm"));
    let manifest_as_file = Subject { manifest: None, component: manifest() };
    let other_digest = Digest::of(OTHER);
    for (signature, signed, subject, expected) in [
        (key.simple(manifest()), manifest().to_string(), other(), other_digest),
        (key.bundle(manifest()), manifest().to_string(), other(), other_digest),
        (key.blob(OTHER), other_digest.to_string(), file(), component()),
        // A signature over the component alone does not count for a manifest, and the other way round.
        (component_bundle, format!("the bytes of the file {}", component()), pulled(), manifest()),
        (key.bundle(manifest()), manifest().to_string(), manifest_as_file, manifest()),
        (key.simple(manifest()), manifest().to_string(), manifest_as_file, manifest()),
    ] {
        let refused = verify(&key.public(), &subject, signature);
        assert_eq!(refused, Err(VerifyError::OtherSubject { signed, expected }));
    }
}

#[test]
fn a_message_digest_that_lies_or_has_another_algorithm_does_not_count() {
    let key = PrivateKey::of(1);
    let lie = changed(&key.blob(OTHER), |bundle| {
        bundle["messageSignature"]["messageDigest"]["digest"] =
            STANDARD.encode(component().as_bytes()).into();
    });
    assert!(matches!(verify(&key.public(), &file(), lie), Err(VerifyError::OtherKey { .. })));
    for (field, value, word) in [("algorithm", "SHA2_512", "SHA2_256"), ("digest", "AAAA", "32 bytes")] {
        let bundle = changed(&key.blob(OTHER), |bundle| {
            bundle["messageSignature"]["messageDigest"][field] = value.into();
        });
        let why = malformed(verify(&key.public(), &file(), bundle));
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn a_statement_counts_if_it_has_our_subject_and_type() {
    let key = PrivateKey::of(1);
    for subject in [json!([]), json!([{"digest": {"sha512": "00"}}]), json!([{"digest": {"sha256": "00"}}])] {
        let mut statement = statement(manifest());
        statement["subject"] = subject;
        let refused = verify(&key.public(), &pulled(), key.envelope(&statement));
        assert!(matches!(refused, Err(VerifyError::OtherSubject { .. })), "{refused:?}");
    }
    for (field, value) in [
        ("_type", "https://in-toto.io/Statement/v0.1"),
        ("predicateType", "https://slsa.dev/provenance/v1"),
        ("predicateType", "https://sigstore.dev/cosign/sign/v2"),
    ] {
        let mut statement = statement(manifest());
        statement[field] = value.into();
        let why = malformed(verify(&key.public(), &pulled(), key.envelope(&statement)));
        assert!(why.contains("says something else"), "{why}");
    }
    let mut statement = statement(Digest::of(OTHER));
    statement["subject"].as_array_mut().unwrap().push(json!({"digest": {"sha256": manifest().hex()}}));
    assert_eq!(verify(&key.public(), &pulled(), key.envelope(&statement)), Ok(key.public().fingerprint()));
}

#[test]
fn a_changed_payload_of_another_type_or_with_a_key_twice_does_not_count() {
    let key = PrivateKey::of(1);
    let payload = String::from_utf8(bytes("simple.payload.json")).unwrap();
    for (from, to, says) in [
        ("cosign container image signature", "atomic container signature", "another type"),
        (r#""image":{"#, r#""image":{"docker-manifest-digest":"sha256:00"},"image":{"#, "duplicate field"),
    ] {
        let changed = payload.replace(from, to);
        assert_ne!(payload, changed);
        let why = malformed(verify(&key.public(), &pulled(), key.simple_over(&changed)));
        assert!(why.contains(says), "{why}");
    }
    let Signature::SimpleSigning { mut payload, signature } = simple() else { panic!("not simple") };
    payload.push(b' ');
    let refused = verify(&public("cosign2.pub"), &pulled(), Signature::SimpleSigning { payload, signature });
    assert!(matches!(refused, Err(VerifyError::OtherKey { .. })), "{refused:?}");
}

#[test]
fn der_that_is_not_a_signature_is_malformed_and_both_values_of_s_are_accepted() {
    let Signature::SimpleSigning { payload, signature } = simple() else { panic!("not simple") };
    let garbage = [
        Vec::new(),
        vec![0x30, 0x80],
        signature[..signature.len() - 1].to_vec(),
        [&signature[..], &[0]].concat(),
        vec![0x30, 6, 2, 1, 0, 2, 1, 0],
        vec![0xff; 64],
        vec![0x30; 1 << 20],
    ];
    for signature in garbage {
        let signature = Signature::SimpleSigning { payload: payload.clone(), signature };
        let why = malformed(verify(&public("cosign2.pub"), &pulled(), signature));
        assert!(why.contains("DER"), "{why}");
    }
    // The signature with the other value of `s`. Go's ECDSA accepts it, so cosign does.
    let low = p256::ecdsa::Signature::from_der(&signature).unwrap();
    let high = p256::ecdsa::Signature::from_scalars(low.r(), -low.s()).unwrap();
    assert_ne!(low, high);
    for signature in [low, high] {
        let signature = signature.to_der().as_bytes().to_vec();
        let signature = Signature::SimpleSigning { payload: payload.clone(), signature };
        assert!(verify(&public("cosign2.pub"), &pulled(), signature).is_ok());
    }
}

#[test]
fn bundles_of_other_shapes_are_malformed() {
    let key = public("cosign3.pub");
    for part in ["/dsseEnvelope/payload", "/dsseEnvelope/signatures/0/sig"] {
        let bundle = changed(&manifest_bundle(), |bundle| {
            *bundle.pointer_mut(part).unwrap() = "e30".into();
        });
        assert_eq!(malformed(verify(&key, &pulled(), bundle)), "a part of it is not base64");
    }
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 8] = [
        ("media type", |b| b["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1".into()),
        ("media type", |b| b["mediaType"] = "\u{202e}".into()),
        ("in-toto", |b| b["dsseEnvelope"]["payloadType"] = "text/plain".into()),
        ("exactly one", |b| b["dsseEnvelope"] = Value::Null),
        ("exactly one", |b| {
            b["messageSignature"] =
                json!({"messageDigest": {"algorithm": "SHA2_256", "digest": ""}, "signature": ""});
        }),
        ("sigstore bundle", |b| b["dsseEnvelope"]["signatures"] = "sig".into()),
        ("exactly one signature", |b| b["dsseEnvelope"]["signatures"] = json!([])),
        ("exactly one signature", |b| b["dsseEnvelope"]["signatures"] = json!([{"sig": ""}, {"sig": ""}])),
    ];
    for (place, (word, change)) in changes.into_iter().enumerate() {
        let why = malformed(verify(&key, &pulled(), changed(&manifest_bundle(), change)));
        assert!(why.contains(word) && !why.contains('\u{202e}'), "{place}: {why}");
    }
    let text = String::from_utf8(bytes("manifest.bundle.json")).unwrap();
    let text = text.replace(r#""dsseEnvelope":"#, r#""dsseEnvelope":null,"dsseEnvelope":"#);
    let why = malformed(verify(&public("cosign3.pub"), &pulled(), Signature::Bundle(text.into_bytes())));
    assert!(why.contains("duplicate field"), "{why}");
    let bundle = Signature::Bundle(bytes("component.cosign2.old.json"));
    let why = malformed(verify(&public("cosign2.pub"), &file(), bundle));
    assert!(why.contains("--new-bundle-format"), "{why}");
}

#[test]
fn material_is_bounded_before_it_is_parsed_and_so_is_the_number_of_signatures() {
    let text = String::from_utf8(bytes("manifest.bundle.json")).unwrap();
    let largest = format!("{}{text}", " ".repeat(MAX_BUNDLE - text.len())).into_bytes();
    assert!(verify(&public("cosign3.pub"), &pulled(), Signature::Bundle(largest.clone())).is_ok());
    for larger in [[&largest[..], b" "].concat(), vec![b'['; 1 << 20]] {
        let why = malformed(verify(&public("cosign3.pub"), &pulled(), Signature::Bundle(larger)));
        assert!(why.contains("at most 65536 are read"), "{why}");
    }
    malformed(verify(&public("cosign3.pub"), &pulled(), Signature::Bundle(vec![b'['; MAX_BUNDLE])));
    let payload = " ".repeat(MAX_BUNDLE + 1);
    let why = malformed(verify(&public("cosign2.pub"), &pulled(), PrivateKey::of(1).simple_over(&payload)));
    assert!(why.contains("at most 65536 are read"), "{why}");
    let key = Keys(vec![public("cosign2.pub")]);
    let mut signatures = vec![Signature::Bundle(Vec::new()); MAX_SIGNATURES - 1];
    signatures.push(simple());
    assert!(key.verify(&pulled(), &signatures).is_ok());
    signatures.push(simple());
    assert_eq!(key.verify(&pulled(), &signatures), Err(VerifyError::TooMany(MAX_SIGNATURES + 1)));
}

#[test]
fn the_nearest_fault_is_reported_and_says_what_to_do() {
    let key = PrivateKey::of(1);
    let keys = Keys(vec![key.public()]);
    let garbage = Signature::Bundle(Vec::new());
    let other_key = PrivateKey::of(2).simple(manifest());
    let other_subject = key.simple(Digest::of(OTHER));
    let refused = |signatures: &[&Signature]| {
        let signatures: Vec<_> = signatures.iter().copied().cloned().collect();
        keys.verify(&pulled(), &signatures).unwrap_err()
    };
    assert!(matches!(refused(&[&other_key, &other_subject, &garbage]), VerifyError::OtherSubject { .. }));
    assert!(matches!(refused(&[&other_key, &garbage]), VerifyError::OtherKey { .. }));
    assert!(matches!(refused(&[&garbage]), VerifyError::Malformed { .. }));
    let other = VerifyError::OtherSubject { signed: "sha256:00".to_owned(), expected: Digest::of(b"") };
    assert_eq!(
        other.to_string(),
        format!(
            "the signature is for sha256:00, not for {}; fetch the plugin again, or ask its author to sign it",
            Digest::of(b"")
        )
    );
    let other = VerifyError::OtherKey { keys: vec!["SHA256:a".to_owned(), "SHA256:b".to_owned()] };
    assert_eq!(
        other.to_string(),
        "none of the keys SHA256:a, SHA256:b made a signature of it; name the signer's key with --key"
    );
}

#[test]
fn the_component_of_the_fixtures_is_that_of_its_text() {
    let text = String::from_utf8(bytes("component.wat")).unwrap();
    assert_eq!(wat::parse_str(text).unwrap(), bytes("component.wasm"));
}
