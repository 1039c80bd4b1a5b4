//! Outgoing HTTP: what a guest sends by `wasi:http`, through a sender of our own.
//!
//! The manifest says which hosts it grants, `permission` decides on one request,
//! `name_lookup` finds addresses, `address` tells the public ones from others, `connect`
//! opens the connection, `send` is the exchange, `body` counts what passes, `inject`
//! adds headers with secrets.
//!
//! A name is resolved once for a request, and what is connected to is one of the
//! addresses that were looked at. Each request has a connection of its own: one that
//! is kept would outlive the decision it was opened for, and its run. Neither
//! redirects nor proxies are followed here; each hop is a request of the guest's.
//!
//! What is under way belongs to the run: its futures are held in the run's table of
//! resources, and are aborted with it.

pub(crate) mod address;
mod body;
mod connect;
mod inject;
pub(crate) mod name_lookup;
mod permission;
mod send;

pub(crate) use connect::Roots;
pub(crate) use inject::{Injection, filled};

use crate::network::policy::Traffic;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use name_lookup::{NameLookups, SystemResolver};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_manifest::{Rule, is_forbidden};
use wasmtime_wasi_http::{Error, ForbiddenHeaderFilter, RequestOptions, WasiHttpCtx, WasiHttpHooks};

/// What headers of one message may take, in memory.
const FIELD_BYTES: usize = 64 << 10;
/// What a guest may write to a body at once.
const CHUNK_BYTES: usize = 64 << 10;

/// What `[http]` grants.
#[derive(Debug, Default)]
pub(crate) struct HttpGrant {
    pub rules: Vec<Rule>,
    pub injections: Vec<Injection>,
    /// Whether requests that are not idempotent by their method carry a key.
    pub keyed: bool,
}

/// What the runs of all plugins share.
pub(crate) struct Network {
    pub lookups: NameLookups,
    pub roots: Roots,
}

impl Network {
    /// The resolver and the certificates of this machine.
    pub fn of_system() -> Self {
        Self { lookups: NameLookups::new(Arc::new(SystemResolver)), roots: Roots::default() }
    }
}

/// The outgoing side of one run.
pub(crate) struct Outgoing {
    pub context: WasiHttpCtx,
    pub sender: Sender,
}

impl Outgoing {
    pub fn new(traffic: Arc<Traffic>) -> Self {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(FIELD_BYTES);
        let limits = &traffic.limits;
        let at_once = Arc::new(Semaphore::new(limits.http_concurrent as usize));
        Self { context, sender: Sender { left: limits.http_requests, keyed: 0, at_once, traffic } }
    }
}

/// Sends requests, and counts them.
pub(crate) struct Sender {
    left: u32,
    /// Requests that had a key.
    keyed: u32,
    at_once: Arc<Semaphore>,
    traffic: Arc<Traffic>,
}

type Body = UnsyncBoxBody<Bytes, Error>;
type Rest = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Exchanged = Result<(Response<Body>, Rest), Error>;

impl Sender {
    /// Gives a request of a task the key that the same request had in an earlier attempt: the
    /// task and the number of the request, of those that have one. A guest's own stays.
    fn key(&mut self, request: &mut Request<Body>) {
        const KEY: HeaderName = HeaderName::from_static("idempotency-key");
        let keyed = self.traffic.grants.http.keyed
            && matches!(*request.method(), Method::POST | Method::PATCH)
            && !request.headers().contains_key(KEY);
        if keyed && let Some(task) = self.traffic.context.info().task {
            self.keyed += 1;
            if let Ok(key) = HeaderValue::try_from(format!("{task}:{}", self.keyed)) {
                request.headers_mut().insert(KEY, key);
            }
        }
    }

    /// A place among the requests of the run.
    fn admit(&mut self) -> Result<OwnedSemaphorePermit, Error> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(self.traffic.over("http-requests", "no more requests are sent"));
        };
        // Whoever waited here might be holding what it waits for.
        let Ok(place) = self.at_once.clone().try_acquire_owned() else {
            return Err(self.traffic.over("http-concurrent", "too many requests are under way at once"));
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
        // `send` sets it, from what it connects to.
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
        let traffic = self.traffic.clone();
        Box::new(async move { send::exchange(traffic, place?, request, options.unwrap_or_default()).await })
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
