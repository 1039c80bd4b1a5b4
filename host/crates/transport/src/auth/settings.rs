//! The operator's settings of authentication.

use super::{Address, Algorithm};
use std::path::PathBuf;
use std::time::Duration;
use toolyard_dispatch::Timestamp;

/// The tokens and issuers that are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSettings {
    /// The address of this server, as its clients know it. Present if there are issuers.
    pub resource: Option<Address>,
    /// The tolerance for the clocks of issuers.
    pub leeway: Duration,
    /// The scopes that the metadata lists for clients.
    pub scopes: Vec<String>,
    /// The scopes that every token must have.
    pub required_scopes: Vec<String>,
    /// Tokens of the configuration.
    pub tokens: Vec<TokenSettings>,
    /// The accepted issuers.
    pub issuers: Vec<IssuerSettings>,
    /// The age at which the keys of issuers are fetched again.
    pub key_refresh: Duration,
}

/// A token of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSettings {
    /// The name of its principal.
    pub name: String,
    /// The SHA-256 of the token.
    pub sha256: [u8; 32],
    /// The scopes of the token.
    pub scopes: Vec<String>,
    /// The time from which it is no longer accepted.
    pub expires: Option<Timestamp>,
    /// The bearer of the token is the user of this machine, as over stdio: a principal without a name and
    /// scopes, as long as the token is configured.
    pub local: bool,
}

/// An issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerSettings {
    /// The name of the issuer: exactly the `iss` of its tokens.
    pub issuer: Address,
    /// The audiences that mean this server; a token's `aud` must contain one of them.
    pub audience: Vec<String>,
    /// The source of its keys.
    pub keys: KeySource,
    /// The algorithms that may sign its tokens.
    pub algorithms: Vec<Algorithm>,
}

/// The source of an issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// At an address.
    Url(Address),
    /// In a file.
    File(PathBuf),
    /// At the address in the issuer's metadata (RFC 8414, OpenID Connect Discovery).
    Metadata(Address),
}
