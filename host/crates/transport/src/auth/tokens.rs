//! The configured tokens, of which the host knows only the hashes.

use super::TokenSettings;
use serde_json::Value;
use std::sync::Arc;
use subtle::ConstantTimeEq as _;
use toolyard_dispatch::{Principal, Subject};

/// The tokens, by hash.
pub(super) struct Tokens(Vec<([u8; 32], Arc<Principal>)>);

impl Tokens {
    /// The tokens of these settings. A token that `former` has as well, unchanged, keeps its principal.
    pub fn new(tokens: &[TokenSettings], former: Option<(&[TokenSettings], &Self)>) -> Self {
        let kept = |token: &TokenSettings| {
            let (settings, tokens) = former?;
            let place = settings.iter().position(|other| other == token)?;
            tokens.0.get(place).map(|(_, principal)| principal.clone())
        };
        let with_principal =
            |token: &TokenSettings| (token.sha256, kept(token).unwrap_or_else(|| Arc::new(principal(token))));
        Self(tokens.iter().map(with_principal).collect())
    }

    /// Whether this is the principal of one of these tokens.
    pub fn has(&self, principal: &Arc<Principal>) -> bool {
        self.0.iter().any(|(_, known)| Arc::ptr_eq(known, principal))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The principal of the token with this hash. All hashes are compared, each in constant time.
    pub fn find(&self, digest: &[u8; 32]) -> Option<Arc<Principal>> {
        let mut found = None;
        for (known, principal) in &self.0 {
            if bool::from(known.ct_eq(digest)) {
                found = Some(principal);
            }
        }
        found.cloned()
    }
}

fn principal(token: &TokenSettings) -> Principal {
    if token.local {
        return Principal::Local;
    }
    Principal::Subject(Subject {
        issuer: Subject::TOKENS.to_owned(),
        subject: token.name.clone(),
        client: None,
        scopes: token.scopes.iter().cloned().collect(),
        claims: Value::Object(serde_json::Map::new()),
        expires_at: token.expires,
    })
}
