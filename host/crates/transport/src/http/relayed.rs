//! Requests without a session that relays of this user's clients send. At a pipe a client gives the reason
//! when it cancels a request; the end of a connection has none, so the relay sends the notification too.

use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use toolyard_dispatch::{Stop, StopCause};
use toolyard_protocol::notification::cancellation;
use toolyard_protocol::{Id, RawJson};

/// The header that names the relay; ids of requests are unique for one.
pub(crate) static RELAY: HeaderName = HeaderName::from_static("toolyard-relay");

/// The requests under way, by relay and id.
#[derive(Default)]
pub(super) struct RelayedRequests(Mutex<HashMap<RelayedId, Weak<Stop>>>);

type RelayedId = (Box<str>, Id);

impl RelayedRequests {
    /// Adds a request, which leaves with its stop.
    pub fn add(&self, headers: &HeaderMap, id: &Id, stop: &Arc<Stop>) {
        let Some(relay) = relay(headers) else { return };
        let mut requests = self.0.lock();
        requests.retain(|_, stop| stop.strong_count() > 0);
        requests.insert((relay, id.clone()), Arc::downgrade(stop));
    }

    /// Cancels the request that a `notifications/cancelled` with these params names.
    pub fn cancel(&self, headers: &HeaderMap, params: Option<&RawJson>) {
        let (Some(relay), Some(cancelled)) = (relay(headers), cancellation(params)) else { return };
        let mut requests = self.0.lock();
        if let Some(stop) = requests.remove(&(relay, cancelled.request)).and_then(|stop| stop.upgrade()) {
            drop(requests);
            stop.set_because(StopCause::of_cancellation(cancelled.reason.as_deref()));
        }
    }
}

fn relay(headers: &HeaderMap) -> Option<Box<str>> {
    headers.get(&RELAY)?.to_str().ok().map(Into::into)
}
