//! Key pairs: ECDSA over P-256 with SHA-256, in the formats of cosign.

mod encrypted;

use crate::digest::Digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use p256::ecdsa::signature::hazmat::{PrehashSigner as _, PrehashVerifier as _};
use p256::ecdsa::{DerSignature, Signature, SigningKey, VerifyingKey};
use p256::elliptic_curve::rand_core::OsRng;
use p256::pkcs8::{DecodePublicKey as _, EncodePublicKey as _, LineEnding};
use std::fmt;

/// The longest file of a key that is read, in bytes.
pub const MAX_KEY: usize = 16 << 10;

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file is longer than a key.
    #[error("the file has {0} bytes, and a key at most {MAX_KEY}; name the file of the key alone")]
    TooLarge(usize),
    /// The text is not PEM.
    #[error(
        "the file is not PEM text; name the file that `toolyard keygen` or `cosign generate-key-pair` wrote"
    )]
    NotPem,
    /// The label of the PEM text is another one.
    #[error("the file holds {found:?}, and this needs {wanted:?}; name the other file of the key pair")]
    OtherLabel {
        /// The label in the file.
        found: String,
        /// The label or labels that fit.
        wanted: &'static str,
    },
    /// A key of another algorithm or curve, or bytes that are not a key.
    #[error("this is not an ECDSA key of the curve P-256; make a pair with `toolyard keygen`")]
    OtherAlgorithm,
    /// The private key is encrypted in a way that cosign does not write.
    #[error("the encrypted private key cannot be read: {0}; make a pair with `toolyard keygen`")]
    Encryption(&'static str),
    /// The file asks for more work or memory than any program that writes keys.
    #[error(
        "decrypting the private key would need scrypt with N={n}, r={r}, p={p}, which is more than the limit; make \
         a pair with `toolyard keygen`"
    )]
    Costly {
        /// Iterations.
        n: u64,
        /// The size of a block.
        r: u64,
        /// Parallel computations.
        p: u64,
    },
    /// The password does not fit, or the file was changed: the two look alike.
    #[error("the password does not open the private key; set COSIGN_PASSWORD to the password of this file")]
    Password,
}

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads PEM text (`PUBLIC KEY`, SPKI).
    ///
    /// # Errors
    /// If the text is not the PEM of a public key for ECDSA over P-256.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let label = encrypted::label(pem)?;
        if label != "PUBLIC KEY" {
            return Err(KeyError::OtherLabel { found: label.to_owned(), wanted: "PUBLIC KEY" });
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
        format!("SHA256:{}", STANDARD_NO_PAD.encode(Digest::of(&self.to_der()).as_bytes()))
    }

    /// The DER of the key (SPKI).
    pub(crate) fn to_der(&self) -> Vec<u8> {
        self.0.to_public_key_der().map(|der| der.as_bytes().to_vec()).unwrap_or_default()
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

/// A private key. Dropping it overwrites its memory.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// A new key from the random numbers of the system.
    #[must_use]
    pub fn generate() -> Self {
        Self(SigningKey::random(&mut OsRng))
    }

    /// Reads a private key as cosign writes it, with either label: `ENCRYPTED SIGSTORE PRIVATE KEY` or
    /// `ENCRYPTED COSIGN PRIVATE KEY`. This takes a good part of a second, so that guesses are slow.
    ///
    /// # Errors
    /// If the text is not such a key, or the password is another one.
    pub fn from_encrypted_pem(pem: &str, password: &str) -> Result<Self, KeyError> {
        encrypted::open(pem, password).map(|key| Self(SigningKey::from(key)))
    }

    /// Encrypts the key as cosign does. cosign 2.5 and 3 read it.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn to_encrypted_pem(&self, password: &str) -> Result<String, KeyError> {
        encrypted::seal(&self.0, password)
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(*self.0.verifying_key())
    }

    /// The signature (DER) over the bytes with this digest. The same bytes give the same signature (RFC
    /// 6979).
    pub(crate) fn sign(&self, digest: &Digest) -> Vec<u8> {
        // Signing fails for digests that are shorter than half a scalar only.
        let signature: Option<Signature> = self.0.sign_prehash(digest.as_bytes()).ok();
        signature.map(|signature| DerSignature::from(signature).as_bytes().to_vec()).unwrap_or_default()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("public", &self.public()).finish_non_exhaustive()
    }
}
