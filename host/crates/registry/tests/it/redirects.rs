//! Redirects, and the hosts to which they lead.

use crate::kit::{
    Access, Fault, PASSWORD, Proxy, Server, USER, artifact, client, client_with, failure, push, reference,
};
use http::Method;
use toolyard_trust::Digest;

fn redirect(target: &str) -> Fault {
    Fault::Answer(307, vec![("location", target.to_owned())], Vec::new())
}

/// The other host cannot ask for the password either.
#[tokio::test]
async fn a_blob_is_read_from_another_host_without_authorization() {
    let Some(server) = Server::start(Access::Basic) else { return };
    let (proxy, storage) = (Proxy::before(&server.host).await, Proxy::before("127.0.0.1:1").await);
    let (client, _folder) = client_with(&proxy.host, USER, PASSWORD);
    let (reference, artifact) = (reference(&proxy.host, "acme/fetch:1"), artifact("fetch"));
    push(&server.host, "acme/fetch:1", &artifact).await;
    let path = format!("/blobs/{}", Digest::of(&artifact.component));
    proxy.faults().add(Method::GET, path, redirect(&format!("http://{}/signed?x=1", storage.host)));
    let challenge = vec![("www-authenticate", r#"Basic realm="x""#.to_owned())];
    storage.faults().add_times(1, Method::GET, "/signed", Fault::Answer(401, challenge, Vec::new()));
    storage.faults().add(Method::GET, "/signed", Fault::Answer(200, Vec::new(), artifact.component.clone()));
    let text = failure(client.pull(&reference).await);
    assert!(text.contains(&format!("{} answered with the status 401", storage.host)), "{text}");
    assert_eq!(client.pull(&reference).await.expect("pulled"), artifact);
    assert_eq!(storage.seen()[0].path, "/signed?x=1");
    assert!(storage.seen().iter().all(|seen| seen.authorization.is_none()));
}

#[tokio::test]
async fn a_circle_of_redirects_ends_and_one_without_encryption_is_refused() {
    let proxy = Proxy::before("127.0.0.1:1").await;
    proxy.faults().add(Method::GET, "/manifests/2", redirect("http://storage.example/x?secret=1"));
    let text = failure(client().pull(&reference(&proxy.host, "acme/fetch:2")).await);
    assert!(text.contains("redirects to http://storage.example/x: http is not encrypted"), "{text}");
    proxy.faults().add(Method::GET, "/manifests/1", redirect("/v2/acme/fetch/manifests/1"));
    let text = failure(client().pull(&reference(&proxy.host, "acme/fetch:1")).await);
    assert!(text.ends_with("these are too many redirects"), "{text}");
    assert_eq!(proxy.lines().len(), 1 + 6);
}

#[tokio::test]
async fn a_component_is_fetched_by_https_through_redirects_up_to_its_bound() {
    let proxy = Proxy::before("127.0.0.1:1").await;
    proxy.faults().add(Method::GET, "/latest.wasm", redirect("1.0/fetch.wasm"));
    let component = crate::kit::component("fetch");
    proxy.faults().add(Method::GET, "/1.0/fetch.wasm", Fault::Answer(200, Vec::new(), component.clone()));
    let address = format!("http://{}/latest.wasm", proxy.host).parse().expect("an address");
    assert_eq!(client().fetch(&address).await.expect("fetched"), component);
    proxy.faults().add(Method::GET, "/endless.wasm", Fault::Endless);
    let address = format!("http://{}/endless.wasm", proxy.host).parse().expect("an address");
    let text = failure(client().fetch(&address).await);
    assert!(text.contains("the component is larger than 1048576 bytes"), "{text}");
    let text = failure(client().fetch(&http::Uri::from_static("http://example.com/a.wasm?token=x")).await);
    assert_eq!(text, "http://example.com/a.wasm: a component is fetched by https only");
}
