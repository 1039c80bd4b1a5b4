//! Other programs: their artifacts are read here, and ours there.

use crate::kit::{Access, MAX_COMPONENT, Server, artifact, client, program, reference, signed_artifact};
use std::path::{Path, PathBuf};
use std::process::Command;
use toolyard_registry::{Artifact, Reference, layout};
use toolyard_trust::signature::Signature;

/// Another program, with a registry and a folder.
struct Stage {
    program: PathBuf,
    server: Server,
    folder: tempfile::TempDir,
}

impl Stage {
    /// A stage for a program of tests/registry/install.sh, if that and the registry are there.
    fn of(name: &str) -> Option<Self> {
        let (program, server) = (program(name)?, Server::start(Access::Open)?);
        Some(Self { program, server, folder: tempfile::tempdir().expect("a folder") })
    }

    /// The output of the program with these arguments.
    fn run(&self, arguments: &[&str]) -> String {
        self.run_program(&self.program, arguments)
    }

    fn run_program(&self, program: &Path, arguments: &[&str]) -> String {
        let folder = self.folder.path();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).env("HOME", folder).env("COSIGN_PASSWORD", "secret");
        let output = command.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Writes the layout `ours.tar`.
    fn write_tar(&self, artifact: &Artifact) {
        let file = std::fs::File::create(self.folder.path().join("ours.tar")).expect("a file");
        layout::write(artifact, Some("1"), file).expect("written");
    }

    /// The artifact of the layout `theirs.tar`.
    fn read_tar(&self) -> Artifact {
        let file = std::fs::File::open(self.folder.path().join("theirs.tar")).expect("a file");
        layout::read(file, MAX_COMPONENT).expect("a layout")
    }

    /// The name of the artifact in the registry.
    fn target(&self) -> String {
        format!("{}/acme/fetch:1", self.server.host)
    }

    fn reference(&self) -> Reference {
        reference(&self.server.host, "acme/fetch:1")
    }
}

/// oras copies what refers to the artifact, and not the tag of cosign 2.
fn as_oras_copies(artifact: Artifact) -> Artifact {
    Artifact { signatures: artifact.signatures[..1].to_vec(), ..artifact }
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn oras_copies_our_tar_with_its_signatures_to_a_registry() {
    let Some(stage) = Stage::of("oras") else { return };
    let artifact = signed_artifact("fetch");
    stage.write_tar(&artifact);
    stage.run(&["cp", "--from-oci-layout", "--to-plain-http", "-r", "ours.tar:1", &stage.target()]);
    let pulled = client().pull(&stage.reference()).await.expect("pulled");
    assert_eq!(pulled, as_oras_copies(artifact));
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn oras_reads_a_pushed_artifact_with_its_signatures_and_its_tar_is_read() {
    let Some(stage) = Stage::of("oras") else { return };
    let artifact = signed_artifact("fetch");
    client().push(&stage.reference(), &artifact).await.expect("pushed");
    let manifest = stage.run(&["manifest", "fetch", "--plain-http", &stage.target()]);
    assert_eq!(manifest.as_bytes(), artifact.manifest);
    let tree = stage.run(&["discover", "--plain-http", &stage.target()]);
    assert!(tree.contains("application/vnd.dev.sigstore.bundle.v0.3+json"), "{tree}");
    stage.run(&["cp", "--to-oci-layout", "--from-plain-http", "-r", &stage.target(), "theirs:1"]);
    stage.run_program(Path::new("tar"), &["-C", "theirs", "-cf", "theirs.tar", "."]);
    assert_eq!(stage.read_tar(), as_oras_copies(artifact));
}

#[tokio::test]
#[ignore = "nightly: packages"]
async fn skopeo_copies_our_tar_to_a_registry_and_its_tar_is_read() {
    let Some(stage) = Stage::of("skopeo") else { return };
    let artifact = artifact("fetch");
    stage.write_tar(&artifact);
    let target = format!("docker://{}", stage.target());
    let copy = ["--insecure-policy", "copy", "--dest-tls-verify=false", "--src-tls-verify=false"];
    stage.run(&[&copy[..], &["oci-archive:ours.tar:1", &target]].concat());
    assert_eq!(client().pull(&stage.reference()).await.expect("pulled"), artifact);
    stage.run(&[&copy[..], &[&target, "oci-archive:theirs.tar:1"]].concat());
    assert_eq!(stage.read_tar(), artifact);
}

/// A configuration without the servers of the public sigstore.
const SIGNING_CONFIG: &str = r#"{
    "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
    "rekorTlogConfig": {}, "tsaConfig": {}
}"#;

#[tokio::test]
#[ignore = "nightly: packages"]
async fn signatures_in_both_formats_of_cosign_are_read_and_published_elsewhere() {
    let of_2 = "--new-bundle-format=false";
    for (is_bundle, format, signing) in [
        (true, &[][..], &["--signing-config", "signing.json"][..]),
        (false, &[of_2], &["--use-signing-config=false", "--tlog-upload=false"]),
    ] {
        let Some(stage) = Stage::of("cosign") else { return };
        std::fs::write(stage.folder.path().join("signing.json"), SIGNING_CONFIG).expect("written");
        let artifact = artifact("fetch");
        client().push(&stage.reference(), &artifact).await.expect("pushed");
        stage.run(&["generate-key-pair"]);
        let signed = format!("{}/acme/fetch@{}", stage.server.host, artifact.digest());
        let sign = ["sign", "--yes", "--key", "cosign.key", "--allow-http-registry"];
        stage.run(&[&sign[..], format, signing, &[&signed]].concat());
        let pulled = client().pull(&stage.reference()).await.expect("pulled");
        let bundles: Vec<_> =
            pulled.signatures.iter().map(|one| matches!(one, Signature::Bundle(_))).collect();
        assert_eq!(bundles, [is_bundle], "{:?}", pulled.signatures);
        let copy = reference(&stage.server.host, "copy/fetch:1");
        client().push(&copy, &pulled).await.expect("pushed");
        let copy = format!("{}/copy/fetch:1", stage.server.host);
        let verify = ["verify", "--key", "cosign.pub", "--insecure-ignore-tlog", "--allow-http-registry"];
        stage.run(&[&verify[..], format, &[&copy]].concat());
    }
}
