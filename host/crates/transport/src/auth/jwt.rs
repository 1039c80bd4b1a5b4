//! A JSON Web Token, as an access token (RFC 7515, 7519, 9068): parsed strictly, and trusted only after its
//! signature matches a key of its issuer.

use super::claims::{self, ExpectedClaims};
use super::jwks::KeySet;
use super::rejection::TokenRejection;
use super::{Algorithm, IssuerSettings};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use std::time::Duration;
use toolyard_dispatch::{Subject, Timestamp};

/// A parsed token that is not verified.
pub(super) struct Jwt<'t> {
    /// The signed text: header and claims, as received.
    signed: &'t str,
    signature: &'t str,
    algorithm: Algorithm,
    kid: Option<String>,
    claims: Map<String, Value>,
}

impl<'t> Jwt<'t> {
    /// Splits and parses a token. Apart from `kid`, the host ignores what the header says about keys (`jwk`,
    /// `jku`, `x5c`, `x5u`), because the sender chooses it.
    pub fn read(token: &'t str) -> Result<Self, TokenRejection> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenRejection::Unknown)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenRejection::Unknown)?;
        if claims.contains('.') {
            return Err(TokenRejection::Unknown);
        }
        let header = object(header).ok_or(TokenRejection::Unreadable)?;
        if header.contains_key("crit") {
            return Err(TokenRejection::Critical);
        }
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::named);
        let algorithm = algorithm.ok_or(TokenRejection::Algorithm)?;
        if !header.get("typ").is_none_or(is_access_token) {
            return Err(TokenRejection::Type);
        }
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(TokenRejection::Unreadable),
        };
        let claims = object(claims).ok_or(TokenRejection::Unreadable)?;
        Ok(Self { signed, signature, algorithm, kid, claims })
    }

    /// Whether it names a key that is not among these. Newer ones may include it.
    pub fn needs_newer(&self, keys: &KeySet) -> bool {
        self.kid.as_deref().is_some_and(|kid| !keys.has(kid))
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// An identity token or a logout token of the same issuer grants no access, if it states its type (RFC 9068,
/// section 4).
fn is_access_token(typ: &Value) -> bool {
    typ.as_str().is_some_and(|typ| {
        ["JWT", "at+jwt", "application/at+jwt"].iter().any(|known| typ.eq_ignore_ascii_case(known))
    })
}

/// The rules for tokens of one issuer.
#[derive(Debug, Clone)]
pub struct TokenRules {
    issuer: String,
    audience: Vec<String>,
    algorithms: Vec<Algorithm>,
    leeway_ms: u64,
}

impl TokenRules {
    /// The rules for an issuer whose clock may be off by `leeway`.
    #[must_use]
    pub fn new(issuer: &IssuerSettings, leeway: Duration) -> Self {
        Self {
            issuer: issuer.issuer.as_str().to_owned(),
            audience: issuer.audience.clone(),
            algorithms: issuer.algorithms.clone(),
            leeway_ms: u64::try_from(leeway.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The subject of a token that passes all checks.
    ///
    /// # Errors
    /// The reason why it is not accepted.
    pub fn verify(&self, token: &str, keys: &KeySet, now: Timestamp) -> Result<Subject, TokenRejection> {
        let jwt = Jwt::read(token)?;
        let subject = self.subject(&jwt, now)?;
        self.check_signature(&jwt, keys)?;
        Ok(subject)
    }

    /// Whether the token names this issuer.
    pub(super) fn is_by(&self, jwt: &Jwt<'_>) -> bool {
        jwt.claims.get("iss").and_then(Value::as_str) == Some(&self.issuer)
    }

    /// The subject of the token, if its algorithm and claims are valid. Does not verify the signature.
    pub(super) fn subject(&self, jwt: &Jwt<'_>, now: Timestamp) -> Result<Subject, TokenRejection> {
        if !self.algorithms.contains(&jwt.algorithm) {
            return Err(TokenRejection::Algorithm);
        }
        let expected =
            ExpectedClaims { issuer: &self.issuer, audience: &self.audience, leeway_ms: self.leeway_ms, now };
        claims::subject(&jwt.claims, &expected)
    }

    /// Verifies the signature. The key, not the token, determines the algorithms that it may be used with.
    pub(super) fn check_signature(&self, jwt: &Jwt<'_>, keys: &KeySet) -> Result<(), TokenRejection> {
        let key = keys.find(jwt.kid.as_deref(), jwt.algorithm).ok_or(TokenRejection::Key)?;
        // An error means that the signature or the key cannot be parsed.
        let right = jsonwebtoken::crypto::verify(jwt.signature, jwt.signed.as_bytes(), key, jwt.algorithm.of);
        match right {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(TokenRejection::Signature),
        }
    }
}

#[cfg(test)]
mod tests;
