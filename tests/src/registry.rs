//! A registry of OCI images for tests: Debian's docker-registry, with its own folder and port. It ends with the value.

use crate::http::{Answer, Connection};
use crate::tokens::sha256;
use crate::{guests, schema};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// It answers within this time, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A running registry.
#[derive(Debug)]
pub struct RegistryServer {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl RegistryServer {
    /// Starts a registry without authentication; `None` if it is not installed, which is printed.
    ///
    /// # Panics
    /// In CI, if it is not installed; anywhere, if it does not start.
    pub fn start() -> Option<Self> {
        let program = guests::root().join("target/registry/bin/docker-registry");
        if !program.exists() {
            schema::skipped("docker-registry is not there: run tests/registry/install.sh");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
        let port = free.expect("a port").port();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: 127.0.0.1:{port}, relativeurls: true}}\n",
            folder.path().join("images").display()
        );
        let file = folder.path().join("config.yml");
        std::fs::write(&file, config).expect("writes");
        let child =
            Command::new(program).arg("serve").arg(file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let registry = Self { child: child.expect("starts"), port, _folder: folder };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the registry does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(registry)
    }

    /// The address of a repository with its tag in it.
    pub fn address(&self, repository: &str) -> String {
        format!("oci://127.0.0.1:{}/{repository}", self.port)
    }

    /// Publishes a component at an address of this registry, signed as cosign 2 does.
    ///
    /// # Panics
    /// If the registry refuses a part.
    pub async fn publish(&self, address: &str, component: &[u8], annotations: &Value, key: &SigningKey) {
        let path = address.strip_prefix(&self.address("")).expect("an address of this registry");
        let (repository, tag) = path.split_once(':').expect("a tag");
        let layer = self.put_blob(repository, "application/wasm", component).await;
        let config = "application/vnd.wasm.config.v0+json";
        let digest = self.put_manifest(repository, tag, config, &layer, annotations).await;
        let payload = json!({"critical": {"identity": {"docker-reference": repository},
            "image": {"docker-manifest-digest": digest}, "type": "cosign container image signature"}});
        let payload = payload.to_string().into_bytes();
        let signature: Signature = key.sign(&payload);
        let kind = "application/vnd.dev.cosign.simplesigning.v1+json";
        let mut layer = self.put_blob(repository, kind, &payload).await;
        let signature = STANDARD.encode(signature.to_der().as_bytes());
        layer["annotations"] = json!({"dev.cosignproject.cosign/signature": signature});
        let tag = format!("{}.sig", digest.replace(':', "-"));
        let config = "application/vnd.oci.image.config.v1+json";
        self.put_manifest(repository, &tag, config, &layer, &json!({})).await;
    }

    /// Uploads a blob. Returns its descriptor.
    async fn put_blob(&self, repository: &str, media_type: &str, blob: &[u8]) -> Value {
        let uploads = format!("/v2/{repository}/blobs/uploads/");
        let begun = self.send(Method::POST, &uploads, "application/octet-stream", &[]).await;
        let digest = digest(blob);
        let place = format!("{}&digest={digest}", begun.header("location"));
        self.send(Method::PUT, &place, "application/octet-stream", blob).await;
        json!({"mediaType": media_type, "digest": digest, "size": blob.len()})
    }

    /// Uploads the manifest of one layer, with an empty configuration of this type. Returns its digest.
    async fn put_manifest(
        &self,
        repository: &str,
        tag: &str,
        config: &str,
        layer: &Value,
        annotations: &Value,
    ) -> String {
        let config = self.put_blob(repository, config, b"{}").await;
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
            "annotations": annotations});
        let manifest = manifest.to_string();
        let path = format!("/v2/{repository}/manifests/{tag}");
        self.send(Method::PUT, &path, MANIFEST, manifest.as_bytes()).await;
        digest(manifest.as_bytes())
    }

    async fn send(&self, method: Method, path: &str, media_type: &str, body: &[u8]) -> Answer {
        let mut connection = Connection::open(self.port).await;
        let answer = connection.send(method, path, &[("content-type", media_type)], body.to_vec()).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.status);
        answer
    }
}

/// The digest of bytes, as OCI writes it.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
