//! Real cosign, 2.5 and 3.1 (`tests/registry/cosign.sh`), reads our keys and verifies our signatures; the fixtures hold
//! its own. Without cosign these tests print why they are skipped; in CI they fail.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use crate::signed::{bytes, manifest, path};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use toolyard_trust::key::{PrivateKey, PublicKey};
use toolyard_trust::signature::{Signature, sign_blob, sign_bundle};

const PASSWORD: &str = "a pass phrase";

/// A release of cosign, and a folder for its files.
struct Cosign {
    program: PathBuf,
    folder: TempDir,
}

/// Both releases, or none if they are not there.
fn releases() -> Vec<Cosign> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/registry");
    let programs = ["cosign-2", "cosign-3"].map(|release| target.join(release).join("usr/bin/cosign"));
    let found: Vec<_> = programs.into_iter().filter(|program| program.is_file()).collect();
    if found.len() < 2 {
        assert!(std::env::var_os("CI").is_none(), "CI needs cosign: run tests/registry/cosign.sh");
        eprintln!("SKIPPED: cosign is not there; tests/registry/cosign.sh fetches it");
        return Vec::new();
    }
    let folder = || tempfile::tempdir().expect("a folder");
    found.into_iter().map(|program| Cosign { program, folder: folder() }).collect()
}

impl Cosign {
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join(name), bytes).expect("a file");
    }

    /// Runs cosign in the folder, without a network. Returns its output, or its errors.
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .env("COSIGN_PASSWORD", PASSWORD)
            .output()
            .expect("cosign runs");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    /// Verifies without a transparency log. The trusted root is empty; without it, cosign would fetch one.
    fn verify(&self, arguments: &[&str]) -> Result<String, String> {
        self.write(
            "root.json",
            r#"{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#,
        );
        self.run(&[arguments, &["--insecure-ignore-tlog=true", "--trusted-root", "root.json"]].concat())
    }

    fn verify_blob(&self, bundle: &Signature, bytes: &[u8], key: &PublicKey) -> Result<String, String> {
        let Signature::Bundle(json) = bundle else { panic!("not a bundle") };
        self.write("bundle.json", json);
        self.write("blob", bytes);
        self.write("key.pub", key.to_pem());
        let mut arguments = vec!["verify-blob", "--key", "key.pub", "--bundle", "bundle.json"];
        arguments.extend(["--new-bundle-format", "blob"]);
        self.verify(&arguments)
    }
}

#[test]
#[ignore = "nightly: packages"]
fn cosign_reads_our_keys() {
    for cosign in releases() {
        let key = PrivateKey::generate();
        cosign.write("our.key", key.to_encrypted_pem(PASSWORD).unwrap());
        assert_eq!(cosign.run(&["public-key", "--key", "our.key"]), Ok(key.public().to_pem()));
    }
}

/// Go's ECDSA accepts both values of `s`, and so do we (`signatures.rs`).
#[test]
#[ignore = "nightly: packages"]
fn cosign_verifies_our_signature_over_a_component_with_both_values_of_s() {
    for cosign in releases() {
        let key = PrivateKey::generate();
        let bundle = sign_blob(&key, &bytes("component.wasm"));
        let Signature::Bundle(json) = &bundle else { panic!("not a bundle") };
        let mut value: serde_json::Value = serde_json::from_slice(json).unwrap();
        let signature = &mut value["messageSignature"]["signature"];
        let der = STANDARD.decode(signature.as_str().unwrap()).unwrap();
        let one = p256::ecdsa::Signature::from_der(&der).unwrap();
        let other = p256::ecdsa::Signature::from_scalars(one.r(), -one.s()).unwrap();
        *signature = STANDARD.encode(other.to_der().as_bytes()).into();
        let other = Signature::Bundle(value.to_string().into_bytes());
        for bundle in [bundle, other] {
            cosign.verify_blob(&bundle, &bytes("component.wasm"), &key.public()).unwrap();
            assert!(cosign.verify_blob(&bundle, b"other", &key.public()).is_err());
            let stranger = PrivateKey::generate().public();
            assert!(cosign.verify_blob(&bundle, &bytes("component.wasm"), &stranger).is_err());
        }
    }
}

/// A statement over a manifest is an attestation of the manifest's bytes.
#[test]
#[ignore = "nightly: packages"]
fn cosign_verifies_our_bundle_over_a_manifest() {
    for cosign in releases() {
        let key = PrivateKey::generate();
        let Signature::Bundle(json) = sign_bundle(&key, manifest()) else { panic!("not a bundle") };
        cosign.write("bundle.json", json);
        cosign.write("key.pub", key.public().to_pem());
        cosign.write("other", "other");
        let verify = |blob: &str| {
            let kind = "https://sigstore.dev/cosign/sign/v1";
            let mut arguments =
                vec!["verify-blob-attestation", "--key", "key.pub", "--bundle", "bundle.json"];
            arguments.extend(["--type", kind, "--new-bundle-format", blob]);
            cosign.verify(&arguments)
        };
        verify(&path("manifest.json").display().to_string()).unwrap();
        assert!(verify("other").is_err());
    }
}
