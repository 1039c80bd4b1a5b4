//! An index of artifacts, one of which is the component.

use crate::kit::{Access, INDEX, MANIFEST, Server, artifact, client, descriptor, push, put, reference};
use serde_json::json;

#[tokio::test]
async fn an_index_gives_its_component_for_wasip2() {
    let Some(server) = Server::start(Access::Open) else { return };
    let mut entries = Vec::new();
    for (name, architecture, os) in
        [("native", "amd64", "linux"), ("old", "wasm", "wasip1"), ("new", "wasm", "wasip2")]
    {
        let artifact = artifact(name);
        push(&server.host, &format!("x:{name}"), &artifact).await;
        let mut entry = descriptor(MANIFEST, &artifact.manifest);
        entry["platform"] = json!({ "architecture": architecture, "os": os });
        entries.push(entry);
    }
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries });
    put(&server.host, "/v2/x/manifests/1", INDEX, index.to_string().into_bytes()).await;
    let (reference, new) = (reference(&server.host, "x:1"), artifact("new"));
    assert_eq!(client().resolve(&reference).await.expect("resolved"), new.digest());
    assert_eq!(client().pull(&reference).await.expect("pulled"), new);
}
