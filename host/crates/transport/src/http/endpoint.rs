//! The endpoint: what every request passes before its method is looked at.

use super::guard;
use super::hub::{Hub, LiveSession};
use super::reply::{self, Refused, Reply, SESSION_ID};
use crate::Server;
use crate::metrics::Counted;
use crate::tidings::Tidings;
use http::header::ACCEPT;
use http::{HeaderMap, Method, StatusCode};
use hyper::Request;
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use toolyard_dispatch::{Fault, Principal};
use toolyard_protocol::revision::Transport;
use toolyard_protocol::{Revision, RpcError};

/// The one path that is served (H-1).
const PATH: &str = "/mcp";
/// How often streams that were kept long enough are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

pub(crate) struct Endpoint {
    pub server: Arc<Server>,
    pub hub: Arc<Hub>,
    /// Requests that go on though their connection may be gone.
    pub requests: TaskTracker,
}

impl Endpoint {
    pub fn new(server: Arc<Server>, requests: TaskTracker) -> Self {
        Self { hub: Hub::new(server.clone()), server, requests }
    }

    /// Answers a request, and counts it.
    pub async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Reply {
        let method = request.method().clone();
        let mut reply = self.answer(request).await;
        let metrics = &self.server.metrics;
        metrics.answered(&method, reply.status(), reply.extensions().get::<Counted>().is_some());
        reply.body_mut().count(&metrics.streams);
        reply
    }

    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if let Err(why) = guard::check(request.uri().authority(), request.headers()) {
            return why.into();
        }
        if request.uri().path() != PATH {
            let error =
                RpcError::invalid_request(format!("Not found: the MCP endpoint of this server is {PATH}"));
            return reply::refuse(StatusCode::NOT_FOUND, &error);
        }
        let principal = Arc::new(Principal::Anonymous);
        let answered = match *request.method() {
            Method::POST => self.post(request, &principal).await,
            Method::GET => self.get(&request, &principal).await,
            Method::DELETE => self.delete(&request, &principal).await,
            _ => Err(reply::not_allowed().into()),
        };
        answered.unwrap_or_else(|refusal| *refusal)
    }

    /// Tells every client what has changed on offer, once, and lets go of old
    /// streams.
    pub async fn attend(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut tidings = Tidings::of(&self.server.dispatch);
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        loop {
            let news = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                news = tidings.next() => Some(news),
                _ = sweep.tick() => None,
            };
            match news {
                Some(news) => self.hub.tell_all(&news).await,
                None => self.hub.forget_old(),
            }
        }
    }

    /// Ends every stream, because the server stops.
    pub fn end_streams(&self) {
        self.hub.end_streams();
    }

    async fn delete(&self, request: &Request<Incoming>, by: &Arc<Principal>) -> Result<Reply, Refused> {
        let session = self.session(request.headers(), by).await?;
        let closed = self.server.dispatch.close_session(&session.session).await;
        self.hub.close(&session.session.id);
        match closed {
            Ok(_) => Ok(reply::empty(StatusCode::NO_CONTENT)),
            Err(fault) => Err(broken(&fault).into()),
        }
    }

    /// The session that a request belongs to (H-5, H-23). Another principal's is as
    /// unknown as one that never was.
    pub async fn session(
        &self,
        headers: &HeaderMap,
        by: &Arc<Principal>,
    ) -> Result<Arc<LiveSession>, Refused> {
        check_version(headers)?;
        let Some(id) = headers.get(SESSION_ID) else {
            let error = RpcError::invalid_request(
                "Bad request: the MCP-Session-Id header is required; initialize first",
            );
            return Err(reply::refuse(StatusCode::BAD_REQUEST, &error).into());
        };
        let session = match id.to_str() {
            Ok(id) => self.hub.session(id, by).await.map_err(|fault| broken(&fault))?,
            Err(_) => None,
        };
        session.ok_or_else(|| {
            let error =
                RpcError::invalid_request("Session not found: it was ended or has expired; initialize again");
            reply::refuse(StatusCode::NOT_FOUND, &error).into()
        })
    }
}

/// H-5: a version that is not spoken here is refused; a missing one is that of the
/// session.
pub(crate) fn check_version(headers: &HeaderMap) -> Result<(), Refused> {
    let Some(version) = headers.get("mcp-protocol-version") else { return Ok(()) };
    let spoken =
        version.to_str().ok().and_then(Revision::parse).filter(|known| known.spoken_over(Transport::Http));
    if spoken.is_some() {
        return Ok(());
    }
    let names: Vec<_> = Revision::names(Transport::Http).collect();
    let error = RpcError::invalid_request(format!(
        "Bad request: unsupported MCP-Protocol-Version; this server speaks {}",
        names.join(", ")
    ));
    Err(reply::refuse(StatusCode::BAD_REQUEST, &error).into())
}

/// H-6: `406` unless every one of these media types is accepted.
pub(crate) fn check_accept(headers: &HeaderMap, wanted: &[(&str, &str)]) -> Result<(), Refused> {
    let values = || headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if wanted.iter().all(|(kind, sub)| super::accepts(values(), kind, sub)) {
        return Ok(());
    }
    let names: Vec<_> = wanted.iter().map(|(kind, sub)| format!("{kind}/{sub}")).collect();
    let error =
        RpcError::invalid_request(format!("Not acceptable: the client must accept {}", names.join(" and ")));
    Err(reply::refuse(StatusCode::NOT_ACCEPTABLE, &error).into())
}

/// The store failed where there is no request to answer.
pub(crate) fn broken(fault: &Fault) -> Reply {
    tracing::error!(error = fault as &dyn std::error::Error, "the store failed");
    reply::refuse(StatusCode::SERVICE_UNAVAILABLE, &fault.rpc())
}
