//! Components: the part that all stores share.

use crate::codec::CodecError;
use sha2::{Digest as _, Sha256};
use toolyard_task::Digest;
use toolyard_task::journal::COMPONENT_KEPT_MS;
use toolyard_task::wire::Timestamp;

/// Refuses bytes with another digest. So a digest that passes is 64 hexadecimal digits, and safe as the name of
/// a file.
pub(crate) fn check(digest: &Digest, bytes: &[u8]) -> Result<(), CodecError> {
    let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found == digest.0 { Ok(()) } else { Err(CodecError::OtherComponent) }
}

/// Whether a component that was put at this time may be removed.
pub(crate) fn is_old(put: Timestamp, now: Timestamp) -> bool {
    put.plus(COMPONENT_KEPT_MS) <= now
}
