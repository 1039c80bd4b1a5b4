//! Signatures as cosign makes them, by keys of these tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::{EncodePublicKey as _, LineEnding};
use serde_json::{Value, json};
use toolyard_trust::Digest;
use toolyard_trust::key::PublicKey;
use toolyard_trust::signature::Signature;

pub struct PrivateKey(p256::ecdsa::SigningKey);

impl PrivateKey {
    /// The key of this number; 0 has none.
    pub fn of(number: u8) -> Self {
        Self(p256::ecdsa::SigningKey::from_slice(&[number; 32]).expect("a key"))
    }

    pub fn public(&self) -> PublicKey {
        let pem = self.0.verifying_key().to_public_key_pem(LineEnding::LF).expect("PEM");
        PublicKey::from_pem(&pem).expect("a public key")
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let signature: p256::ecdsa::Signature = self.0.sign(bytes);
        signature.to_der().as_bytes().to_vec()
    }

    /// A signature of cosign 2 over any payload.
    pub fn simple_over(&self, payload: &str) -> Signature {
        let payload = payload.as_bytes().to_vec();
        Signature::SimpleSigning { signature: self.sign(&payload), payload }
    }

    /// The signature of cosign 2 over a manifest.
    pub fn simple(&self, manifest: Digest) -> Signature {
        let payload = json!({"critical": {
            "identity": {"docker-reference": "mirror.example/elsewhere"},
            "image": {"docker-manifest-digest": manifest.to_string()},
            "type": "cosign container image signature",
        }});
        self.simple_over(&payload.to_string())
    }

    /// A bundle over any payload, as an author who errs, or means harm, could sign it.
    pub fn envelope(&self, payload: &Value) -> Signature {
        let (payload, kind) = (payload.to_string(), "application/vnd.in-toto+json");
        let pae = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
        let signature = STANDARD.encode(self.sign(pae.as_bytes()));
        let payload = STANDARD.encode(payload);
        let envelope = json!({"payload": payload, "payloadType": kind, "signatures": [{"sig": signature}]});
        bundle("dsseEnvelope", &envelope)
    }

    /// The bundle of cosign 3 over a manifest.
    pub fn bundle(&self, manifest: Digest) -> Signature {
        self.envelope(&statement(manifest))
    }

    /// The bundle of `cosign sign-blob`.
    pub fn blob(&self, bytes: &[u8]) -> Signature {
        let digest = STANDARD.encode(Digest::of(bytes).as_bytes());
        let digest = json!({"algorithm": "SHA2_256", "digest": digest});
        let signature = STANDARD.encode(self.sign(bytes));
        bundle("messageSignature", &json!({"messageDigest": digest, "signature": signature}))
    }
}

fn bundle(part: &str, content: &Value) -> Signature {
    let bundle = json!({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", part: content});
    Signature::Bundle(bundle.to_string().into_bytes())
}

/// The statement of cosign about a manifest.
pub fn statement(manifest: Digest) -> Value {
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": manifest.hex()}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1",
        "predicate": {},
    })
}
