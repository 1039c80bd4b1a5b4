//! Sizes, digests and times of what a registry sends.

use crate::kit::{Access, Fault, Proxy, Server, artifact, client, failure, reference, settings};
use http::Method;
use toolyard_registry::{Artifact, Client, Problem, Reference, Settings};
use toolyard_trust::Digest;

/// A registry with an artifact, a proxy before it, and the address by way of the proxy.
async fn published() -> Option<(Server, Proxy, Reference, Artifact)> {
    let server = Server::start(Access::Open)?;
    let proxy = Proxy::before(&server.host).await;
    let artifact = artifact("fetch");
    client().push(&reference(&server.host, "acme/fetch:1"), &artifact).await.expect("pushed");
    let reference = reference(&proxy.host, "acme/fetch:1");
    Some((server, proxy, reference, artifact))
}

fn blob_path(bytes: &[u8]) -> String {
    format!("/blobs/{}", Digest::of(bytes))
}

#[tokio::test]
async fn a_component_above_the_limit_is_refused_before_it_is_read() {
    let Some((_server, proxy, reference, artifact)) = published().await else { return };
    let limited = Settings { max_component: artifact.component.len() as u64 - 1, ..settings() };
    let text = failure(Client::new(limited).expect("a client").pull(&reference).await);
    assert!(text.contains("the component is larger than"), "{text}");
    assert!(text.ends_with("(`plugins.component`)"), "{text}");
    assert!(!proxy.lines().iter().any(|line| line.ends_with(&blob_path(&artifact.component))));
}

#[tokio::test]
async fn an_endless_manifest_is_refused() {
    let Some((_server, proxy, reference, _)) = published().await else { return };
    proxy.faults().add(Method::GET, "/manifests/1", Fault::Endless);
    let text = failure(client().pull(&reference).await);
    assert!(text.ends_with("the manifest is larger than 4194304 bytes"), "{text}");
}

#[tokio::test]
async fn a_manifest_that_announces_too_much_is_refused_at_once() {
    let Some((_server, proxy, reference, _)) = published().await else { return };
    let fault = Fault::Answer(200, Vec::new(), vec![b' '; (4 << 20) + 1]);
    proxy.faults().add(Method::GET, "/manifests/1", fault);
    let text = failure(client().pull(&reference).await);
    assert!(text.ends_with("the manifest is larger than 4194304 bytes"), "{text}");
}

#[tokio::test]
async fn an_endless_blob_is_refused() {
    let Some((_server, proxy, reference, artifact)) = published().await else { return };
    proxy.faults().add(Method::GET, blob_path(&artifact.component), Fault::Endless);
    let text = failure(client().pull(&reference).await);
    assert!(text.contains("the component is malformed: it has more than the"), "{text}");
}

#[tokio::test]
async fn a_truncated_blob_is_refused() {
    let Some((_server, proxy, reference, artifact)) = published().await else { return };
    proxy.faults().add(Method::GET, blob_path(&artifact.component), Fault::Truncate);
    let error = client().pull(&reference).await.expect_err("refused");
    assert!(matches!(error.problem(), Some(Problem::Truncated { item: "the component", .. })), "{error}");
}

#[tokio::test]
async fn a_blob_that_ends_early_without_an_error_is_refused() {
    let Some((_server, proxy, reference, artifact)) = published().await else { return };
    let half = artifact.component[..20].to_vec();
    proxy.faults().add(Method::GET, blob_path(&artifact.component), Fault::Answer(200, Vec::new(), half));
    let error = client().pull(&reference).await.expect_err("refused");
    assert!(matches!(error.problem(), Some(Problem::Truncated { received: 20, .. })), "{error}");
}

#[tokio::test]
async fn a_blob_with_another_digest_is_refused() {
    let Some((_server, proxy, reference, artifact)) = published().await else { return };
    let mut other = artifact.component.clone();
    other[30] ^= 1;
    let (found, expected) = (Digest::of(&other), Digest::of(&artifact.component));
    proxy.faults().add(Method::GET, blob_path(&artifact.component), Fault::Answer(200, Vec::new(), other));
    let text = failure(client().pull(&reference).await);
    assert!(text.contains(&format!("the blob has {found}, the manifest says {expected}")), "{text}");
}

#[tokio::test]
async fn a_manifest_with_another_digest_than_the_reference_is_refused() {
    let Some((_server, proxy, reference, artifact)) = published().await else { return };
    let digest = Some(artifact.digest());
    let other = crate::kit::artifact("other").manifest;
    proxy.faults().add(Method::GET, artifact.digest().to_string(), Fault::Answer(200, Vec::new(), other));
    let error = client().pull(&Reference { digest, ..reference }).await.expect_err("refused");
    assert!(matches!(error.problem(), Some(Problem::WrongDigest { promise: "reference", .. })), "{error}");
}

#[tokio::test]
async fn a_manifest_with_another_digest_than_its_header_is_refused() {
    let Some((_server, proxy, reference, _)) = published().await else { return };
    let fault = Fault::Header("docker-content-digest", Digest::of(b"other").to_string());
    proxy.faults().add(Method::GET, "/manifests/1", fault);
    let error = client().pull(&reference).await.expect_err("refused");
    assert!(matches!(error.problem(), Some(Problem::WrongDigest { .. })), "{error}");
}

#[tokio::test]
async fn a_tag_that_moves_during_a_pull_changes_nothing() {
    let Some((server, proxy, reference, artifact)) = published().await else { return };
    let other = crate::kit::artifact("other");
    client().push(&crate::kit::reference(&server.host, "acme/fetch:2"), &other).await.expect("pushed");
    let fault = Fault::Retag("/v2/acme/fetch/manifests/1".to_owned(), other.manifest.clone());
    proxy.faults().add_times(1, Method::GET, blob_path(&artifact.config), fault);
    proxy.faults().add(Method::GET, "/nothing", Fault::Endless);
    assert_eq!(client().pull(&reference).await.expect("pulled"), artifact);
    assert_eq!(client().resolve(&reference).await.expect("resolved"), other.digest(), "the tag did move");
    assert_eq!(proxy.lines().iter().filter(|line| line.ends_with("/manifests/1")).count(), 2);
}

#[tokio::test]
async fn a_body_that_stops_is_given_up() {
    let Some((_server, proxy, reference, _)) = published().await else { return };
    proxy.faults().add(Method::GET, "/manifests/1", Fault::Stall);
    let error = client().pull(&reference).await.expect_err("refused");
    assert!(matches!(error.problem(), Some(Problem::Slow { .. })), "{error}");
}

#[tokio::test]
async fn an_overloaded_registry_is_asked_once_more_after_its_pause() {
    let Some((_server, proxy, reference, artifact)) = published().await else { return };
    let pause = vec![("retry-after", "1".to_owned())];
    proxy.faults().add_times(1, Method::GET, "/manifests/1", Fault::Answer(429, pause, Vec::new()));
    let started = std::time::Instant::now();
    assert_eq!(client().resolve(&reference).await.expect("resolved"), artifact.digest());
    assert!(started.elapsed() >= std::time::Duration::from_secs(1));
}

#[tokio::test]
async fn a_registry_that_fails_twice_is_reported_with_its_sentence() {
    let Some((_server, proxy, reference, _)) = published().await else { return };
    let body = br#"{"errors":[{"code":"UNAVAILABLE","message":"down for \u001b[31mmaintenance"}]}"#.to_vec();
    proxy.faults().add(Method::GET, "/manifests/1", Fault::Answer(503, Vec::new(), body));
    let text = failure(client().resolve(&reference).await);
    assert!(text.contains("answered with the status 503 (down for \u{fffd}[31mmaintenance)"), "{text}");
    assert_eq!(proxy.lines().len(), 2);
}

#[tokio::test]
async fn a_long_pause_is_reported_instead_of_taken() {
    let Some((_server, proxy, reference, _)) = published().await else { return };
    let pause = vec![("retry-after", "11".to_owned())];
    proxy.faults().add(Method::GET, "/manifests/1", Fault::Answer(429, pause, Vec::new()));
    let text = failure(client().resolve(&reference).await);
    assert!(text.contains("answered with the status 429 and wants a pause of 11 s"), "{text}");
    assert_eq!(proxy.lines().len(), 1);
}

#[tokio::test]
async fn an_unknown_tag_is_named() {
    let Some((_server, proxy, _, _)) = published().await else { return };
    let host = &proxy.host;
    assert_eq!(
        failure(client().pull(&reference(host, "acme/fetch:9")).await),
        format!("{host}/acme/fetch:9: {host} has no such manifest; check the repository and the tag")
    );
}
