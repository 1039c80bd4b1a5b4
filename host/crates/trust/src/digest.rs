//! SHA-256 digests as OCI writes them.

use sha2::{Digest as _, Sha256};
use std::fmt::{self, Display};
use std::str::FromStr;

/// Hexadecimal digits that [`Digest::short`] shows.
const SHORT: usize = 12;

/// The SHA-256 of some bytes. Its text is `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest that these 64 lower-case hexadecimal digits write.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let decoded = base16ct::lower::decode(hex, &mut bytes).ok()?;
        (decoded.len() == 32).then_some(Self(bytes))
    }

    /// The digest with these bytes, if there are 32 of them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        base16ct::lower::encode_string(&self.0)
    }

    /// The beginning, for people: `sha256:` and twelve digits. It identifies nothing.
    #[must_use]
    pub fn short(&self) -> String {
        let hex = self.hex();
        format!("sha256:{}…", hex.get(..SHORT).unwrap_or(&hex))
    }
}

impl Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

/// A text that is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a digest; write sha256: and 64 lower-case hexadecimal digits")]
pub struct DigestError;

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        text.strip_prefix("sha256:").and_then(Self::from_hex).ok_or(DigestError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_the_sha256_of_the_bytes_and_read_from_its_one_spelling_only() {
        assert_eq!(Digest::of(b"abc").to_string(), ABC);
        assert_eq!(Digest::of(b"abc").hex(), ABC["sha256:".len()..]);
        assert_eq!(Digest::of(b"abc").short(), "sha256:ba7816bf8f01…");
        assert_eq!(ABC.parse(), Ok(Digest::of(b"abc")));
        let upper = ABC.to_uppercase();
        let others = [
            "",
            "sha256:",
            &ABC[7..],
            &ABC[..ABC.len() - 1],
            &upper,
            &format!("{ABC}0"),
            &format!("{ABC}\n"),
            &format!(" {ABC}"),
            &ABC.replace("sha256", "sha512"),
            &ABC.replace("ba", "bé"),
            &ABC.replace('f', "g"),
        ];
        for other in others {
            assert_eq!(other.parse::<Digest>(), Err(DigestError), "{other:?}");
        }
    }
}
