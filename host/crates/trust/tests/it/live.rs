//! Real cosign, 2.5 and 3.1 (`tests/registry/cosign.sh`), in both directions: it reads our keys and verifies our
//! signatures, and we read its keys and verify its signatures. Without cosign these tests print why they are
//! skipped; in CI they fail.

#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use crate::signed::{bytes, component, manifest, path};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use toolyard_trust::Digest;
use toolyard_trust::key::{PrivateKey, PublicKey};
use toolyard_trust::signature::{Keys, Signature, Subject, sign_blob, sign_bundle, sign_simple};

const PASSWORD: &str = "a pass phrase";

/// A release of cosign, and a folder for its files.
struct Cosign {
    major: u8,
    program: PathBuf,
    folder: TempDir,
}

/// Both releases, or none if they are not there.
fn releases() -> Vec<Cosign> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/registry");
    let found: Vec<_> = [2, 3]
        .into_iter()
        .map(|major| (major, target.join(format!("cosign-{major}/usr/bin/cosign"))))
        .filter(|(_, program)| program.is_file())
        .collect();
    if found.len() < 2 {
        assert!(std::env::var_os("CI").is_none(), "CI needs cosign: run tests/registry/cosign.sh");
        eprintln!("SKIPPED: cosign is not there; tests/registry/cosign.sh fetches it");
        return Vec::new();
    }
    let folder = || tempfile::tempdir().expect("a folder");
    found.into_iter().map(|(major, program)| Cosign { major, program, folder: folder() }).collect()
}

impl Cosign {
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join(name), bytes).expect("a file");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(name)).expect("a file")
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

    /// The flags that keep signing offline.
    fn offline(&self) -> &'static [&'static str] {
        match self.major {
            2 => &["--yes", "--tlog-upload=false", "--new-bundle-format"],
            _ => &["--yes", "--tlog-upload=false", "--use-signing-config=false"],
        }
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

#[test]
#[ignore = "nightly: packages"]
fn we_read_the_keys_of_cosign() {
    for cosign in releases() {
        cosign.run(&["generate-key-pair"]).unwrap();
        let text = |name| String::from_utf8(cosign.read(name)).unwrap();
        let key = PrivateKey::from_encrypted_pem(&text("cosign.key"), PASSWORD).unwrap();
        assert_eq!(key.public().to_pem(), text("cosign.pub"));
    }
}

#[test]
#[ignore = "nightly: packages"]
fn cosign_verifies_our_signature_over_a_component() {
    for cosign in releases() {
        let key = PrivateKey::generate();
        let bundle = sign_blob(&key, &bytes("component.wasm"));
        cosign.verify_blob(&bundle, &bytes("component.wasm"), &key.public()).unwrap();
        assert!(cosign.verify_blob(&bundle, b"other", &key.public()).is_err());
        assert!(
            cosign.verify_blob(&bundle, &bytes("component.wasm"), &PrivateKey::generate().public()).is_err()
        );
    }
}

#[test]
#[ignore = "nightly: packages"]
fn we_verify_signatures_of_cosign_over_a_component() {
    for cosign in releases() {
        let key = PrivateKey::generate();
        cosign.write("our.key", key.to_encrypted_pem(PASSWORD).unwrap());
        let component_path = path("component.wasm").display().to_string();
        let arguments = ["sign-blob", "--key", "our.key", "--bundle", "bundle.json", &component_path];
        cosign.run(&[&arguments[..], cosign.offline()].concat()).unwrap();
        let keys = Keys(vec![key.public()]);
        let subject = Subject { manifest: None, component: component() };
        let bundle = [Signature::Bundle(cosign.read("bundle.json"))];
        assert_eq!(keys.verify(&subject, &bundle), Ok(key.public().fingerprint()));
        let other = Subject { manifest: None, component: Digest::of(b"other") };
        assert!(keys.verify(&other, &bundle).is_err());
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

#[test]
#[ignore = "nightly: packages"]
fn cosign_verifies_our_simple_signature() {
    for cosign in releases() {
        let key = PrivateKey::generate();
        let Signature::SimpleSigning { payload, signature } =
            sign_simple(&key, "ghcr.io/acme/tiny", manifest())
        else {
            panic!("not simple")
        };
        cosign.write("payload", payload);
        cosign.write("signature", STANDARD.encode(signature));
        cosign.write("key.pub", key.public().to_pem());
        let mut arguments = vec!["verify-blob", "--key", "key.pub", "--signature", "signature"];
        arguments.extend(["--insecure-ignore-tlog=true", "--new-bundle-format=false", "payload"]);
        cosign.run(&arguments).unwrap();
    }
}

#[test]
#[ignore = "nightly: packages"]
fn cosign_accepts_both_values_of_s_as_we_do() {
    for cosign in releases() {
        let key = PrivateKey::generate();
        let Signature::Bundle(json) = sign_blob(&key, b"blob") else { panic!("not a bundle") };
        let mut value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let signature = &mut value["messageSignature"]["signature"];
        let der = STANDARD.decode(signature.as_str().unwrap()).unwrap();
        let one = p256::ecdsa::Signature::from_der(&der).unwrap();
        let other = p256::ecdsa::Signature::from_scalars(one.r(), -one.s()).unwrap();
        *signature = STANDARD.encode(other.to_der().as_bytes()).into();
        let bundles = [Signature::Bundle(json), Signature::Bundle(value.to_string().into_bytes())];
        let subject = Subject { manifest: None, component: Digest::of(b"blob") };
        for bundle in bundles {
            cosign.verify_blob(&bundle, b"blob", &key.public()).unwrap();
            assert!(Keys(vec![key.public()]).verify(&subject, &[bundle]).is_ok());
        }
    }
}
