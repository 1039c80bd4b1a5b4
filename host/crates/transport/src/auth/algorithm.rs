//! The algorithms that may sign tokens. All are asymmetric: with a shared secret every verifier
//! could make tokens, and a public key that is mistaken for a secret would let anyone make tokens.

use jsonwebtoken::Algorithm as Of;
use std::fmt;

/// The kind of key that an algorithm needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// An algorithm.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Algorithm {
    name: &'static str,
    pub(super) of: Of,
    pub(super) kind: KeyKind,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 9] = [
        Self::new("RS256", Of::RS256, KeyKind::Rsa),
        Self::new("RS384", Of::RS384, KeyKind::Rsa),
        Self::new("RS512", Of::RS512, KeyKind::Rsa),
        Self::new("PS256", Of::PS256, KeyKind::Rsa),
        Self::new("PS384", Of::PS384, KeyKind::Rsa),
        Self::new("PS512", Of::PS512, KeyKind::Rsa),
        Self::new("ES256", Of::ES256, KeyKind::P256),
        Self::new("ES384", Of::ES384, KeyKind::P384),
        Self::new("EdDSA", Of::EdDSA, KeyKind::Ed25519),
    ];

    const fn new(name: &'static str, of: Of, kind: KeyKind) -> Self {
        Self { name, of, kind }
    }

    /// The algorithm with this name, spelled as in a token.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name == name)
    }

    /// The name of the algorithm.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
