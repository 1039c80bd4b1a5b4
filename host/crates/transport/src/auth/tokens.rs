//! The configured tokens, of which the host knows only the hashes.

use super::TokenSettings;
use serde_json::Value;
use std::sync::Arc;
use subtle::ConstantTimeEq as _;
use toolyard_dispatch::{Principal, Subject};

/// The tokens, by hash.
pub(super) struct Tokens(Vec<([u8; 32], Arc<Principal>)>);

impl Tokens {
    pub fn new(tokens: &[TokenSettings]) -> Self {
        Self(tokens.iter().map(|token| (token.sha256, Arc::new(principal(token)))).collect())
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
