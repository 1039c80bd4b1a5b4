//! "Simple signing" of cosign 2: a signature over a small JSON that names the digest of an OCI manifest.

use super::{Fault, Signature, Subject, check_size, signer};
use crate::digest::Digest;
use crate::escape::brief;
use crate::key::{PrivateKey, PublicKey};
use serde::{Deserialize, Serialize};

const TYPE: &str = "cosign container image signature";

#[derive(Serialize, Deserialize)]
struct Payload {
    critical: Critical,
    #[serde(default)]
    optional: serde_json::Value,
}

#[derive(Serialize, Deserialize)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

/// The reference is shown to people and not compared: a mirror has another name.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Identity {
    docker_reference: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Image {
    docker_manifest_digest: String,
}

pub(super) fn verify<'k>(
    keys: &[&'k PublicKey],
    subject: &Subject,
    payload: &[u8],
    signature: &[u8],
) -> Result<&'k PublicKey, Fault> {
    check_size(payload)?;
    let key = signer(keys, &Digest::of(payload), signature)?;
    let Payload { critical, .. } = serde_json::from_slice(payload).map_err(|error| {
        Fault::malformed(format!("its payload is not that of cosign ({})", brief(&error.to_string())))
    })?;
    if critical.kind != TYPE {
        return Err(Fault::malformed("its payload has another type than a signature of cosign"));
    }
    let named = critical.image.docker_manifest_digest;
    match subject.manifest {
        Some(manifest) if named.parse() == Ok(manifest) => Ok(key),
        _ => Err(Fault::OtherSubject(brief(&named))),
    }
}

pub(super) fn sign(key: &PrivateKey, reference: &str, manifest: Digest) -> Signature {
    let payload = Payload {
        critical: Critical {
            identity: Identity { docker_reference: reference.to_owned() },
            image: Image { docker_manifest_digest: manifest.to_string() },
            kind: TYPE.to_owned(),
        },
        optional: serde_json::Value::Null,
    };
    // Serializing strings does not fail.
    let payload = serde_json::to_vec(&payload).unwrap_or_default();
    let signature = key.sign(&Digest::of(&payload));
    Signature::SimpleSigning { payload, signature }
}
