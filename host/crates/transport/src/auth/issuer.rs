//! An issuer and its keys, as they are now: fetched when they are first needed,
//! again when they are old, and at once when a token names a key that is not among
//! them, but never more often than the cool-down allows, so that strangers cannot
//! make us hammer the issuer.

use super::jwks::KeySet;
use super::jwt::TokenRules;
use super::source;
use super::{IssuerSettings, KeySource, KeyTimes};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// The keys are not available, and the former ones are too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeysUnavailable;

/// Keys, and the number that tells them from those before.
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
    /// When the keys were last seen to be these.
    seen: Option<Instant>,
    /// When they were last asked for.
    asked: Option<Instant>,
    /// Whether that came to nothing.
    failed: bool,
    /// Closes when the fetch under way is done.
    flight: Option<watch::Receiver<()>>,
}

impl Issuer {
    pub fn new(settings: &IssuerSettings, leeway: Duration, times: KeyTimes) -> Self {
        // A look at a file costs nothing, so it is never much behind.
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

    /// The current keys. Old ones are fetched again first. While the issuer cannot be reached, no
    /// request waits for that, and the former keys serve for a while.
    pub async fn keys(self: &Arc<Self>, tracker: &TaskTracker) -> Result<CurrentKeys, KeysUnavailable> {
        let flight = {
            let mut state = self.lock();
            let fresh = state.seen.is_some_and(|seen| seen.elapsed() < self.times.refresh);
            if let Some(current) = state.current.as_ref().filter(|_| fresh) {
                return Ok(current.clone());
            }
            let flight = self.fetch(&mut state, tracker);
            flight.filter(|_| !state.failed || self.usable(&state).is_none())
        };
        landed(flight).await;
        self.usable(&self.lock()).ok_or(KeysUnavailable)
    }

    /// Keys that are newer than these, if there are any: a token named one that is
    /// not among them.
    pub async fn newer_keys(
        self: &Arc<Self>,
        generation: u64,
        tracker: &TaskTracker,
    ) -> Result<CurrentKeys, KeysUnavailable> {
        let flight = {
            let mut state = self.lock();
            match self.usable(&state) {
                // Another request was faster.
                Some(current) if current.0 > generation => return Ok(current),
                _ => self.fetch(&mut state, tracker),
            }
        };
        landed(flight).await;
        let state = self.lock();
        match self.usable(&state) {
            // Whether the key exists cannot be known now.
            Some(current) if current.0 == generation && state.failed => Err(KeysUnavailable),
            Some(current) => Ok(current),
            None => Err(KeysUnavailable),
        }
    }

    fn usable(&self, state: &IssuerState) -> Option<CurrentKeys> {
        let longest = self.times.stale.max(self.times.refresh);
        state.current.clone().filter(|_| state.seen.is_some_and(|seen| seen.elapsed() < longest))
    }

    /// The fetch under way, or a new one if the last is long enough ago.
    fn fetch(
        self: &Arc<Self>,
        state: &mut IssuerState,
        tracker: &TaskTracker,
    ) -> Option<watch::Receiver<()>> {
        // A fetch that was lost, such as by a panic, has ended as well.
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
        let mut state = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, IssuerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a fetch is done.
async fn landed(flight: Option<watch::Receiver<()>>) {
    if let Some(mut flight) = flight {
        // Nothing is ever sent: it closes. A fetch has a time limit of its own.
        while flight.changed().await.is_ok() {}
    }
}
