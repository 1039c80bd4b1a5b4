//! Other programs: their artifacts are read here, and ours there.

use crate::kit::{Access, Server, artifact, client, program, reference, signed_artifact};
use std::path::Path;
use std::process::Command;
use toolyard_registry::{Artifact, layout};
use toolyard_trust::signature::Signature;

/// Runs a program of tests/registry/install.sh; its output.
fn run(program: &Path, folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("HOME", folder).env("COSIGN_PASSWORD", "secret");
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn write_tar(folder: &Path, artifact: &Artifact) {
    let file = std::fs::File::create(folder.join("ours.tar")).expect("a file");
    layout::write(artifact, Some("1"), file).expect("written");
}

fn read_tar(path: &Path) -> Artifact {
    layout::read(std::fs::File::open(path).expect("a file"), crate::kit::MAX_COMPONENT).expect("a layout")
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn oras_copies_our_tar_with_its_signatures_to_a_registry() {
    let (Some(oras), Some(server)) = (program("oras"), Server::start(Access::Open)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = signed_artifact("fetch");
    write_tar(folder.path(), &artifact);
    let target = format!("{}/acme/fetch:1", server.host);
    run(&oras, folder.path(), &["cp", "--from-oci-layout", "--to-plain-http", "-r", "ours.tar:1", &target]);
    let pulled = client().pull(&reference(&server.host, "acme/fetch:1")).await.expect("pulled");
    // oras copies what refers to the artifact, and not the tag of cosign 2.
    assert_eq!(pulled, Artifact { signatures: artifact.signatures[..1].to_vec(), ..artifact });
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn oras_reads_a_pushed_artifact_and_sees_its_signatures() {
    let (Some(oras), Some(server)) = (program("oras"), Server::start(Access::Open)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = signed_artifact("fetch");
    client().push(&reference(&server.host, "acme/fetch:1"), &artifact).await.expect("pushed");
    let target = format!("{}/acme/fetch:1", server.host);
    let manifest = run(&oras, folder.path(), &["manifest", "fetch", "--plain-http", &target]);
    assert_eq!(manifest.as_bytes(), artifact.manifest);
    let tree = run(&oras, folder.path(), &["discover", "--plain-http", &target]);
    assert!(tree.contains("application/vnd.dev.sigstore.bundle.v0.3+json"), "{tree}");
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn a_tar_of_oras_is_read_with_its_signatures() {
    let (Some(oras), Some(server)) = (program("oras"), Server::start(Access::Open)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = signed_artifact("fetch");
    client().push(&reference(&server.host, "acme/fetch:1"), &artifact).await.expect("pushed");
    let target = format!("{}/acme/fetch:1", server.host);
    run(&oras, folder.path(), &["cp", "--to-oci-layout", "--from-plain-http", "-r", &target, "theirs:1"]);
    run(Path::new("tar"), folder.path(), &["-C", "theirs", "-cf", "theirs.tar", "."]);
    let read = read_tar(&folder.path().join("theirs.tar"));
    assert_eq!(read, Artifact { signatures: artifact.signatures[..1].to_vec(), ..artifact });
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn skopeo_copies_our_tar_to_a_registry() {
    let (Some(skopeo), Some(server)) = (program("skopeo"), Server::start(Access::Open)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = artifact("fetch");
    write_tar(folder.path(), &artifact);
    let target = format!("docker://{}/acme/fetch:1", server.host);
    let flags = ["--insecure-policy", "copy", "--dest-tls-verify=false", "oci-archive:ours.tar:1", &target];
    run(&skopeo, folder.path(), &flags);
    assert_eq!(client().pull(&reference(&server.host, "acme/fetch:1")).await.expect("pulled"), artifact);
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn a_tar_of_skopeo_is_read() {
    let (Some(skopeo), Some(server)) = (program("skopeo"), Server::start(Access::Open)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = artifact("fetch");
    client().push(&reference(&server.host, "acme/fetch:1"), &artifact).await.expect("pushed");
    let source = format!("docker://{}/acme/fetch:1", server.host);
    let flags = ["--insecure-policy", "copy", "--src-tls-verify=false", &source, "oci-archive:theirs.tar:1"];
    run(&skopeo, folder.path(), &flags);
    assert_eq!(read_tar(&folder.path().join("theirs.tar")), artifact);
}

/// A key pair of cosign, and an artifact in a registry that it has signed.
async fn signed_by_cosign(cosign: &Path, server: &Server, folder: &Path, arguments: &[&str]) -> Artifact {
    let artifact = artifact("fetch");
    let reference = reference(&server.host, "acme/fetch:1");
    client().push(&reference, &artifact).await.expect("pushed");
    run(cosign, folder, &["generate-key-pair"]);
    let target = format!("{}/acme/fetch@{}", server.host, artifact.digest());
    let mut all = vec!["sign", "--yes", "--key", "cosign.key", "--allow-http-registry"];
    all.extend(arguments);
    run(cosign, folder, &[&all[..], &[&target]].concat());
    client().pull(&reference).await.expect("pulled")
}

fn is_verified(cosign: &Path, server: &Server, folder: &Path, arguments: &[&str]) {
    let target = format!("{}/copy/fetch:1", server.host);
    let mut all = vec!["verify", "--key", "cosign.pub", "--insecure-ignore-tlog", "--allow-http-registry"];
    all.extend(arguments);
    run(cosign, folder, &[&all[..], &[&target]].concat());
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn a_bundle_of_cosign_3_is_read_and_published_elsewhere() {
    let (Some(cosign), Some(server)) = (program("cosign"), Server::start(Access::Open)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("signing.json"), SIGNING_CONFIG).expect("written");
    let arguments = ["--signing-config", "signing.json"];
    let pulled = signed_by_cosign(&cosign, &server, folder.path(), &arguments).await;
    assert!(matches!(pulled.signatures[..], [Signature::Bundle(_)]), "{:?}", pulled.signatures);
    client().push(&reference(&server.host, "copy/fetch:1"), &pulled).await.expect("pushed");
    is_verified(&cosign, &server, folder.path(), &[]);
}

/// Without the servers of the public sigstore.
const SIGNING_CONFIG: &str = r#"{
    "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
    "rekorTlogConfig": {}, "tsaConfig": {}
}"#;

#[tokio::test]
#[ignore = "nightly: packages"]
async fn a_signature_of_cosign_2_is_read_and_published_elsewhere() {
    let (Some(cosign), Some(server)) = (program("cosign"), Server::start(Access::Open)) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--new-bundle-format=false", "--use-signing-config=false", "--tlog-upload=false"];
    let pulled = signed_by_cosign(&cosign, &server, folder.path(), &arguments).await;
    assert!(matches!(pulled.signatures[..], [Signature::SimpleSigning { .. }]), "{:?}", pulled.signatures);
    client().push(&reference(&server.host, "copy/fetch:1"), &pulled).await.expect("pushed");
    is_verified(&cosign, &server, folder.path(), &["--new-bundle-format=false"]);
}
