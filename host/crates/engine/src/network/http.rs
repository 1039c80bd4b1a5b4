//! Outgoing HTTP: what a guest sends by `wasi:http`, through a sender of our own, counted and
//! bounded for each run.

use super::exchange::{self, Body, Exchanged, Rest};
use crate::network::policy::NetworkPolicy;
use http::{HeaderName, HeaderValue, Method, Request};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_manifest::is_forbidden;
use wasmtime_wasi_http::{Error, ForbiddenHeaderFilter, RequestOptions, WasiHttpCtx, WasiHttpHooks};

/// What headers of one message may take, in memory.
const FIELD_BYTES: usize = 64 << 10;
/// What a guest may write to a body at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The outgoing side of one run.
pub(crate) struct OutgoingHttp {
    pub context: WasiHttpCtx,
    pub sender: Sender,
}

impl OutgoingHttp {
    pub fn new(policy: Arc<NetworkPolicy>) -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(FIELD_BYTES);
        let limits = &policy.limits;
        let at_once = Arc::new(Semaphore::new(limits.http_concurrent as usize));
        Self { context, sender: Sender { left: limits.http_requests, keyed: 0, at_once, policy } }
    }
}

/// Sends requests, and counts them.
pub(crate) struct Sender {
    left: u32,
    /// Requests that had a key.
    keyed: u32,
    at_once: Arc<Semaphore>,
    policy: Arc<NetworkPolicy>,
}

impl Sender {
    /// Gives a request of a task the key that the same request had in an earlier attempt: the
    /// task and the number of the request, of those that have one. A guest's own stays.
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

    /// A place among the requests of the run.
    fn admit(&mut self) -> Result<OwnedSemaphorePermit, Error> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(self.policy.over("http-requests", "no more requests are sent"));
        };
        // Whoever waited here might be holding what it waits for.
        let Ok(place) = self.at_once.clone().try_acquire_owned() else {
            return Err(self.policy.over("http-concurrent", "too many requests are under way at once"));
        };
        self.left = left;
        Ok(place)
    }
}

impl WasiHttpHooks for Sender {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(is_forbidden)
    }

    fn set_host_header(&mut self) -> bool {
        // `exchange` sets it, from what it connects to.
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK_BYTES
    }

    fn send_request(
        &mut self,
        request: Request<Body>,
        options: Option<RequestOptions>,
        _: Rest,
    ) -> Box<dyn Future<Output = Exchanged> + Send> {
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
