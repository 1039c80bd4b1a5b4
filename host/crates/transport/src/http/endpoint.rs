//! The endpoint: the checks that every request passes before its method matters.

use super::connection_limit::Busy;
use super::cors;
use super::header_check::PROTOCOL_VERSION;
use super::host_origin::HostOriginError;
use super::large_messages::LargeMessages;
use super::refusal_log::RefusalLog;
use super::relayed::RelayedRequests;
use super::reply::{self, RefusalReason, RefusalReply, Reply, SESSION_ID};
use super::session_registry::{LiveSession, Registry};
use crate::answer::{Answer, logged};
use crate::change_notifications::ChangeReceiver;
use crate::failure::Failure;
use crate::metrics::CountedRefusal;
use crate::request::Sender;
use crate::server::Server;
use http::header::{ACCEPT, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri};
use hyper::Request;
use hyper::body::Incoming;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolyard_dispatch::visible::clip;
use toolyard_dispatch::{Fault, Operation, Principal, RateKey};
use toolyard_protocol::method::Generation;
use toolyard_protocol::revision::Transport;
use toolyard_protocol::{Id, Revision};

/// The only path that is served (H-1).
const PATH: &str = "/mcp";
/// The most characters of a refused header in the log.
const MAX_SHOWN_CHARS: usize = 100;
/// How often the host looks for streams that it has kept long enough.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

pub(crate) struct Endpoint {
    pub server: Arc<Server>,
    pub registry: Arc<Registry>,
    /// Requests that continue even if their connection is gone.
    pub requests: TaskTracker,
    /// Cancelled when the server stops, which ends subscriptions.
    pub stopping: CancellationToken,
    pub large: LargeMessages,
    pub relayed: RelayedRequests,
    refusals: RefusalLog,
}

impl Endpoint {
    pub fn new(server: Arc<Server>, requests: TaskTracker, stopping: CancellationToken) -> Self {
        Self {
            registry: Registry::new(server.clone()),
            server,
            requests,
            stopping,
            large: LargeMessages::default(),
            relayed: RelayedRequests::default(),
            refusals: RefusalLog::default(),
        }
    }

    /// Answers a request, and counts it.
    pub async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Option<IpAddr>,
        connection: &Busy,
    ) -> Reply {
        let (Parts { method, uri, headers, .. }, body) = request.into_parts();
        let of = method.clone();
        let refused = peer.and_then(|_| self.refuse_early(&method, &uri, &headers));
        let mut reply = match refused {
            Some(reply) => reply,
            None => {
                let origin = headers.get(ORIGIN).cloned();
                // In a box, so that it is moved as a pointer and does not enlarge the state of an idle
                // connection.
                let mut reply = Box::pin(self.route((method, uri), headers, body, (peer, connection))).await;
                if let Some(origin) = origin {
                    cors::allow(&mut reply, origin);
                }
                reply
            }
        };
        let metrics = &self.server.metrics;
        metrics.count_answer(&of, reply.status(), reply.extensions().get::<CountedRefusal>().is_some());
        reply.body_mut().count(&metrics.streams);
        self.refusals.note(&reply, peer);
        reply
    }

    /// The answer to a request that the host/origin check refuses, or that needs no authentication.
    fn refuse_early(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Reply> {
        if let Err(why) = self.server.access.current().allowed_names.check(uri.authority(), headers) {
            let mut reply = Reply::from(why);
            let sent = headers.get(if why == HostOriginError::Host { HOST } else { ORIGIN });
            if let (Some(sent), Some(reason)) = (sent, reply.extensions_mut().get_mut::<RefusalReason>()) {
                reason
                    .0
                    .push_str(&format!("; the header is {}", clip(&format!("{sent:?}"), MAX_SHOWN_CHARS)));
            }
            return Some(reply);
        }
        self.metadata(method, uri, headers)
    }

    /// the metadata names the issuers of tokens for this server, so reading it needs no token.
    fn metadata(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Reply> {
        let document = self.server.access.current().auth.metadata_at(uri.path())?;
        let mut reply = match *method {
            Method::GET | Method::HEAD => reply::json(document),
            Method::OPTIONS => cors::preflight(reply::METADATA_METHODS, headers),
            _ => reply::not_allowed(reply::METADATA_METHODS),
        };
        cors::allow_all(&mut reply);
        Some(reply)
    }

    /// Handles a request that passed the host/origin check. Its principal is determined before anything else
    /// in it is read.
    async fn route(
        self: &Arc<Self>,
        (method, uri): (Method, Uri),
        headers: HeaderMap,
        body: Incoming,
        (peer, connection): (Option<IpAddr>, &Busy),
    ) -> Reply {
        if uri.path() == "/" && method == Method::GET && super::media::names_html(&headers) {
            return reply::for_browsers();
        }
        // Many people write the address with a slash.
        if uri.path().strip_suffix('/').unwrap_or(uri.path()) != PATH {
            let message = format!("Not found: the MCP endpoint of this server is {PATH}");
            return reply::invalid(StatusCode::NOT_FOUND, message);
        }
        if cors::is_preflight(&method, &headers) {
            return cors::preflight(reply::METHODS, &headers);
        }
        let caller = match self.authenticate(&headers, peer).await {
            Ok(caller) => caller,
            Err(refusal) => return *refusal,
        };
        connection.serves(&caller.key);
        let answered = match method {
            Method::POST => self.post(headers, body, &caller).await,
            Method::GET => Box::pin(self.get(&headers, &caller)).await,
            Method::DELETE => Box::pin(self.delete(&headers, &caller)).await,
            _ => Err(reply::not_allowed(reply::METHODS).into()),
        };
        let reply = answered.unwrap_or_else(|refusal| *refusal);
        if peer.is_none() {
            return reply;
        }
        reply::while_good(reply, &self.server, &caller.principal)
    }

    /// Notifies every client once of changed lists and resources, and drops old streams.
    pub async fn run_notifications(self: Arc<Self>, stop: CancellationToken) {
        let mut changes = ChangeReceiver::of(&self.server.dispatch);
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        loop {
            let changes = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changes = changes.next() => Some(changes),
                _ = sweep.tick() => None,
            };
            match changes {
                Some(changes) => self.registry.tell_all(&changes).await,
                None => {
                    self.registry.forget_old();
                    self.registry.look_at_all().await;
                }
            }
        }
    }

    /// Authenticates a request and counts it, or refuses it. Refused requests are counted by their
    /// address.
    async fn authenticate(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Sender, RefusalReply> {
        let count = |key: &RateKey| self.count(key, Operation::Request);
        if peer.is_none() {
            count(&RateKey::Local)?;
            return Ok(Sender { principal: Arc::new(Principal::Local), key: RateKey::Local, peer });
        }
        let access = self.server.access.current();
        let auth = &access.auth;
        match auth.principal(headers, &self.requests).await {
            Ok(principal) => {
                let caller = Sender { key: RateKey::of(&principal, peer), principal, peer };
                count(&caller.key)?;
                Ok(caller)
            }
            Err(why) => {
                count(&RateKey::of(&Arc::new(Principal::Anonymous), peer))?;
                self.server.dispatch.access().note_unauthenticated(&why.to_string());
                Err(reply::denied(&why, auth).into())
            }
        }
    }

    /// Counts an operation that is no MCP request, or not yet one.
    pub fn count(&self, key: &RateKey, operation: Operation) -> Result<(), RefusalReply> {
        let counted = self.server.count(key, operation);
        counted.map_err(|failure| self.refuse(failure, Generation::Sessions, None).into())
    }

    /// An answer as one object.
    pub fn reply(&self, answer: Answer) -> Reply {
        reply::answer(answer, &self.server.access.current().auth)
    }

    /// The answer that reports the failure of the request with this id.
    pub fn refuse(&self, failure: Failure, generation: Generation, id: Option<&Id>) -> Reply {
        self.reply(failure.answer(&self.server, generation, id))
    }

    async fn delete(&self, headers: &HeaderMap, caller: &Sender) -> Result<Reply, RefusalReply> {
        let session = self.session(headers, caller).await?;
        let closed = self.server.dispatch.close_session(&session.session).await;
        self.registry.close(&session.session.id);
        match closed {
            Ok(_) => Ok(reply::empty(StatusCode::NO_CONTENT)),
            Err(fault) => Err(broken(&fault).into()),
        }
    }

    /// The session that a request belongs to (H-5, H-23). A session of another principal is treated like one
    /// that never existed.
    pub async fn session(
        &self,
        headers: &HeaderMap,
        caller: &Sender,
    ) -> Result<Arc<LiveSession>, RefusalReply> {
        check_version(headers)?;
        let Some(id) = headers.get(SESSION_ID) else {
            let message = "Bad request: the MCP-Session-Id header is required; initialize first";
            return Err(reply::invalid(StatusCode::BAD_REQUEST, message).into());
        };
        let session = match id.to_str() {
            Ok(id) => self.registry.session(id, &caller.principal).await.map_err(|fault| broken(&fault))?,
            Err(_) => None,
        };
        session.ok_or_else(|| {
            if let Err(refusal) = self.count(&caller.key, Operation::FailedLookup) {
                return refusal;
            }
            let message = "Session not found: it was ended or has expired; initialize again";
            reply::invalid(StatusCode::NOT_FOUND, message).into()
        })
    }
}

/// H-5: an unsupported version is refused; a missing one means the version of the
/// session.
pub(crate) fn check_version(headers: &HeaderMap) -> Result<(), RefusalReply> {
    let Some(version) = headers.get(&PROTOCOL_VERSION) else { return Ok(()) };
    let spoken =
        version.to_str().ok().and_then(Revision::parse).filter(|known| known.spoken_over(Transport::Http));
    if spoken.is_some() {
        return Ok(());
    }
    let names: Vec<_> = Revision::names(Transport::Http).collect();
    let names = names.join(", ");
    let message = format!("Bad request: unsupported MCP-Protocol-Version; this server speaks {names}");
    Err(reply::invalid(StatusCode::BAD_REQUEST, message).into())
}

/// The value that nearly every client sends, as in the specification.
const BOTH: &str = "application/json, text/event-stream";

/// H-6: `406` unless the client accepts both of these media types.
pub(crate) fn check_accept(headers: &HeaderMap, wanted: &[(&str, &str)]) -> Result<(), RefusalReply> {
    let mut all = headers.get_all(ACCEPT).iter();
    if all.next().is_some_and(|value| value == BOTH) && all.next().is_none() {
        return Ok(());
    }
    let values = || headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if wanted.iter().all(|(kind, sub)| super::accepts(values(), kind, sub)) {
        return Ok(());
    }
    let names: Vec<_> = wanted.iter().map(|(kind, sub)| format!("{kind}/{sub}")).collect();
    let message = format!("Not acceptable: the client must accept {}", names.join(" and "));
    Err(reply::invalid(StatusCode::NOT_ACCEPTABLE, message).into())
}

/// The answer if the store fails before a JSON-RPC request is read.
pub(crate) fn broken(fault: &Fault) -> Reply {
    reply::refuse(StatusCode::SERVICE_UNAVAILABLE, &logged(fault))
}
