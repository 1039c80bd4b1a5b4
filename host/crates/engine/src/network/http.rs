//! Outgoing HTTP over `wasi:http`. The host's own sender counts and bounds the requests of each
//! run.

use super::body::{Body, Exchanged, Rest};
use super::exchange;
use crate::journal::GuestJournal;
use crate::limits::run_budget::RunBudget;
use crate::network::policy::NetworkPolicy;
use crate::network::recorded_exchange::RecordedExchange;
use http::{HeaderName, HeaderValue, Method, Request};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_manifest::is_forbidden;
use wasmtime_wasi_http::{Error, ForbiddenHeaderFilter, RequestOptions, WasiHttpCtx, WasiHttpHooks};

/// The maximum size of one message's headers in memory.
const MAX_FIELD_BYTES: usize = 64 << 10;
/// The maximum size of one write to a body.
const MAX_CHUNK_BYTES: usize = 64 << 10;

/// The outgoing HTTP state of one run.
pub(crate) struct OutgoingHttp {
    pub context: WasiHttpCtx,
    pub sender: Sender,
}

impl OutgoingHttp {
    /// `outside` counts the bodies that the host holds for a run with a journal.
    pub fn new(
        policy: Arc<NetworkPolicy>,
        journal: Option<Arc<GuestJournal>>,
        outside: Vec<Arc<RunBudget>>,
    ) -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(MAX_FIELD_BYTES);
        let limits = &policy.limits;
        let at_once = Arc::new(Semaphore::new(limits.http_concurrent as usize));
        let left = limits.http_requests;
        Self { context, sender: Sender { left, keyed: 0, at_once, policy, journal, unsent: 0, outside } }
    }
}

/// Sends and counts requests.
pub(crate) struct Sender {
    left: u32,
    /// The number of requests that were given a key.
    keyed: u32,
    at_once: Arc<Semaphore>,
    policy: Arc<NetworkPolicy>,
    /// The journal of a run that can be repeated.
    journal: Option<Arc<GuestJournal>>,
    /// The bodies that such a run has begun without sending their requests. One that it drops counts on.
    unsent: u64,
    outside: Vec<Arc<RunBudget>>,
}

impl Sender {
    /// Adds a key to a request of a task that is the same in each attempt: the task and the
    /// request's number among those with a key. A key that the guest has set is kept.
    fn key(&mut self, request: &mut Request<Body>) {
        const KEY: HeaderName = HeaderName::from_static("idempotency-key");
        let keyed = self.policy.grants.http.keyed
            && matches!(*request.method(), Method::POST | Method::PATCH)
            && !request.headers().contains_key(KEY);
        if keyed && let Some(task) = self.policy.context.info().task {
            self.keyed += 1;
            if let Ok(key) = HeaderValue::try_from(format!("{task}:{}", self.keyed)) {
                request.headers_mut().insert(KEY, key);
            }
        }
    }

    /// A request of a run with a journal.
    fn send_recorded(
        &mut self,
        journal: Arc<GuestJournal>,
        request: Request<Body>,
        options: RequestOptions,
    ) -> Box<dyn Future<Output = Exchanged> + Send> {
        self.unsent = self.unsent.saturating_sub(1);
        let policy = self.policy.clone();
        let exchange = match RecordedExchange::begin(journal, request, &policy.grants, &self.outside) {
            Ok(exchange) => exchange,
            Err(error) => return Box::new(std::future::ready(Err(error))),
        };
        match exchange.is_answered() {
            Ok(true) => {
                // The limit is that of all runs of the task.
                self.left = self.left.saturating_sub(1);
                return Box::new(exchange.run(policy, None, |_| std::future::pending()));
            }
            Ok(false) => {}
            Err(error) => return Box::new(std::future::ready(Err(error))),
        }
        match self.admit() {
            Err(error) => Box::new(exchange.refuse(policy, error)),
            Ok(place) => {
                let (sending, kept) = (policy.clone(), place.clone());
                let send = move |request| exchange::exchange(sending, place, request, options);
                Box::new(exchange.run(policy, Some(kept), send))
            }
        }
    }

    /// Admits a request if the run's limits allow it.
    fn admit(&mut self) -> Result<Arc<OwnedSemaphorePermit>, Error> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(self.policy.over("http-requests", "no more requests are sent"));
        };
        // Waiting could deadlock, because the waiting code may hold the permit that it waits for.
        let Ok(place) = self.at_once.clone().try_acquire_owned() else {
            return Err(self.policy.over("http-concurrent", "too many requests are under way at once"));
        };
        self.left = left;
        Ok(Arc::new(place))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // It is part of the run's state. Requests under way are dropped later, by tasks of their own.
        self.policy.end_exchanges();
    }
}

impl WasiHttpHooks for Sender {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(is_forbidden)
    }

    fn set_host_header(&mut self) -> bool {
        // `exchange` sets it from the connection's target.
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        MAX_CHUNK_BYTES
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        if self.journal.is_none() {
            return 1;
        }
        // The amount that a guest may write must not depend on how fast the host takes the body away. So there is room for
        // whole bodies, as many as the memory of the run could have, and after that for a piece of each.
        let limits = &self.policy.limits;
        let whole = limits.http_request.min(limits.memory);
        self.unsent += 1;
        let bytes = if self.unsent > limits.memory / whole.max(1) { 0 } else { whole };
        usize::try_from(bytes.div_ceil(MAX_CHUNK_BYTES as u64)).unwrap_or(0) + 1
    }

    fn send_request(
        &mut self,
        request: Request<Body>,
        options: Option<RequestOptions>,
        _: Rest,
    ) -> Box<dyn Future<Output = Exchanged> + Send> {
        if let Some(journal) = self.journal.clone() {
            return self.send_recorded(journal, request, options.unwrap_or_default());
        }
        let place = self.admit();
        let mut request = request;
        if place.is_ok() {
            self.key(&mut request);
        }
        let policy = self.policy.clone();
        Box::new(
            async move { exchange::exchange(policy, place?, request, options.unwrap_or_default()).await },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime_wasi_http::DEFAULT_FORBIDDEN_HEADERS;

    #[test]
    fn what_wasmtime_forbids_is_forbidden() {
        assert!(DEFAULT_FORBIDDEN_HEADERS.iter().all(is_forbidden));
    }
}
