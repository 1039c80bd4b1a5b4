//! Other programs: their artifacts are read here, and ours there.

use crate::kit::{
    Access, MAX_COMPONENT, Server, artifact, client, component, program, push, reference, signed_artifact,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use toolyard_registry::{Artifact, Reference, layout};
use toolyard_trust::Digest;
use toolyard_trust::key::PublicKey;
use toolyard_trust::signature::{Keys, Signature, Subject};

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
async fn oras_copies_our_tar_with_its_signatures_to_a_registry_and_its_tar_is_read() {
    let Some(stage) = Stage::of("oras") else { return };
    let artifact = as_oras_copies(signed_artifact("fetch"));
    stage.write_tar(&signed_artifact("fetch"));
    stage.run(&["cp", "--from-oci-layout", "--to-plain-http", "-r", "ours.tar:1", &stage.target()]);
    assert_eq!(client().pull(&stage.reference()).await.expect("pulled"), artifact);
    let tree = stage.run(&["discover", "--plain-http", &stage.target()]);
    assert!(tree.contains("application/vnd.dev.sigstore.bundle.v0.3+json"), "{tree}");
    stage.run(&["cp", "--to-oci-layout", "--from-plain-http", "-r", &stage.target(), "theirs:1"]);
    stage.run_program(Path::new("tar"), &["-C", "theirs", "-cf", "theirs.tar", "."]);
    assert_eq!(stage.read_tar(), artifact);
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

/// The commands of `host/docs/guides/write-tools/publish.md`, with oras in place of wkg.
#[tokio::test]
#[ignore = "nightly: packages"]
async fn a_component_that_oras_pushed_and_cosign_signed_is_verified() {
    for (is_bundle, format) in [(true, &[][..]), (false, &["--new-bundle-format=false"])] {
        let (Some(stage), Some(oras)) = (Stage::of("cosign"), program("oras")) else { return };
        let (target, at) = (stage.target(), |name: &str| stage.folder.path().join(name));
        std::fs::write(at("fetch.wasm"), component("fetch")).expect("written");
        std::fs::write(at("config.json"), "{}").expect("written");
        let config = "config.json:application/vnd.wasm.config.v0+json";
        let to = ["push", "--plain-http", "--config", config, "--annotation", "io.toolyard.manifest=[http]"];
        stage.run_program(&oras, &[&to[..], &[&target, "fetch.wasm:application/wasm"]].concat());
        stage.run(&["generate-key-pair"]);
        let digest = client().resolve(&stage.reference()).await.expect("resolved");
        let image = format!("{}/acme/fetch@{digest}", stage.server.host);
        let sign = ["sign", "--yes", "--key", "cosign.key", "--use-signing-config=false"];
        stage.run(&[&sign[..], format, &["--tlog-upload=false", "--allow-http-registry", &image]].concat());
        let pulled = client().pull(&stage.reference()).await.expect("pulled");
        assert_eq!(pulled.suggested_manifest(), Some("[http]"));
        let bundles: Vec<_> =
            pulled.signatures.iter().map(|one| matches!(one, Signature::Bundle(_))).collect();
        assert_eq!(bundles, [is_bundle], "{:?}", pulled.signatures);
        let pem = std::fs::read_to_string(at("cosign.pub")).expect("a key");
        let keys = Keys(vec![PublicKey::from_pem(&pem).expect("a key")]);
        let subject = Subject { manifest: Some(pulled.digest()), component: Digest::of(&pulled.component) };
        keys.verify(&subject, &pulled.signatures).expect("verified");
        // cosign reads the signatures of our layouts.
        push(&stage.server.host, "copy/fetch:1", &pulled).await;
        let copy = format!("{}/copy/fetch:1", stage.server.host);
        let verify = ["verify", "--key", "cosign.pub", "--insecure-ignore-tlog", "--allow-http-registry"];
        stage.run(&[&verify[..], format, &[&copy]].concat());
    }
}
