//! TLS and proxies.

use crate::kit::{Access, Server, Tunnel, artifact, client, failure, push, reference, settings};
use std::collections::BTreeMap;
use toolyard_registry::{Client, Proxies, Registry, Settings};

fn with_registry(host: &str, registry: Registry) -> Settings {
    Settings { registries: BTreeMap::from([(host.to_owned(), registry)]), ..settings() }
}

#[tokio::test]
async fn a_private_ca_is_trusted_for_its_registry_and_another_is_not() {
    let (Some(server), Some(other)) = (Server::start(Access::Tls), Server::start(Access::Tls)) else {
        return;
    };
    let registry = Registry { ca: Some(server.ca()), plain_http: false };
    let client = Client::new(with_registry(&server.host, registry)).expect("a client");
    let reference = reference(&server.host, "acme/fetch:1");
    let text = failure(client.resolve(&reference).await);
    assert!(text.ends_with("has no such manifest; check the repository and the tag"), "{text}");
    let registry = Registry { ca: Some(other.ca()), plain_http: false };
    let client = Client::new(with_registry(&server.host, registry)).expect("a client");
    let text = failure(client.resolve(&reference).await);
    assert!(text.contains("invalid peer certificate"), "{text}");
}

#[test]
fn a_ca_that_is_missing_or_beside_plain_http_is_named() {
    let both = "`registries.\"registry.example\"` has both `ca` and `plain-http`; keep one of them";
    for (plain_http, says) in [(false, "/nowhere/ca.pem: "), (true, both)] {
        let registry = Registry { ca: Some("/nowhere/ca.pem".into()), plain_http };
        let text = failure(Client::new(with_registry("registry.example", registry)));
        assert!(text.starts_with(says), "{text}");
    }
}

#[tokio::test]
async fn a_registry_elsewhere_is_reached_through_the_proxy() {
    let Some(server) = Server::start(Access::Open) else { return };
    let tunnel = Tunnel::to(&server.host).await;
    let mut settings = with_registry("registry.example", Registry { ca: None, plain_http: true });
    settings.proxies = Proxies::all(&format!("http://user:secret@{}", tunnel.address), "");
    let client = Client::new(settings).expect("a client");
    let (reference, artifact) = (reference("registry.example", "acme/fetch:1"), artifact("fetch"));
    push(&server.host, "acme/fetch:1", &artifact).await;
    assert_eq!(client.pull(&reference).await.expect("pulled"), artifact);
    let head = tunnel.heads().remove(0).to_lowercase();
    assert!(head.starts_with("connect registry.example:80 http/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: basic dxnlcjpzzwnyzxq=\r\n"), "{head}");
}

#[tokio::test]
async fn a_registry_elsewhere_is_reached_with_tls_and_not_without() {
    let tunnel = Tunnel::to("127.0.0.1:1").await;
    let mut settings = settings();
    settings.proxies = Proxies::all(&format!("http://{}", tunnel.address), "other.example");
    let client = Client::new(settings).expect("a client");
    client.resolve(&reference("registry.example", "acme/fetch:1")).await.expect_err("nothing answers");
    assert!(tunnel.heads()[0].starts_with("CONNECT registry.example:443 "), "{:?}", tunnel.heads());
    client.resolve(&reference("other.example", "acme/fetch:1")).await.expect_err("it does not exist");
    let Some(server) = Server::start(Access::Open) else { return };
    push(&server.host, "acme/fetch:1", &artifact("fetch")).await;
    client.resolve(&reference(&server.host, "acme/fetch:1")).await.expect("resolved");
    assert_eq!(tunnel.heads().len(), 1, "hosts of NO_PROXY and this machine are reached directly");
}

#[tokio::test]
async fn a_registry_that_does_not_answer_is_named() {
    let text = failure(client().resolve(&reference("127.0.0.1:1", "acme/fetch:1")).await);
    assert!(text.starts_with("127.0.0.1:1/acme/fetch:1: cannot reach 127.0.0.1:1: "), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}
