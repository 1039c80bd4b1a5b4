//! Publishing.

use crate::kit::{Access, Fault, Proxy, Server, artifact, client, failure, reference, signed_artifact};
use http::Method;
use toolyard_registry::{Artifact, Reference};
use toolyard_trust::Digest;

#[tokio::test]
async fn a_pushed_artifact_is_pulled_with_equal_bytes() {
    let Some(server) = Server::start(Access::Open) else { return };
    let reference = reference(&server.host, "acme/fetch:1");
    let artifact = signed_artifact("fetch");
    assert_eq!(client().push(&reference, &artifact).await.expect("pushed"), artifact.digest());
    assert_eq!(client().resolve(&reference).await.expect("resolved"), artifact.digest());
    assert_eq!(client().pull(&reference).await.expect("pulled"), artifact);
}

#[tokio::test]
async fn the_tag_is_written_after_the_signatures() {
    let Some(server) = Server::start(Access::Open) else { return };
    let proxy = Proxy::before(&server.host).await;
    let artifact = signed_artifact("fetch");
    client().push(&reference(&proxy.host, "acme/fetch:1"), &artifact).await.expect("pushed");
    let writes: Vec<_> = proxy
        .lines()
        .into_iter()
        .filter(|line| line.starts_with("PUT") && line.contains("/manifests/"))
        .collect();
    let target = |target: String| format!("PUT /v2/acme/fetch/manifests/{target}");
    let hex = artifact.digest().hex();
    assert_eq!(writes.first(), Some(&target(artifact.digest().to_string())));
    assert!(
        writes.contains(&target(format!("sha256-{hex}")))
            && writes.contains(&target(format!("sha256-{hex}.sig")))
    );
    assert_eq!(writes.last(), Some(&target("1".to_owned())));
}

#[tokio::test]
async fn a_failed_signature_leaves_the_tag_as_it_was() {
    let Some(server) = Server::start(Access::Open) else { return };
    let proxy = Proxy::before(&server.host).await;
    let artifact = signed_artifact("fetch");
    let fault = Fault::Answer(507, Vec::new(), Vec::new());
    proxy.faults().add(Method::PUT, ".sig", fault);
    client().push(&reference(&proxy.host, "acme/fetch:1"), &artifact).await.expect_err("refused");
    let text = failure(client().resolve(&reference(&server.host, "acme/fetch:1")).await);
    let host = &server.host;
    let expected =
        format!("{host}/acme/fetch:1: {host} has no such manifest; check the repository and the tag");
    assert_eq!(text, expected);
}

#[tokio::test]
async fn blobs_that_the_registry_has_are_not_sent_again() {
    let Some(server) = Server::start(Access::Open) else { return };
    let proxy = Proxy::before(&server.host).await;
    let artifact = artifact("fetch");
    client().push(&reference(&proxy.host, "acme/fetch:1"), &artifact).await.expect("pushed");
    let uploads = || proxy.lines().iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!(uploads(), 2);
    client().push(&reference(&proxy.host, "acme/fetch:2"), &artifact).await.expect("pushed");
    assert_eq!(uploads(), 2);
}

#[tokio::test]
async fn an_artifact_that_does_not_belong_together_is_refused() {
    let tag = reference("127.0.0.1:1", "acme/fetch:1");
    let other = Reference { digest: Some(Digest::of(b"other")), ..tag.clone() };
    let text = failure(client().push(&other, &artifact("fetch")).await);
    assert!(text.contains("the reference names sha256:"), "{text}");
    let mixed = Artifact { component: crate::kit::component("other"), ..artifact("fetch") };
    let text = failure(client().push(&tag, &mixed).await);
    assert!(text.contains("the component has sha256:"), "{text}");
}
