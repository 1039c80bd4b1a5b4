//! A real registry, a proxy before it with faults, and artifacts for them.

mod faults;
mod proxy;
mod push;
mod server;
mod tunnel;

pub use faults::{Fault, Faults};
pub use proxy::Proxy;
pub use push::{INDEX, MANIFEST, push, put, put_blob};
pub use server::{Access, Server, program};
pub use tunnel::Tunnel;

use std::time::Duration;
use toolyard_registry::credentials::Store;
use toolyard_registry::{Artifact, Client, Reference, Settings};
use toolyard_trust::Digest;
use toolyard_trust::signature::Signature;

/// The user of registries with a login.
pub const USER: &str = "ada";
pub const PASSWORD: &str = "lovelace";
pub const MAX_COMPONENT: u64 = 1 << 20;

/// A component that differs from those with other names.
pub fn component(name: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (import "wasi:clocks/wall-clock@0.2.0" (instance $clock))
            (type $named (record (field "name" string)))
            (export "acme:{name}/tools@1.0.0" (instance $clock)))"#
    );
    wat::parse_str(text).expect("a component")
}

/// An artifact without signatures.
pub fn artifact(name: &str) -> Artifact {
    let mut artifact = Artifact::new(component(name)).expect("an artifact");
    let mut manifest: serde_json::Value = serde_json::from_slice(&artifact.manifest).expect("JSON");
    manifest["annotations"] = serde_json::json!({ "org.opencontainers.image.title": name });
    artifact.manifest = manifest.to_string().into_bytes();
    artifact.annotations.insert("org.opencontainers.image.title".to_owned(), name.to_owned());
    artifact
}

/// An artifact with a signature in each carrier. This crate does not verify them.
pub fn signed_artifact(name: &str) -> Artifact {
    Artifact { signatures: signatures(name), ..artifact(name) }
}

/// A signature of each carrier.
fn signatures(name: &str) -> Vec<Signature> {
    let payload = format!(r#"{{"critical":{{"identity":{{"docker-reference":"{name}"}}}}}}"#).into_bytes();
    let bundle = format!(r#"{{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","for":"{name}"}}"#);
    vec![
        Signature::Bundle(bundle.into_bytes()),
        Signature::SimpleSigning { payload, signature: vec![48, 6, 2, 1, 1, 2, 1, 2] },
    ]
}

/// Settings with short timeouts and without credentials.
pub fn settings() -> Settings {
    let mut settings = Settings::new(MAX_COMPONENT, Store::new(Vec::new()));
    settings.connect_timeout = Duration::from_secs(5);
    settings.read_timeout = Duration::from_secs(2);
    settings
}

pub fn client() -> Client {
    Client::new(settings()).expect("a client")
}

/// A client whose docker configuration has this password for this registry. The folder holds that file.
pub fn client_with(host: &str, user: &str, password: &str) -> (Client, tempfile::TempDir) {
    client_of(host, &serde_json::json!({ "username": user, "password": password }))
}

/// A client whose docker configuration has this entry for this registry. The folder holds that file.
pub fn client_of(host: &str, entry: &serde_json::Value) -> (Client, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.json");
    let config = serde_json::json!({ "auths": { host: entry } });
    std::fs::write(&file, config.to_string()).expect("written");
    let store = Store::new(vec![file]);
    let client = Client::new(Settings { credentials: store, ..settings() }).expect("a client");
    (client, folder)
}

pub fn reference(host: &str, rest: &str) -> Reference {
    format!("oci://{host}/{rest}").parse().expect("a reference")
}

/// The text of an error.
pub fn failure<T: std::fmt::Debug>(result: Result<T, toolyard_registry::Error>) -> String {
    result.expect_err("a failure").to_string()
}

/// A descriptor in JSON.
pub fn descriptor(media_type: &str, bytes: &[u8]) -> serde_json::Value {
    let digest = Digest::of(bytes).to_string();
    serde_json::json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
}

/// A registry with this artifact, a proxy before it, the address by way of the proxy, and the artifact.
pub async fn published(artifact: Artifact) -> Option<(Server, Proxy, Reference, Artifact)> {
    let server = Server::start(Access::Open)?;
    let proxy = Proxy::before(&server.host).await;
    push(&server.host, "acme/fetch:1", &artifact).await;
    let reference = reference(&proxy.host, "acme/fetch:1");
    Some((server, proxy, reference, artifact))
}
