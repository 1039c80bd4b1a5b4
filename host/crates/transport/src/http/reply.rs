//! HTTP answers: only this module chooses a status.

use super::body::BodyError;
use super::connection_limit::Busy;
use super::host_origin::HostOriginError;
use crate::answer::{Answer, Status};
use crate::auth::{Auth, AuthError};
use crate::metrics::{CountedRefusal, OpenGauge};
use crate::server::Server;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use prometheus_client::metrics::gauge::Gauge;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use toolyard_dispatch::{Fault, Handover, Principal, RETRY_AFTER_MS};
use toolyard_protocol::{RpcError, response};

/// The header that names a session (H-22).
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The methods that the endpoint supports.
pub(crate) const METHODS: &str = "POST, GET, DELETE";
/// The methods that the metadata supports.
pub(crate) const METADATA_METHODS: &str = "GET, HEAD, OPTIONS";

/// The body of an answer.
pub(crate) struct ReplyBody {
    content: Content,
    /// Keeps the connection busy while the body is written.
    _busy: Option<Busy>,
}

enum Content {
    /// The whole body; `None` if it is empty or was already read. A handover is present if the body tells its client of
    /// a task. If it is dropped before the body is written, it cancels the task.
    Whole(Option<Bytes>, Option<Handover>),
    /// A stream of events.
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>, Option<OpenGauge>),
}

impl ReplyBody {
    /// Counts the body while it is being written, if it is a stream of events.
    pub fn count(&mut self, streams: &Gauge) {
        if let Content::Events(_, open) = &mut self.content {
            *open = Some(OpenGauge::one(streams));
        }
    }

    /// The body of an answer to the request that makes its connection busy.
    pub(super) fn while_busy(self, busy: Busy) -> Self {
        Self { _busy: Some(busy), ..self }
    }
}

impl From<Content> for ReplyBody {
    fn from(content: Content) -> Self {
        Self { content, _busy: None }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.content {
            Content::Whole(bytes, handover) => {
                if let Some(handover) = handover.take() {
                    handover.mark_delivered();
                }
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Content::Events(events, _) => {
                events.as_mut().poll_next(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None, _))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes, _) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Content::Events(..) => SizeHint::default(),
        }
    }
}

/// An answer.
pub(crate) type Reply = Response<ReplyBody>;

/// Why a request was refused, for the operator; an extension of the answer.
#[derive(Debug, Clone)]
pub(crate) struct RefusalReason(pub String);

/// A refusal; boxed, because it is rare and large.
pub(crate) type RefusalReply = Box<Reply>;

/// A reply that is a JSON object.
pub(crate) fn json(message: Bytes) -> Reply {
    handing_over(message, None)
}

/// A reply that is a JSON object, and that tells its client of a new task if there is a handover.
fn handing_over(message: Bytes, handover: Option<Handover>) -> Reply {
    let mut reply = Response::new(ReplyBody::from(Content::Whole(Some(message), handover)));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// Text for a person, whose browser has opened the address of the endpoint.
pub(crate) fn for_browsers() -> Reply {
    const TEXT: &[u8] = b"Toolyard serves the Model Context Protocol here, at /mcp, for MCP clients.\n\n\
        To add it to a client: toolyard connect CLIENT\n\
        To see it in a browser: toolyard console --open\n";
    let mut reply = Response::new(ReplyBody::from(Content::Whole(Some(Bytes::from_static(TEXT)), None)));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}

/// A status and nothing else.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::from(Content::Whole(None, None)));
    *reply.status_mut() = status;
    reply
}

/// An HTTP error, explained by a JSON-RPC error without an id (H-11).
pub(crate) fn refuse(status: StatusCode, error: &RpcError) -> Reply {
    let mut reply = json(response::error(None, error));
    *reply.status_mut() = status;
    reply.extensions_mut().insert(RefusalReason(error.message.clone()));
    reply
}

/// An HTTP error that tells the client what is wrong with its request.
pub(crate) fn invalid(status: StatusCode, message: impl Into<String>) -> Reply {
    refuse(status, &RpcError::invalid_request(message))
}

/// The answer to a request whose sender is unknown or not allowed.
pub(crate) fn denied(why: &AuthError, auth: &Auth) -> Reply {
    let (status, message) = match why {
        AuthError::Missing => (StatusCode::UNAUTHORIZED, "Unauthorized: this server needs an access token"),
        AuthError::Malformed(_) => {
            (StatusCode::BAD_REQUEST, "Bad request: the Authorization header must be `Bearer TOKEN`, once")
        }
        AuthError::Invalid(_) => {
            (StatusCode::UNAUTHORIZED, "Unauthorized: the access token is not valid, or not any more")
        }
        AuthError::Scope => {
            (StatusCode::FORBIDDEN, "Forbidden: the access token lacks a scope that this needs")
        }
        AuthError::KeysAway => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Access tokens cannot be checked now, because their issuer cannot be reached; try again later",
        ),
    };
    let error = match why {
        AuthError::KeysAway => RpcError::internal(message),
        _ => RpcError::invalid_request(message),
    };
    let mut reply = refuse(status, &error);
    // The client must not learn which reason it is.
    reply.extensions_mut().insert(RefusalReason(why.to_string()));
    let headers = reply.headers_mut();
    if let Some(challenge) = auth.challenge(why) {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    if *why == AuthError::KeysAway {
        headers.insert(RETRY_AFTER, seconds(auth.retry_after()));
    }
    reply
}

/// Whole seconds, at least one: zero would invite immediate retries of all clients.
fn seconds(time: Duration) -> HeaderValue {
    HeaderValue::from(u64::try_from(time.as_millis()).unwrap_or(u64::MAX).div_ceil(1000).max(1))
}

/// An answer as one object.
pub(crate) fn answer(answer: Answer, auth: &Auth) -> Reply {
    let Answer { message, status, handover, .. } = answer;
    let mut reply = handing_over(message, handover);
    *reply.status_mut() = match status {
        Status::Done => return reply,
        Status::BadRequest => StatusCode::BAD_REQUEST,
        Status::NoSuchMethod => StatusCode::NOT_FOUND,
        Status::TurnedAway(fault) => turned_away(*fault, reply.headers_mut(), auth),
    };
    reply.extensions_mut().insert(CountedRefusal);
    reply
}

/// The status of a request that was turned away before it did anything: `403` or `429` (T-42).
fn turned_away(fault: Fault, headers: &mut HeaderMap, auth: &Auth) -> StatusCode {
    match fault {
        Fault::InsufficientScope(scopes) => {
            if let Some(challenge) = auth.challenge_for(&scopes) {
                headers.insert(WWW_AUTHENTICATE, challenge);
            }
            StatusCode::FORBIDDEN
        }
        Fault::TooOften { retry_after_ms, .. } => {
            headers.insert(RETRY_AFTER, seconds(Duration::from_millis(retry_after_ms)));
            StatusCode::TOO_MANY_REQUESTS
        }
        _ => StatusCode::OK,
    }
}

/// A stream ends when the token that opened it expires or is taken back; later messages are kept for a client that
/// returns with another token. Other answers are not cut.
pub(crate) fn while_good(reply: Reply, server: &Arc<Server>, principal: &Arc<Principal>) -> Reply {
    reply.map(|body| match body.content {
        Content::Events(events, open) => {
            let left = server.access.current().auth.time_left(principal);
            let (revoked, server) = (server.access.revoked(principal.clone()), server.clone());
            let expired = async move {
                match left {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            let over = async move {
                tokio::select! {
                    () = expired => {}
                    () = revoked.wait(&server.access) => {}
                }
            };
            Content::Events(Box::pin(events.take_until(Box::pin(over))), open).into()
        }
        whole @ Content::Whole(..) => whole.into(),
    })
}

/// `405` (H-8).
pub(crate) fn not_allowed(methods: &'static str) -> Reply {
    let mut reply = invalid(StatusCode::METHOD_NOT_ALLOWED, format!("this address takes {methods}"));
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    reply
}

/// A stream of events.
pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Reply {
    let mut reply = Response::new(ReplyBody::from(Content::Events(Box::pin(events), None)));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Proxies that buffer answers would delay events.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    reply
}

impl From<HostOriginError> for Reply {
    fn from(why: HostOriginError) -> Self {
        let message = match why {
            HostOriginError::Host => {
                "Forbidden: the Host header does not name this server; add its name to `hosts` in [http]"
            }
            HostOriginError::Origin => {
                "Forbidden: pages of this origin may not call this server; add it to `origins` in [http]"
            }
        };
        invalid(StatusCode::FORBIDDEN, message)
    }
}

pub(crate) fn bad_body(why: BodyError, most: usize) -> Reply {
    match why {
        BodyError::TooLarge => invalid(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {most} bytes (wire.message)"),
        ),
        BodyError::TooSlow => {
            invalid(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time (wire.body-time)")
        }
        BodyError::Broken => invalid(StatusCode::BAD_REQUEST, "the body broke off"),
        BodyError::NoRoom(no_room) => {
            let mut reply = refuse(StatusCode::SERVICE_UNAVAILABLE, &no_room.fault().rpc());
            let retry = seconds(Duration::from_millis(RETRY_AFTER_MS));
            reply.headers_mut().insert(RETRY_AFTER, retry);
            reply
        }
    }
}
