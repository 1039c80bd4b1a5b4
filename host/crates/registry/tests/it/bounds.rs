//! Sizes, digests and times of what a registry sends.

use crate::kit::{Fault, Proxy, artifact, client, failure, published, push, reference, settings};
use http::Method;
use toolyard_registry::{Client, Problem, Reference, Settings};
use toolyard_trust::Digest;

fn blob_path(bytes: &[u8]) -> String {
    format!("/blobs/{}", Digest::of(bytes))
}

#[tokio::test]
async fn a_component_above_the_limit_is_refused_before_it_is_read() {
    let Some((_server, proxy, reference, artifact)) = published(artifact("fetch")).await else { return };
    let limited = Settings { max_component: artifact.component.len() as u64 - 1, ..settings() };
    let text = failure(Client::new(limited).expect("a client").pull(&reference).await);
    assert!(text.contains("the component is larger than"), "{text}");
    assert!(text.ends_with("(`plugins.component`)"), "{text}");
    assert!(!proxy.lines().iter().any(|line| line.ends_with(&blob_path(&artifact.component))));
}

#[tokio::test]
async fn a_manifest_with_another_digest_than_the_reference_is_refused() {
    let Some((_server, proxy, reference, artifact)) = published(artifact("fetch")).await else { return };
    let digest = Some(artifact.digest());
    let other = crate::kit::artifact("other").manifest;
    proxy.faults().add(Method::GET, artifact.digest().to_string(), Fault::Answer(200, Vec::new(), other));
    let error = client().pull(&Reference { digest, ..reference }).await.expect_err("refused");
    assert!(matches!(error.problem(), Some(Problem::WrongDigest { promise: "reference", .. })), "{error}");
}

#[tokio::test]
async fn a_tag_that_moves_during_a_pull_changes_nothing() {
    let Some((server, proxy, reference, artifact)) = published(artifact("fetch")).await else { return };
    let other = crate::kit::artifact("other");
    push(&server.host, "acme/fetch:2", &other).await;
    let fault = Fault::Retag("/v2/acme/fetch/manifests/1".to_owned(), other.manifest.clone());
    proxy.faults().add_times(1, Method::GET, blob_path(&artifact.config), fault);
    assert_eq!(client().pull(&reference).await.expect("pulled"), artifact);
    assert_eq!(client().resolve(&reference).await.expect("resolved"), other.digest(), "the tag did move");
    assert_eq!(proxy.lines().iter().filter(|line| line.ends_with("/manifests/1")).count(), 2);
}

/// Too large, too slow, cut off or altered.
#[tokio::test]
async fn what_a_registry_must_not_send_is_refused() {
    let Some((server, _, _, artifact)) = published(artifact("fetch")).await else { return };
    let component = &artifact.component;
    let mut other = component.clone();
    other[30] ^= 1;
    let altered = format!("the blob has {}, the manifest says {}", Digest::of(&other), Digest::of(component));
    let (manifest, blob) = ("/manifests/1", &*blob_path(component));
    let answer = |body| Fault::Answer(200, Vec::new(), body);
    let header = Fault::Header("docker-content-digest", Digest::of(b"other").to_string());
    for (end, fault, says) in [
        (manifest, Fault::Endless, "the manifest is larger than 4194304 bytes"),
        (manifest, answer(vec![b' '; (4 << 20) + 1]), "the manifest is larger than 4194304 bytes"),
        (manifest, header, "the header Docker-Content-Digest says sha256:"),
        (manifest, Fault::Stall, "is too slow"),
        (blob, Fault::Endless, "the component is malformed: it has more than the"),
        (blob, Fault::Truncate, "the component ended after"),
        (blob, answer(component[..20].to_vec()), "the component ended after 20 bytes"),
        (blob, answer(other), &altered),
    ] {
        let proxy = Proxy::before(&server.host).await;
        proxy.faults().add(Method::GET, end, fault);
        let text = failure(client().pull(&reference(&proxy.host, "acme/fetch:1")).await);
        assert!(text.contains(says), "{text}");
    }
}

#[tokio::test]
async fn an_overloaded_registry_is_asked_once_more_after_its_pause_unless_that_is_long() {
    let Some((server, proxy, tag, artifact)) = published(artifact("fetch")).await else { return };
    let busy = |pause: &str| Fault::Answer(429, vec![("retry-after", pause.to_owned())], Vec::new());
    proxy.faults().add_times(1, Method::GET, "/manifests/1", busy("1"));
    let started = std::time::Instant::now();
    assert_eq!(client().resolve(&tag).await.expect("resolved"), artifact.digest());
    assert!(started.elapsed() >= std::time::Duration::from_secs(1));
    let body = br#"{"errors":[{"code":"UNAVAILABLE","message":"down for \u001b[31mmaintenance"}]}"#.to_vec();
    for (fault, requests, says) in [
        (busy("11"), 1, "answered with the status 429 and wants a pause of 11 s"),
        (
            Fault::Answer(503, Vec::new(), body),
            2,
            "answered with the status 503 (down for \\u{1b}[31mmaintenance)",
        ),
    ] {
        let proxy = Proxy::before(&server.host).await;
        proxy.faults().add(Method::GET, "/manifests/1", fault);
        let text = failure(client().resolve(&reference(&proxy.host, "acme/fetch:1")).await);
        assert!(text.contains(says), "{text}");
        assert_eq!(proxy.lines().len(), requests);
    }
}
