//! Signatures as cosign publishes them, for key pairs. The transparency log is not asked.

mod bundle;
mod simple;

use crate::digest::Digest;
use crate::key::PublicKey;
use serde::{Deserialize, Serialize};

/// The largest bundle, and the largest payload of a simple signature, in bytes.
pub const MAX_BUNDLE: usize = 64 << 10;
/// The most signatures of one component.
pub const MAX_SIGNATURES: usize = 32;

/// Signature material as it was published; untrusted until verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signature {
    /// A layer of cosign 2.
    SimpleSigning {
        /// The JSON that is signed.
        #[serde(with = "crate::base64_text")]
        payload: Vec<u8>,
        /// DER.
        #[serde(with = "crate::base64_text")]
        signature: Vec<u8>,
    },
    /// The JSON of a sigstore bundle, version 0.3.
    Bundle(#[serde(with = "crate::base64_text")] Vec<u8>),
}

/// The bytes that a signature must be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The OCI manifest, if the component comes from a registry. A signature over the component alone does
    /// not count then.
    pub manifest: Option<Digest>,
    /// The component. It is signed itself (`cosign sign-blob`) if there is no manifest.
    pub component: Digest,
}

impl Subject {
    /// The digest that the signature must be for.
    fn signed(&self) -> Digest {
        self.manifest.unwrap_or(self.component)
    }
}

/// Why no signature counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// There is none.
    #[error("it carries no signature; ask its author to sign it, or set require-signature for its source")]
    Unsigned,
    /// A known key made a signature, for other bytes.
    #[error(
        "the signature is for {signed}, not for {expected}; fetch the plugin again, or ask its author to sign it"
    )]
    OtherSubject {
        /// The digest or kind of bytes that the signature names.
        signed: String,
        /// The digest that it should name.
        expected: Digest,
    },
    /// Other keys made the signatures.
    #[error("none of the keys {} made a signature of it; name the signer's key with --key", keys.join(", "))]
    OtherKey {
        /// The fingerprints of the keys that were tried.
        keys: Vec<String>,
    },
    /// There are signatures, and nothing to verify them with.
    #[error("it is signed, and no key is named to verify it with; name the signer's key with --key")]
    NoKeys,
    /// No signature can be read.
    #[error("the signature cannot be read: {why}; fetch the plugin again, or ask its author to sign it")]
    Malformed {
        /// The fault of the last signature.
        why: String,
    },
    /// More signatures than a plugin needs: each costs time.
    #[error(
        "it carries {0} signatures, and at most {MAX_SIGNATURES} are read; ask its author to remove some"
    )]
    TooMany(usize),
}

/// Any of these keys, with any signature of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys(pub Vec<PublicKey>);

impl Keys {
    /// The fingerprint of the signer, if any of the signatures is for the subject.
    ///
    /// # Errors
    /// If none is.
    pub fn verify(&self, subject: &Subject, signatures: &[Signature]) -> Result<String, VerifyError> {
        verify(&self.0.iter().collect::<Vec<_>>(), subject, signatures)
    }
}

/// The fault of one signature. Of several signatures the greatest fault is reported: it comes closest to a
/// signature that counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Malformed(String),
    OtherKey,
    OtherSubject(String),
}

impl Fault {
    fn malformed(why: impl Into<String>) -> Self {
        Self::Malformed(why.into())
    }
}

pub(crate) fn verify(
    keys: &[&PublicKey],
    subject: &Subject,
    signatures: &[Signature],
) -> Result<String, VerifyError> {
    if signatures.len() > MAX_SIGNATURES {
        return Err(VerifyError::TooMany(signatures.len()));
    }
    if keys.is_empty() && !signatures.is_empty() {
        return Err(VerifyError::NoKeys);
    }
    let mut nearest = None;
    for signature in signatures {
        match verify_one(keys, subject, signature) {
            Ok(key) => return Ok(key.fingerprint()),
            Err(fault) => nearest = nearest.max(Some(fault)),
        }
    }
    Err(match nearest {
        None => VerifyError::Unsigned,
        Some(Fault::Malformed(why)) => VerifyError::Malformed { why },
        Some(Fault::OtherKey) => {
            VerifyError::OtherKey { keys: keys.iter().map(|key| key.fingerprint()).collect() }
        }
        Some(Fault::OtherSubject(signed)) => VerifyError::OtherSubject { signed, expected: subject.signed() },
    })
}

fn verify_one<'k>(
    keys: &[&'k PublicKey],
    subject: &Subject,
    signature: &Signature,
) -> Result<&'k PublicKey, Fault> {
    match signature {
        Signature::SimpleSigning { payload, signature } => simple::verify(keys, subject, payload, signature),
        Signature::Bundle(json) => bundle::verify(keys, subject, json),
    }
}

/// The key among these that made a signature over bytes with this digest.
fn signer<'k>(keys: &[&'k PublicKey], digest: &Digest, signature: &[u8]) -> Result<&'k PublicKey, Fault> {
    if p256::ecdsa::Signature::from_der(signature).is_err() {
        return Err(Fault::malformed("it is not the DER of an ECDSA signature over P-256"));
    }
    keys.iter().copied().find(|key| key.is_signer(digest, signature)).ok_or(Fault::OtherKey)
}

/// Refuses material that is too large before it is parsed.
fn check_size(bytes: &[u8]) -> Result<(), Fault> {
    match bytes.len() {
        0..=MAX_BUNDLE => Ok(()),
        more => Err(Fault::malformed(format!("it has {more} bytes, and at most {MAX_BUNDLE} are read"))),
    }
}
