//! Public keys: ECDSA over P-256 with SHA-256, in the format of cosign.

use crate::digest::Digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use p256::pkcs8::der::pem;
use p256::pkcs8::{DecodePublicKey as _, EncodePublicKey as _, LineEnding};
use std::fmt;

/// The longest file of a key that is read, in bytes.
pub const MAX_KEY: usize = 16 << 10;
const LABEL: &str = "PUBLIC KEY";

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file is longer than a key.
    #[error("the file has {0} bytes, and a key at most {MAX_KEY}; name the file of the key alone")]
    TooLarge(usize),
    /// The text is not PEM.
    #[error("the file is not PEM text; name the file that `cosign generate-key-pair` wrote")]
    NotPem,
    /// The label of the PEM text is another one.
    #[error("the file holds {0:?}, and this needs {LABEL:?}; name the other file of the key pair")]
    OtherLabel(String),
    /// A key of another algorithm or curve, or bytes that are not a key.
    #[error("this is not an ECDSA key of the curve P-256; make a pair with `cosign generate-key-pair`")]
    OtherAlgorithm,
}

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads PEM text (SPKI).
    ///
    /// # Errors
    /// If the text is not the PEM of a public key for ECDSA over P-256.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        if pem.len() > MAX_KEY {
            return Err(KeyError::TooLarge(pem.len()));
        }
        let label = pem::decode_label(pem.trim().as_bytes()).map_err(|_| KeyError::NotPem)?;
        if label != LABEL {
            return Err(KeyError::OtherLabel(label.to_owned()));
        }
        VerifyingKey::from_public_key_pem(pem.trim()).map(Self).map_err(|_| KeyError::OtherAlgorithm)
    }

    /// The PEM text.
    #[must_use]
    pub fn to_pem(&self) -> String {
        // Encoding fails for lengths beyond those of DER only, and a point has a fixed length.
        self.0.to_public_key_pem(LineEnding::LF).unwrap_or_default()
    }

    /// `SHA256:` and the base64 of the SHA-256 over the DER of the key, without padding.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let der = self.0.to_public_key_der().map(|der| der.as_bytes().to_vec()).unwrap_or_default();
        format!("SHA256:{}", STANDARD_NO_PAD.encode(Digest::of(&der).as_bytes()))
    }

    /// Whether this key made the signature (DER) over the bytes with this digest. Like cosign it accepts both
    /// values of `s`.
    pub(crate) fn is_signer(&self, digest: &Digest, signature: &[u8]) -> bool {
        Signature::from_der(signature)
            .is_ok_and(|signature| self.0.verify_prehash(digest.as_bytes(), &signature).is_ok())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublicKey").field(&self.fingerprint()).finish()
    }
}
