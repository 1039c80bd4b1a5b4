//! The operator's settings of authentication.

use super::{Address, Algorithm};
use std::path::PathBuf;
use std::time::Duration;
use toolyard_dispatch::Timestamp;

/// The tokens and issuers that are accepted.
#[derive(Debug, Clone)]
pub struct AuthSettings {
    /// This server, as its clients know it. There is one where there are issuers.
    pub resource: Option<Address>,
    /// How far the clocks of issuers may be off.
    pub leeway: Duration,
    /// The scopes that clients learn of.
    pub scopes: Vec<String>,
    /// The scopes that every token must have.
    pub required_scopes: Vec<String>,
    /// Tokens of the configuration.
    pub tokens: Vec<TokenSettings>,
    /// The accepted issuers.
    pub issuers: Vec<IssuerSettings>,
    /// When the keys of issuers are looked at.
    pub keys: KeyTimes,
    /// Bytes of one token.
    pub token_bytes: usize,
}

/// A token of the configuration.
#[derive(Debug, Clone)]
pub struct TokenSettings {
    /// The name of its principal.
    pub name: String,
    /// The SHA-256 of the token.
    pub sha256: [u8; 32],
    /// The scopes of the token.
    pub scopes: Vec<String>,
    /// From when on it is not accepted any more.
    pub expires: Option<Timestamp>,
    /// Its bearer is the user of this machine, as over stdio: a principal without a name and
    /// scopes, for as long as the token is configured.
    pub local: bool,
}

/// An issuer of tokens.
#[derive(Debug, Clone)]
pub struct IssuerSettings {
    /// Its name: the `iss` of its tokens, to the letter.
    pub issuer: Address,
    /// The audiences that are us; one of them must be in a token's `aud`.
    pub audience: Vec<String>,
    /// The source of its keys.
    pub keys: KeySource,
    /// The algorithms that its tokens may be signed with.
    pub algorithms: Vec<Algorithm>,
}

/// The source of an issuer's keys.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// At an address.
    Url(Address),
    /// In a file.
    File(PathBuf),
    /// Where the issuer's own metadata says (RFC 8414, OpenID Connect Discovery).
    Metadata(Address),
}

/// When the keys of issuers are looked at, and how much is read.
#[derive(Debug, Clone, Copy)]
pub struct KeyTimes {
    /// Keys of this age are fetched again.
    pub refresh: Duration,
    /// How soon after one fetch the next may follow; a file is read as often.
    pub cool_down: Duration,
    /// How long keys serve while the issuer cannot be reached.
    pub stale: Duration,
    /// Bytes of a document of an issuer.
    pub bytes: usize,
}
