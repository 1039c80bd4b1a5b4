//! Authentication: the token of a request, and its principal.
//!
//! The rights of a principal, the owners of tasks and the status of an answer are decided elsewhere. A token
//! is checked and forgotten: the host neither logs nor keeps nor forwards it, and remembers only its SHA-256.

mod address;
mod algorithm;
mod bearer;
mod challenge;
mod claims;
mod issuer;
mod jwks;
mod jwt;
mod metadata;
mod rejection;
mod settings;
mod source;
mod tokens;

pub use address::Address;
pub use algorithm::Algorithm;
pub use bearer::{Malformed, bearer};
pub use jwks::{BadKeySet, KeySet};
pub use jwt::TokenRules;
pub use rejection::TokenRejection;
pub use settings::{AuthSettings, IssuerSettings, KeySource, TokenSettings};
pub use toolyard_dispatch::rules::is_scope;

use bytes::Bytes;
use challenge::Challenges;
use http::{HeaderMap, HeaderValue};
use issuer::Issuer;
use jwt::Jwt;
use quick_cache::sync::Cache;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokens::Tokens;
use tokio_util::task::TaskTracker;
use toolyard_dispatch::{Clock, Principal, Timestamp};

/// The number of access tokens that are remembered as verified, by their SHA-256; others are verified at each
/// request. An entry takes a few hundred bytes; verifying a signature takes about 100 µs.
const MAX_VERIFIED: usize = 5_000;

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthError {
    /// There is no token.
    #[error("no token")]
    Missing,
    /// The header contains something other than a token.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The token was never accepted, or is no longer accepted. The client never learns which.
    #[error(transparent)]
    Invalid(#[from] TokenRejection),
    /// The token lacks a scope that every request needs.
    #[error("a required scope is missing")]
    Scope,
    /// The issuer's keys are not available now, and the previous ones are too old.
    #[error("the keys of the issuer are not available")]
    KeysAway,
}

/// The content of a verified token.
#[derive(Clone)]
struct VerifiedToken {
    principal: Arc<Principal>,
    issuer: Arc<Issuer>,
    /// The generation of the keys that verified it. With other keys, it is verified again.
    generation: u64,
}

/// Determines the principal of a request.
pub struct Auth {
    settings: AuthSettings,
    clock: Arc<dyn Clock>,
    anonymous: Arc<Principal>,
    tokens: Tokens,
    issuers: Vec<Arc<Issuer>>,
    /// By the SHA-256 of the token. Only verified tokens are added, so that strangers cannot fill the cache.
    verified: Cache<[u8; 32], VerifiedToken>,
    challenges: Challenges,
    metadata: Option<metadata::Document>,
}

impl Auth {
    /// With neither tokens nor issuers in `settings`, all callers are anonymous. `name` is the server's name
    /// for people.
    #[must_use]
    pub fn new(settings: AuthSettings, clock: Arc<dyn Clock>, name: &str) -> Self {
        Self::in_place_of(None, settings, clock, name)
    }

    /// The same with other settings. Tokens and issuers that did not change keep their principals and keys.
    #[must_use]
    pub fn with_settings(&self, settings: AuthSettings, name: &str) -> Self {
        Self::in_place_of(Some(self), settings, self.clock.clone(), name)
    }

    fn in_place_of(former: Option<&Self>, settings: AuthSettings, clock: Arc<dyn Clock>, name: &str) -> Self {
        let kept = |issuer: &IssuerSettings| {
            let former = former?;
            let same = former.settings.leeway == settings.leeway
                && former.settings.key_refresh == settings.key_refresh;
            let place = former.settings.issuers.iter().position(|other| same && other == issuer)?;
            former.issuers.get(place).cloned()
        };
        let new =
            |issuer: &IssuerSettings| Arc::new(Issuer::new(issuer, settings.leeway, settings.key_refresh));
        let issuers: Vec<_> =
            settings.issuers.iter().map(|issuer| kept(issuer).unwrap_or_else(|| new(issuer))).collect();
        let former_tokens = former.map(|former| (&*former.settings.tokens, &former.tokens));
        let metadata = (!issuers.is_empty())
            .then(|| settings.resource.as_ref().map(|at| metadata::Document::new(at, &settings, name)))
            .flatten();
        Self {
            anonymous: Arc::new(Principal::Anonymous),
            tokens: Tokens::new(&settings.tokens, former_tokens),
            verified: Cache::new(MAX_VERIFIED),
            challenges: Challenges::new(&settings, metadata.as_ref().map(metadata::Document::url)),
            metadata,
            issuers,
            settings,
            clock,
        }
    }

    /// Whether every request needs a token.
    #[must_use]
    pub fn is_required(&self) -> bool {
        !self.tokens.is_empty() || !self.issuers.is_empty()
    }

    /// Whether requests of this principal, which `former` let in, would still be let in. A token of an issuer counts
    /// as long as the issuer is configured as before.
    pub(crate) fn still_admits(&self, principal: &Arc<Principal>, former: &Self) -> bool {
        let is_kept = |name: &str| {
            let issuer = |auth: &Self| {
                let place =
                    auth.settings.issuers.iter().position(|issuer| issuer.issuer.to_string() == name)?;
                auth.issuers.get(place).cloned()
            };
            let both = issuer(self).zip(issuer(former));
            both.is_some_and(|(one, other)| Arc::ptr_eq(&one, &other))
        };
        match &**principal {
            Principal::Anonymous => !self.is_required(),
            Principal::Subject(subject) if subject.issuer != toolyard_dispatch::Subject::TOKENS => {
                is_kept(&subject.issuer)
            }
            // No request over HTTP is by the operator.
            Principal::Operator => false,
            Principal::Local | Principal::Subject(_) => self.tokens.has(principal),
        }
    }

    /// The principal of a request, determined only by its `Authorization` header. Tasks of `tracker`
    /// fetch the keys: a client that hangs up must not cancel a fetch that others wait for.
    pub(crate) async fn principal(
        &self,
        headers: &HeaderMap,
        tracker: &TaskTracker,
    ) -> Result<Arc<Principal>, AuthError> {
        if !self.is_required() {
            return Ok(self.anonymous.clone());
        }
        // A separate future, so that hosts without authentication do not pay for its size.
        let found = Box::pin(self.found(headers, tracker)).await;
        if let Err(why) = &found
            && *why != AuthError::Missing
        {
            tracing::debug!(%why, "a request was not let in");
        }
        found
    }

    async fn found(&self, headers: &HeaderMap, tracker: &TaskTracker) -> Result<Arc<Principal>, AuthError> {
        let token = bearer(headers)?.ok_or(AuthError::Missing)?;
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let principal = match self.tokens.find(&digest) {
            Some(principal) => principal,
            None => self.vouched_for(token, digest, tracker).await?,
        };
        let Principal::Subject(subject) = &*principal else { return Ok(principal) };
        if subject.expires_at.is_some_and(|end| end <= self.clock.now()) {
            return Err(TokenRejection::Expired.into());
        }
        if !self.settings.required_scopes.iter().all(|scope| subject.scopes.contains(scope)) {
            return Err(AuthError::Scope);
        }
        Ok(principal)
    }

    /// The subject of a token that an issuer signed: from the cache, or verified now.
    async fn vouched_for(
        &self,
        token: &str,
        digest: [u8; 32],
        tracker: &TaskTracker,
    ) -> Result<Arc<Principal>, AuthError> {
        if let Some(known) = self.verified.get(&digest) {
            let (generation, _) = known.issuer.keys(tracker).await?;
            if generation == known.generation {
                return Ok(known.principal);
            }
            self.verified.remove(&digest);
        }
        let jwt = Jwt::read(token)?;
        // Not verified yet: this only selects the issuer whose keys to try.
        let issuer = self.issuers.iter().find(|issuer| issuer.rules.is_by(&jwt));
        let issuer = issuer.ok_or(TokenRejection::Issuer)?;
        let (subject, generation) = self.verify(issuer, &jwt, tracker).await?;
        let principal = Arc::new(Principal::Subject(subject));
        let known = VerifiedToken { principal: principal.clone(), issuer: issuer.clone(), generation };
        self.verified.insert(digest, known);
        Ok(principal)
    }

    async fn verify(
        &self,
        issuer: &Arc<Issuer>,
        jwt: &Jwt<'_>,
        tracker: &TaskTracker,
    ) -> Result<(toolyard_dispatch::Subject, u64), AuthError> {
        // The claims come first: an expired token must not cause a fetch of keys.
        let subject = issuer.rules.subject(jwt, self.clock.now())?;
        let (mut generation, mut keys) = issuer.keys(tracker).await?;
        if jwt.needs_newer(&keys) {
            (generation, keys) = issuer.newer_keys(generation, tracker).await?;
        }
        issuer.rules.check_signature(jwt, &keys)?;
        Ok((subject, generation))
    }

    /// The time until the principal's token expires; `None` if it never does.
    pub(crate) fn time_left(&self, principal: &Principal) -> Option<Duration> {
        let end: Timestamp = principal.expires_at()?;
        Some(Duration::from_millis(end.since(self.clock.now())))
    }

    /// The `WWW-Authenticate` header for a request that is refused.
    pub(crate) fn challenge(&self, why: &AuthError) -> Option<HeaderValue> {
        self.challenges.to(why)
    }

    /// The challenge for a token that lacks the `scopes` that the request needs.
    pub(crate) fn challenge_for(&self, scopes: &[String]) -> Option<HeaderValue> {
        self.is_required().then(|| self.challenges.insufficient(scopes)).flatten()
    }

    /// The retry time while the issuer's keys are not available.
    pub(crate) fn retry_after(&self) -> Duration {
        issuer::cool_down(self.settings.key_refresh)
    }

    /// The metadata of the protected resource, if it is served at `path`.
    pub(crate) fn metadata_at(&self, path: &str) -> Option<Bytes> {
        self.metadata.as_ref().and_then(|document| document.at(path))
    }
}
