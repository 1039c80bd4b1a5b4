//! An issuer and its current keys. The host fetches them when they are first needed, again when they are old,
//! and at once when a token names an unknown key. The cool-down limits all fetches, so that strangers cannot
//! make the host flood the issuer with requests.

use super::jwks::KeySet;
use super::jwt::TokenRules;
use super::source;
use super::{AuthError, IssuerSettings, KeySource};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// The shortest time between two fetches of an issuer's keys, unless `jwks.refresh` is shorter. An issuer bears
/// six requests a minute of a host, whatever keys tokens name. The host reads a file of keys as often.
const COOL_DOWN: Duration = Duration::from_secs(10);
/// How long keys serve while their issuer cannot be reached, unless `jwks.refresh` is longer. Most outages of an
/// issuer are shorter, and a revoked key must not serve for days.
const MAX_STALE: Duration = Duration::from_secs(3600);

/// The shortest time between two fetches, if keys are fetched again at this age.
pub(super) fn cool_down(refresh: Duration) -> Duration {
    COOL_DOWN.min(refresh)
}

/// Keys, and the number that distinguishes them from previous ones.
pub(super) type CurrentKeys = (u64, Arc<KeySet>);

pub(super) struct Issuer {
    pub rules: TokenRules,
    name: String,
    source: KeySource,
    /// The age at which the keys are fetched again.
    refresh: Duration,
    cool_down: Duration,
    /// How long keys serve while the issuer cannot be reached.
    stale: Duration,
    state: Mutex<IssuerState>,
}

#[derive(Default)]
struct IssuerState {
    current: Option<CurrentKeys>,
    /// When these keys were last confirmed.
    seen: Option<Instant>,
    /// When the last fetch began.
    asked: Option<Instant>,
    /// Whether the last fetch failed.
    failed: bool,
    /// Closes when the current fetch has ended.
    flight: Option<watch::Receiver<()>>,
}

impl Issuer {
    pub fn new(settings: &IssuerSettings, leeway: Duration, refresh: Duration) -> Self {
        let cool_down = cool_down(refresh);
        Self {
            rules: TokenRules::new(settings, leeway),
            name: settings.issuer.to_string(),
            source: settings.keys.clone(),
            refresh: match settings.keys {
                // Reading a file costs almost nothing, so the keys are never much older than the file.
                KeySource::File(_) => cool_down,
                KeySource::Url(_) | KeySource::Metadata(_) => refresh,
            },
            cool_down,
            stale: MAX_STALE.max(refresh),
            state: Mutex::default(),
        }
    }

    /// The current keys. Old keys are fetched again first. While the issuer cannot be reached, no request
    /// waits for a fetch, and the previous keys remain in use for a while.
    pub async fn keys(self: &Arc<Self>, tracker: &TaskTracker) -> Result<CurrentKeys, AuthError> {
        let flight = {
            let mut state = self.state.lock();
            let fresh = state.seen.is_some_and(|seen| seen.elapsed() < self.refresh);
            if let Some(current) = state.current.as_ref().filter(|_| fresh) {
                return Ok(current.clone());
            }
            let flight = self.fetch(&mut state, tracker);
            flight.filter(|_| !state.failed || self.usable(&state).is_none())
        };
        landed(flight).await;
        self.usable(&self.state.lock()).ok_or(AuthError::KeysAway)
    }

    /// Keys that are newer than these, if there are any, because a token named a key that these lack.
    pub async fn newer_keys(
        self: &Arc<Self>,
        generation: u64,
        tracker: &TaskTracker,
    ) -> Result<CurrentKeys, AuthError> {
        let flight = {
            let mut state = self.state.lock();
            match self.usable(&state) {
                // Another request has fetched newer keys.
                Some(current) if current.0 > generation => return Ok(current),
                _ => self.fetch(&mut state, tracker),
            }
        };
        landed(flight).await;
        let state = self.state.lock();
        match self.usable(&state) {
            // It is unknown whether the key exists.
            Some(current) if current.0 == generation && state.failed => Err(AuthError::KeysAway),
            Some(current) => Ok(current),
            None => Err(AuthError::KeysAway),
        }
    }

    fn usable(&self, state: &IssuerState) -> Option<CurrentKeys> {
        state.current.clone().filter(|_| state.seen.is_some_and(|seen| seen.elapsed() < self.stale))
    }

    /// The current fetch, or a new one if the last began long enough ago.
    fn fetch(
        self: &Arc<Self>,
        state: &mut IssuerState,
        tracker: &TaskTracker,
    ) -> Option<watch::Receiver<()>> {
        // A fetch that was lost, such as to a panic, also counts as ended.
        if let Some(flight) = state.flight.as_ref().filter(|flight| flight.has_changed().is_ok()) {
            return Some(flight.clone());
        }
        if state.asked.is_some_and(|asked| asked.elapsed() < self.cool_down) {
            return None;
        }
        let (landing, flight) = watch::channel(());
        state.flight = Some(flight.clone());
        state.asked = Some(Instant::now());
        let me = self.clone();
        tracker.spawn(async move {
            let fetched = source::keys(&me.source).await;
            me.land(fetched);
            drop(landing);
        });
        Some(flight)
    }

    fn land(&self, fetched: Result<KeySet, source::NoKeys>) {
        let mut state = self.state.lock();
        state.failed = fetched.is_err();
        match fetched {
            Ok(keys) => {
                state.seen = Some(Instant::now());
                let (generation, known) = match &state.current {
                    Some((generation, known)) => (*generation, known.is_same_as(&keys)),
                    None => (0, false),
                };
                if !known {
                    tracing::info!(
                        event = "auth.keys_changed",
                        issuer = self.name,
                        keys = keys.len(),
                        "signing keys of an issuer changed"
                    );
                    state.current = Some((generation + 1, Arc::new(keys)));
                }
            }
            Err(error) => {
                let issuer = &self.name;
                tracing::warn!(
                    event = "auth.keys_not_fetched",
                    issuer,
                    error = &error as &dyn std::error::Error,
                    "cannot fetch signing keys"
                );
            }
        }
    }
}

/// Waits until a fetch has ended.
async fn landed(flight: Option<watch::Receiver<()>>) {
    if let Some(mut flight) = flight {
        // Nothing is ever sent; the channel closes. The fetch has its own time limit.
        while flight.changed().await.is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Address, Algorithm};
    use super::*;

    const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"one","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    #[tokio::test]
    async fn keys_serve_for_a_while_without_their_issuer_and_no_longer() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("keys.json");
        std::fs::write(&file, KEYS).expect("a write");
        let settings = IssuerSettings {
            issuer: Address::parse("https://i.example").expect("an address"),
            audience: vec!["us".to_owned()],
            keys: KeySource::File(file.clone()),
            algorithms: Algorithm::ALL.to_vec(),
        };
        let issuer = Issuer::new(&settings, Duration::ZERO, Duration::from_millis(1));
        assert_eq!(issuer.stale, MAX_STALE);
        let issuer = Arc::new(Issuer { stale: Duration::from_secs(1), ..issuer });
        let tracker = TaskTracker::new();
        assert!(issuer.keys(&tracker).await.is_ok());
        std::fs::remove_file(file).expect("a removal");
        let began = Instant::now();
        while issuer.keys(&tracker).await.is_ok() {
            assert!(began.elapsed() < Duration::from_secs(60), "the keys still serve");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(began.elapsed() > Duration::from_millis(500), "the keys served for a while");
    }
}
