//! Sigstore bundles, version 0.3: an in-toto statement in DSSE over an OCI manifest, or a signature over the
//! bytes of a file.

use super::{Fault, Subject, check_size, signer};
use crate::digest::Digest;
use crate::escape::brief;
use crate::key::PublicKey;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE: &str = "https://sigstore.dev/cosign/sign/v1";
const ALGORITHM: &str = "SHA2_256";

/// `verificationMaterial` is not read: the operator names the keys, and a bundle cannot.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    dsse_envelope: Option<Envelope>,
    message_signature: Option<MessageSignature>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: MessageDigest,
    signature: String,
}

#[derive(Deserialize)]
struct MessageDigest {
    algorithm: String,
    digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<StatementSubject>,
    predicate_type: String,
}

#[derive(Deserialize)]
struct StatementSubject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: Option<String>,
}

pub(super) fn verify<'k>(
    keys: &[&'k PublicKey],
    subject: &Subject,
    json: &[u8],
) -> Result<&'k PublicKey, Fault> {
    check_size(json)?;
    let bundle: Bundle = serde_json::from_slice(json).map_err(|error| unreadable(json, &error))?;
    if bundle.media_type != MEDIA_TYPE {
        let found = brief(&bundle.media_type);
        return Err(Fault::malformed(format!("its media type is {found}, and only version 0.3 is read")));
    }
    match (bundle.dsse_envelope, bundle.message_signature) {
        (Some(envelope), None) => verify_envelope(keys, subject, &envelope),
        (None, Some(message)) => verify_message(keys, subject, &message),
        _ => Err(Fault::malformed("it has not exactly one of dsseEnvelope and messageSignature")),
    }
}

/// cosign 2 writes another JSON unless it is asked for a bundle.
fn unreadable(json: &[u8], error: &serde_json::Error) -> Fault {
    #[derive(Deserialize)]
    struct OldBundle {
        #[serde(rename = "base64Signature")]
        _signature: serde::de::IgnoredAny,
    }
    match serde_json::from_slice::<OldBundle>(json) {
        Ok(_) => Fault::malformed("it is of the format before bundles; cosign 2 needs --new-bundle-format"),
        Err(_) => Fault::malformed(format!(
            "it is not the JSON of a sigstore bundle ({})",
            brief(&error.to_string())
        )),
    }
}

fn base64(text: &str) -> Result<Vec<u8>, Fault> {
    STANDARD.decode(text).map_err(|_| Fault::malformed("a part of it is not base64"))
}

/// The bytes that DSSE signs: it binds the type of the payload.
fn pae(payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

fn verify_envelope<'k>(
    keys: &[&'k PublicKey],
    subject: &Subject,
    envelope: &Envelope,
) -> Result<&'k PublicKey, Fault> {
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(Fault::malformed("its envelope does not hold an in-toto statement"));
    }
    // A bundle has one; others would be read by other programs, or not.
    let [EnvelopeSignature { sig }] = envelope.signatures.as_slice() else {
        return Err(Fault::malformed("its envelope has not exactly one signature"));
    };
    let payload = base64(&envelope.payload)?;
    let key = signer(keys, &Digest::of(&pae(&payload)), &base64(sig)?)?;
    let statement: Statement = serde_json::from_slice(&payload).map_err(|error| {
        Fault::malformed(format!("its statement is not that of cosign ({})", brief(&error.to_string())))
    })?;
    if statement.kind != STATEMENT_TYPE || statement.predicate_type != PREDICATE_TYPE {
        return Err(Fault::malformed(
            "its statement is not the signature of an artifact, but says something else",
        ));
    }
    let mut named = statement.subject.into_iter().filter_map(|subject| subject.digest.sha256).peekable();
    let first = named.peek().map_or_else(|| "nothing".to_owned(), |hex| format!("sha256:{}", brief(hex)));
    match subject.manifest {
        Some(manifest) if named.any(|hex| Digest::from_hex(&hex) == Some(manifest)) => Ok(key),
        _ => Err(Fault::OtherSubject(first)),
    }
}

fn verify_message<'k>(
    keys: &[&'k PublicKey],
    subject: &Subject,
    message: &MessageSignature,
) -> Result<&'k PublicKey, Fault> {
    let MessageDigest { algorithm, digest } = &message.message_digest;
    if algorithm != ALGORITHM {
        return Err(Fault::malformed("its message digest is not SHA2_256"));
    }
    let digest = base64(digest)?;
    let signature = base64(&message.signature)?;
    let named =
        Digest::from_bytes(&digest).ok_or_else(|| Fault::malformed("its message digest has not 32 bytes"))?;
    let key = signer(keys, &named, &signature)?;
    match subject.manifest {
        None if named == subject.component => Ok(key),
        None => Err(Fault::OtherSubject(named.to_string())),
        Some(_) => Err(Fault::OtherSubject(format!("the bytes of the file {named}"))),
    }
}
