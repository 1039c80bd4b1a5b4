//! An issuer and its current keys. The host fetches them when they are first needed, again when they are old,
//! and at once when a token names an unknown key. The cool-down limits all fetches, so that strangers cannot
//! make the host flood the issuer with requests.

use super::jwks::KeySet;
use super::jwt::TokenRules;
use super::source;
use super::{IssuerSettings, KeySource, KeyTimes};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// The keys are not available, and the previous ones are too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeysUnavailable;

/// Keys, and the number that distinguishes them from previous ones.
pub(super) type CurrentKeys = (u64, Arc<KeySet>);

pub(super) struct Issuer {
    pub rules: TokenRules,
    name: String,
    source: KeySource,
    times: KeyTimes,
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
    pub fn new(settings: &IssuerSettings, leeway: Duration, times: KeyTimes) -> Self {
        // Reading a file costs almost nothing, so the keys are never much older than the file.
        let refresh = match settings.keys {
            KeySource::File(_) => times.refresh.min(times.cool_down),
            KeySource::Url(_) | KeySource::Metadata(_) => times.refresh,
        };
        Self {
            rules: TokenRules::new(settings, leeway),
            name: settings.issuer.to_string(),
            source: settings.keys.clone(),
            times: KeyTimes { refresh, ..times },
            state: Mutex::default(),
        }
    }

    /// The current keys. Old keys are fetched again first. While the issuer cannot be reached, no request
    /// waits for a fetch, and the previous keys remain in use for a while.
    pub async fn keys(self: &Arc<Self>, tracker: &TaskTracker) -> Result<CurrentKeys, KeysUnavailable> {
        let flight = {
            let mut state = self.state.lock();
            let fresh = state.seen.is_some_and(|seen| seen.elapsed() < self.times.refresh);
            if let Some(current) = state.current.as_ref().filter(|_| fresh) {
                return Ok(current.clone());
            }
            let flight = self.fetch(&mut state, tracker);
            flight.filter(|_| !state.failed || self.usable(&state).is_none())
        };
        landed(flight).await;
        self.usable(&self.state.lock()).ok_or(KeysUnavailable)
    }

    /// Keys that are newer than these, if there are any, because a token named a key that these lack.
    pub async fn newer_keys(
        self: &Arc<Self>,
        generation: u64,
        tracker: &TaskTracker,
    ) -> Result<CurrentKeys, KeysUnavailable> {
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
            Some(current) if current.0 == generation && state.failed => Err(KeysUnavailable),
            Some(current) => Ok(current),
            None => Err(KeysUnavailable),
        }
    }

    fn usable(&self, state: &IssuerState) -> Option<CurrentKeys> {
        let longest = self.times.stale.max(self.times.refresh);
        state.current.clone().filter(|_| state.seen.is_some_and(|seen| seen.elapsed() < longest))
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
        if state.asked.is_some_and(|asked| asked.elapsed() < self.times.cool_down) {
            return None;
        }
        let (landing, flight) = watch::channel(());
        state.flight = Some(flight.clone());
        state.asked = Some(Instant::now());
        let me = self.clone();
        tracker.spawn(async move {
            let fetched = source::keys(&me.source, me.times).await;
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
