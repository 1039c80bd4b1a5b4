use super::*;

fn manifest(carrier: &Carrier) -> ImageManifest {
    Document::parse(&carrier.manifest).and_then(Document::image).expect("a manifest")
}

fn simple(payload: &[u8]) -> Signature {
    Signature::SimpleSigning { payload: payload.to_vec(), signature: vec![1, 2, 3] }
}

#[test]
fn a_bundle_with_a_statement_names_its_type() {
    let statement = STANDARD.encode(r#"{"predicateType":"https://sigstore.dev/cosign/sign/v1"}"#);
    let bundle = json!({ "dsseEnvelope": { "payload": statement } }).to_string();
    let annotations = manifest(&bundle_carrier(b"subject", bundle.as_bytes())).annotations;
    assert_eq!(annotations["dev.sigstore.bundle.content"], "dsse-envelope");
    assert_eq!(annotations["dev.sigstore.bundle.predicateType"], "https://sigstore.dev/cosign/sign/v1");
    let annotations = manifest(&bundle_carrier(b"subject", b"not JSON")).annotations;
    assert_eq!(annotations["dev.sigstore.bundle.content"], "message-signature");
}

#[test]
fn layers_without_a_valid_signature_are_skipped() {
    let carrier = simple_carrier(&[simple(b"one")]).expect("a manifest");
    let text = String::from_utf8(carrier.manifest).expect("text");
    for broken in [text.replace(&STANDARD.encode([1, 2, 3]), "%"), text.replace("simplesigning", "other")] {
        let manifest = Document::parse(broken.as_bytes()).and_then(Document::image).expect("a manifest");
        assert!(simple_layers(&manifest).is_empty());
    }
}

#[test]
fn likely_signatures_are_read_first_and_large_ones_never() {
    let entry = |kind: Option<&str>, size: u64| -> Descriptor {
        let digest = Digest::of(size.to_string().as_bytes()).to_string();
        let entry = json!({ "mediaType": "x", "digest": digest, "size": size, "artifactType": kind });
        serde_json::from_value(entry).expect("a descriptor")
    };
    let mut referrers: Vec<_> = (10..100).map(|size| entry(Some("application/spdx+json"), size)).collect();
    referrers.extend([entry(None, 2), entry(Some(EMPTY), 3), entry(Some(BUNDLE), 1)]);
    referrers.push(entry(Some(BUNDLE), MAX_SIGNATURE + 1));
    let likely: Vec<_> = likely_bundles(referrers).iter().map(|referrer| referrer.size).collect();
    assert_eq!(likely.len(), MAX_SIGNATURES);
    assert_eq!(likely[..4], [1, 2, 3, 10]);
}
