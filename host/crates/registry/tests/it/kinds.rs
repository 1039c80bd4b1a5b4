//! An index of artifacts, one of which is the component.

use crate::kit::{Access, Server, artifact, client, descriptor, put, reference};
use serde_json::json;
use toolyard_registry::Artifact;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

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
