//! "Simple signing" of cosign 2: a signature over a small JSON that names the digest of an OCI manifest.

use super::{Fault, Subject, check_size, signer};
use crate::digest::Digest;
use crate::escape::brief;
use crate::key::PublicKey;
use serde::Deserialize;
use serde::de::IgnoredAny;

const TYPE: &str = "cosign container image signature";

#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    /// The name of the repository. It is not compared: a mirror has another name.
    #[serde(rename = "identity")]
    _identity: IgnoredAny,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
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
    let Payload { critical } = serde_json::from_slice(payload).map_err(|error| {
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
