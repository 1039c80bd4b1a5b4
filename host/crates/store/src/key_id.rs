//! The ids of keys.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// Identifies a key. It is derived from the key, so that no two keys have the same id, and reveals
/// nothing about it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId(pub(crate) [u8; KeyId::LENGTH]);

impl KeyId {
    pub(crate) const LENGTH: usize = 8;

    pub(crate) fn of(secret: &[u8; 32]) -> Self {
        let digest = Sha256::new().chain_update(b"toolyard store key\0").chain_update(secret).finalize();
        Self(*digest.first_chunk().expect("a digest is longer"))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
