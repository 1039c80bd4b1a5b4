//! The provenance of a component, in the file `NAME.wasm.provenance.json` beside it.

use crate::escape::brief;
use crate::key::PublicKey;
use crate::signature::{MAX_SIGNATURES, Signature, Subject, verify};
use serde::{Deserialize, Serialize};

/// The largest provenance file that is read, in bytes.
pub const MAX_PROVENANCE: usize = 256 << 10;
/// The most keys in it.
pub const MAX_KEYS: usize = 16;
/// The format that this version writes.
const VERSION: u64 = 1;

/// The OCI manifest, the signatures and the public keys, so that loading needs neither a network nor another
/// file. The file is untrusted: the lock file names the manifest and the key that count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    /// The bytes of the OCI manifest; `None` for files and addresses.
    pub manifest: Option<Vec<u8>>,
    /// At most [`MAX_SIGNATURES`].
    pub signatures: Vec<Signature>,
    /// At most [`MAX_KEYS`].
    pub keys: Vec<PublicKey>,
}

/// Why a provenance file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvenanceError {
    /// The file is too large.
    #[error(
        "the provenance has {0} bytes, and at most {MAX_PROVENANCE} are read; `toolyard install` writes it again"
    )]
    TooLarge(usize),
    /// A later version of Toolyard wrote the file.
    #[error("the provenance has version {0}, and this Toolyard reads version {VERSION}; update Toolyard")]
    Version(u64),
    /// Some part of the file does not fit.
    #[error("the provenance cannot be read: {0}; `toolyard install` writes it again")]
    Malformed(String),
}

#[derive(Deserialize)]
struct AnyVersion {
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    manifest: Option<Bytes>,
    #[serde(default)]
    signatures: Vec<Signature>,
    #[serde(default)]
    keys: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Bytes(#[serde(with = "crate::base64_text")] Vec<u8>);

impl Provenance {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file is too large, or not in this format.
    pub fn parse(file: &[u8]) -> Result<Self, ProvenanceError> {
        if file.len() > MAX_PROVENANCE {
            return Err(ProvenanceError::TooLarge(file.len()));
        }
        let not_json = |error: serde_json::Error| ProvenanceError::Malformed(brief(&error.to_string()));
        let AnyVersion { version } = serde_json::from_slice(file).map_err(not_json)?;
        if version != VERSION {
            return Err(ProvenanceError::Version(version));
        }
        let File { manifest, signatures, keys, .. } = serde_json::from_slice(file).map_err(not_json)?;
        if signatures.len() > MAX_SIGNATURES || keys.len() > MAX_KEYS {
            let why = format!("it has more than {MAX_SIGNATURES} signatures or {MAX_KEYS} keys");
            return Err(ProvenanceError::Malformed(why));
        }
        let keys = keys.iter().map(|pem| PublicKey::from_pem(pem));
        Ok(Self {
            manifest: manifest.map(|Bytes(manifest)| manifest),
            signatures,
            keys: keys
                .collect::<Result<_, _>>()
                .map_err(|error| ProvenanceError::Malformed(format!("a key of it does not fit: {error}")))?,
        })
    }

    /// The text of the file. [`Self::is_too_large`] says whether it can be read again.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let file = File {
            version: VERSION,
            manifest: self.manifest.clone().map(Bytes),
            signatures: self.signatures.clone(),
            keys: self.keys.iter().map(PublicKey::to_pem).collect(),
        };
        // Serializing strings does not fail.
        let mut text = serde_json::to_vec_pretty(&file).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Drops the signatures that this key did not make for the subject. Each signature costs time at every
    /// load, and everyone who may write to a registry can add some.
    pub fn keep_signatures_of(&mut self, key: &PublicKey, subject: &Subject) {
        self.signatures.retain(|signature| verify(&[key], subject, std::slice::from_ref(signature)).is_ok());
    }

    /// Whether [`Self::parse`] would refuse the text: too many bytes, signatures or keys.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.signatures.len() > MAX_SIGNATURES
            || self.keys.len() > MAX_KEYS
            || self.to_json().len() > MAX_PROVENANCE
    }
}
