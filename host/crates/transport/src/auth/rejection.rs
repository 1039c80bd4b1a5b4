//! Why a token is not accepted.

/// The reason why a token is not accepted. For the log; clients always get the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenRejection {
    /// The token is neither a configured token nor a JWT.
    #[error("the token is unknown")]
    Unknown,
    /// The token is a JWT with invalid parts.
    #[error("the token's header or claims cannot be read")]
    Unreadable,
    /// The token is a JWT for another purpose.
    #[error("the token's type is not that of an access token")]
    Type,
    /// The token requires an extension that the host does not support.
    #[error("the token has critical extensions")]
    Critical,
    /// The token is signed with an algorithm that its issuer may not use.
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// The issuer is not configured.
    #[error("the token's issuer is not accepted")]
    Issuer,
    /// The token is for another server.
    #[error("the token is for another audience")]
    Audience,
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("the token is from the future")]
    NotYet,
    /// A required claim is missing or invalid.
    #[error("a claim of the token is missing or makes no sense")]
    Claims,
    /// The issuer has no such key, or not for this algorithm.
    #[error("the token's key is not one of its issuer's")]
    Key,
    /// The signature does not match the key.
    #[error("the token's signature is wrong")]
    Signature,
}
