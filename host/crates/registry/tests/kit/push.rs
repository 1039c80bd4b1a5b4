//! Artifacts that are put into a registry.

use super::proxy::{basic, http_client};
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;
use toolyard_registry::{Artifact, layout};
use toolyard_trust::Digest;

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Puts the layout of an artifact with its signatures into a registry. `name` has a tag.
pub async fn push(host: &str, name: &str, artifact: &Artifact) {
    let (repository, tag) = name.split_once(':').expect("a tag");
    let mut tar = Vec::new();
    layout::write(artifact, Some(tag), &mut tar).expect("written");
    let mut members = BTreeMap::new();
    for member in tar::Archive::new(&tar[..]).entries().expect("a tar") {
        let (mut member, mut bytes) = (member.expect("a member"), Vec::new());
        member.read_to_end(&mut bytes).expect("read");
        members.insert(String::from_utf8_lossy(&member.path_bytes()).into_owned(), bytes);
    }
    for (_, blob) in members.iter().filter(|(name, _)| name.starts_with("blobs/")) {
        put_blob(host, repository, blob).await;
    }
    let path = |target: &str| format!("/v2/{repository}/manifests/{target}");
    let index: Value = serde_json::from_slice(&members["index.json"]).expect("JSON");
    let mut referrers = Vec::new();
    for entry in index["manifests"].as_array().expect("entries") {
        let digest = entry["digest"].as_str().expect("a digest");
        let manifest = members[&format!("blobs/{}", digest.replace(':', "/"))].clone();
        let tag = entry["annotations"]["org.opencontainers.image.ref.name"].as_str();
        put(host, &path(tag.unwrap_or(digest)), MANIFEST, manifest).await;
        if tag.is_none() {
            referrers.push(entry);
        }
    }
    if !referrers.is_empty() {
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": referrers }).to_string();
        put(host, &path(&format!("sha256-{}", artifact.digest().hex())), INDEX, index.into_bytes()).await;
    }
}

/// Puts a manifest into a registry, as it is.
pub async fn put(host: &str, path: &str, media_type: &str, manifest: Vec<u8>) {
    send(Method::PUT, &format!("http://{host}{path}"), media_type, manifest).await;
}

/// Puts a blob into a registry.
pub async fn put_blob(host: &str, repository: &str, blob: &[u8]) {
    let uploads = format!("http://{host}/v2/{repository}/blobs/uploads/");
    let place = send(Method::POST, &uploads, "", Vec::new()).await;
    let address = format!("http://{host}{place}&digest={}", Digest::of(blob));
    send(Method::PUT, &address, "application/octet-stream", blob.to_vec()).await;
}

/// Sends a request with the password of the one user. Returns the location in the answer.
async fn send(method: Method, address: &str, media_type: &str, body: Vec<u8>) -> String {
    let request = Request::builder().method(method).uri(address).header(AUTHORIZATION, basic());
    let request = request.header(CONTENT_TYPE, media_type).body(Full::from(body)).expect("a request");
    let answer = http_client().request(request).await.expect("an answer");
    assert!(answer.status().is_success(), "{address}: {}", answer.status());
    let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    location.unwrap_or_default().to_owned()
}
