//! Artifacts that are components, and those that are not.

use crate::kit::{
    Access, Server, artifact, client, component, descriptor, failure, put, put_blob, reference,
};
use serde_json::{Value, json};
use toolyard_registry::Artifact;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const WASM: &str = "application/wasm";
const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// Puts a manifest with these layers, and their blobs, into the repository `x`.
async fn publish(server: &Server, config_type: &str, artifact_type: Option<&str>, layers: &[(&str, &[u8])]) {
    let config = b"{}";
    put_blob(&server.host, "x", config).await;
    for (_, layer) in layers {
        put_blob(&server.host, "x", layer).await;
    }
    let layers: Vec<Value> = layers.iter().map(|(kind, layer)| descriptor(kind, layer)).collect();
    let mut manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(config_type, config),
        "layers": layers,
    });
    if let Some(artifact_type) = artifact_type {
        manifest["artifactType"] = json!(artifact_type);
    }
    put(&server.host, "/v2/x/manifests/1", MANIFEST, manifest.to_string().into_bytes()).await;
}

/// The error of a pull of such a manifest, without the address.
async fn refusal(config_type: &str, artifact_type: Option<&str>, layers: &[(&str, &[u8])]) -> Option<String> {
    let server = Server::start(Access::Open)?;
    publish(&server, config_type, artifact_type, layers).await;
    let text = failure(client().pull(&reference(&server.host, "x:1")).await);
    Some(text.split_once(": ").expect("an address").1.to_owned())
}

#[tokio::test]
async fn a_container_image_is_refused_as_one() {
    let layers: &[(&str, &[u8])] = &[("application/vnd.oci.image.layer.v1.tar+gzip", b"layer")];
    let Some(text) = refusal("application/vnd.oci.image.config.v1+json", None, layers).await else { return };
    assert!(
        text.starts_with(
            "this is a container image, not a WebAssembly component \
             (config application/vnd.oci.image.config.v1+json)"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn a_helm_chart_is_refused_as_one() {
    let Some(text) = refusal("application/vnd.cncf.helm.config.v1+json", None, &[(WASM, b"x")]).await else {
        return;
    };
    assert!(text.starts_with("this is a Helm chart, not a WebAssembly component"), "{text}");
}

#[tokio::test]
async fn another_artifact_is_refused_with_its_type() {
    let (empty, kind) = ("application/vnd.oci.empty.v1+json", Some("application/vnd.acme.model"));
    let Some(text) = refusal(empty, kind, &[(WASM, b"x")]).await else { return };
    assert!(text.starts_with("this is an artifact of the type application/vnd.acme.model, not"), "{text}");
}

#[tokio::test]
async fn two_components_are_refused() {
    let Some(text) = refusal(WASM_CONFIG, None, &[(WASM, b"x"), (WASM, b"y")]).await else { return };
    assert_eq!(text, "the manifest has 2 layers of application/wasm; expected one");
}

#[tokio::test]
async fn an_artifact_without_a_component_is_refused() {
    let Some(text) = refusal(WASM_CONFIG, None, &[("text/plain", b"x")]).await else { return };
    assert_eq!(text, "the manifest has 0 layers of application/wasm; expected one");
}

#[tokio::test]
async fn other_layers_beside_the_component_are_ignored() {
    let Some(server) = Server::start(Access::Open) else { return };
    let component = component("fetch");
    let layers: &[(&str, &[u8])] =
        &[("application/vnd.wassette.policy+yaml", b"allow: all"), (WASM, &component)];
    publish(&server, WASM_CONFIG, None, layers).await;
    let pulled = client().pull(&reference(&server.host, "x:1")).await.expect("pulled");
    assert_eq!(pulled.component, component);
}

/// Puts artifacts and an index of them, each with its platform, into a registry.
async fn index(server: &Server, entries: &[(&Artifact, Option<(&str, &str)>)]) {
    let mut manifests = Vec::new();
    for (artifact, platform) in entries {
        let target = format!("x@{}", artifact.digest());
        client().push(&reference(&server.host, &target), artifact).await.expect("pushed");
        let mut entry = descriptor(MANIFEST, &artifact.manifest);
        if let Some((architecture, os)) = platform {
            entry["platform"] = json!({ "architecture": architecture, "os": os });
        }
        manifests.push(entry);
    }
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    put(&server.host, "/v2/x/manifests/1", INDEX, index.to_string().into_bytes()).await;
}

#[tokio::test]
async fn an_index_gives_its_component_for_wasip2() {
    let Some(server) = Server::start(Access::Open) else { return };
    let (native, old, new) = (artifact("native"), artifact("old"), artifact("new"));
    let platforms = [("amd64", "linux"), ("wasm", "wasip1"), ("wasm", "wasip2")].map(Some);
    index(&server, &[(&native, platforms[0]), (&old, platforms[1]), (&new, platforms[2])]).await;
    let reference = reference(&server.host, "x:1");
    assert_eq!(client().resolve(&reference).await.expect("resolved"), new.digest());
    assert_eq!(client().pull(&reference).await.expect("pulled"), new);
}

#[tokio::test]
async fn an_index_with_one_entry_gives_it() {
    let Some(server) = Server::start(Access::Open) else { return };
    let only = artifact("only");
    index(&server, &[(&only, None)]).await;
    assert_eq!(client().pull(&reference(&server.host, "x:1")).await.expect("pulled"), only);
}

#[tokio::test]
async fn an_index_with_several_components_is_refused_with_their_platforms() {
    let Some(server) = Server::start(Access::Open) else { return };
    let (one, two) = (artifact("one"), artifact("two"));
    index(&server, &[(&one, Some(("wasm", "wasip1"))), (&two, Some(("wasm", "wasip3")))]).await;
    let text = failure(client().pull(&reference(&server.host, "x:1")).await);
    assert!(text.contains("no single component for wasm/wasip2, but wasm/wasip1, wasm/wasip3"), "{text}");
}
