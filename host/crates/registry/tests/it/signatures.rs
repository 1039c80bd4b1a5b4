//! Signatures in both carriers.

use crate::kit::{
    Access, Fault, INDEX, MANIFEST, Proxy, Server, artifact, client, descriptor, failure, published, push,
    put, put_blob, reference, signed_artifact,
};
use http::Method;
use serde_json::json;
use toolyard_registry::{MAX_SIGNATURE, MAX_SIGNATURES};
use toolyard_trust::Digest;
use toolyard_trust::signature::Signature;

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

#[tokio::test]
async fn the_referrers_api_replaces_the_tag() {
    let Some((server, proxy, reference, artifact)) = published(artifact("fetch")).await else { return };
    let digest = artifact.digest();
    let carrier = about(&artifact.manifest, b"{}", 0);
    put_blob(&server.host, "acme/fetch", b"{}").await;
    let path = format!("/v2/acme/fetch/manifests/{}", Digest::of(&carrier));
    put(&server.host, &path, MANIFEST, carrier.clone()).await;
    let manifests = [descriptor(MANIFEST, &carrier)];
    let list = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests }).to_string();
    let list = Fault::Answer(200, Vec::new(), list.into_bytes());
    proxy.faults().add(Method::GET, format!("/referrers/{digest}"), list);
    let pulled = client().pull(&reference).await.expect("pulled").signatures;
    assert_eq!(pulled, [Signature::Bundle(b"{}".to_vec())]);
    let tag = format!("/manifests/sha256-{}", digest.hex());
    assert!(!proxy.lines().iter().any(|line| line.ends_with(&tag)), "{:?}", proxy.lines());
}

#[tokio::test]
async fn a_list_of_referrers_that_cannot_be_read_is_an_error_unless_it_is_a_page_for_people() {
    let Some((_server, proxy, reference, artifact)) = published(signed_artifact("fetch")).await else {
        return;
    };
    let page = Fault::Answer(200, Vec::new(), b"<html>".to_vec());
    proxy.faults().add(Method::GET, format!("/referrers/{}", artifact.digest()), page);
    assert_eq!(client().pull(&reference).await.expect("pulled"), artifact);
    proxy.faults().add(Method::GET, ".sig", Fault::Answer(503, Vec::new(), Vec::new()));
    let text = failure(client().pull(&reference).await);
    assert!(text.contains("answered with the status 503"), "{text}");
}

/// A manifest about `subject` with this bundle.
fn about(subject: &[u8], bundle: &[u8], number: usize) -> Vec<u8> {
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": BUNDLE,
        "config": descriptor("application/vnd.oci.empty.v1+json", b"{}"),
        "layers": [descriptor(BUNDLE, bundle)],
        "subject": descriptor(MANIFEST, subject),
        "annotations": { "number": number.to_string() },
    });
    manifest.to_string().into_bytes()
}

/// Only a bundle about the artifact counts, up to its size, and the first ones, up to their number.
#[tokio::test]
async fn at_most_32_referrers_are_read() {
    let Some(server) = Server::start(Access::Open) else { return };
    let artifact = artifact("fetch");
    push(&server.host, "x:1", &artifact).await;
    let large = vec![b' '; usize::try_from(MAX_SIGNATURE).expect("small") + 1];
    for blob in [b"{}", &large[..]] {
        put_blob(&server.host, "x", blob).await;
    }
    let (own, other) = (&artifact.manifest, &crate::kit::artifact("other").manifest);
    for (manifests, found, requests) in [
        (vec![about(own, b"{}", 0)], 1, 1),
        (vec![about(other, b"{}", 0)], 0, 1),
        (vec![about(own, &large, 0)], 0, 1),
        (
            (0..MAX_SIGNATURES + 3).map(|number| about(own, b"{}", number)).collect(),
            MAX_SIGNATURES,
            MAX_SIGNATURES,
        ),
    ] {
        let mut entries = Vec::new();
        for manifest in manifests {
            let path = format!("/v2/x/manifests/{}", Digest::of(&manifest));
            let mut entry = descriptor(MANIFEST, &manifest);
            put(&server.host, &path, MANIFEST, manifest).await;
            // As cosign 3 writes it (sigstore/cosign#4422).
            entry["artifactType"] = json!("application/vnd.oci.empty.v1+json");
            entries.push(entry);
        }
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries });
        let path = format!("/v2/x/manifests/sha256-{}", artifact.digest().hex());
        put(&server.host, &path, INDEX, index.to_string().into_bytes()).await;
        let proxy = Proxy::before(&server.host).await;
        let pulled = client().pull(&reference(&proxy.host, "x:1")).await.expect("pulled").signatures;
        assert_eq!(pulled, vec![Signature::Bundle(b"{}".to_vec()); found]);
        let lines = proxy.lines();
        assert_eq!(lines.iter().filter(|line| line.contains("/manifests/sha256:")).count(), requests);
    }
}
