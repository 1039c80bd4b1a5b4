//! HTTP answers: the one place that chooses a status.

use super::body::BodyError;
use super::guard::TurnedAway;
use crate::methods::Refusal;
use crate::metrics::{Counted, Open};
use bytes::Bytes;
use futures_util::Stream;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use prometheus_client::metrics::gauge::Gauge;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use toolyard_dispatch::Fault;
use toolyard_protocol::{RpcError, response};

/// The header that names a session (H-22).
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The body of an answer.
pub(crate) enum ReplyBody {
    /// All of it, or nothing more.
    Whole(Option<Bytes>),
    /// A stream of events.
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>, Option<Open>),
}

impl ReplyBody {
    /// Counts it for as long as it is written, if it is a stream of events.
    pub fn count(&mut self, streams: &Gauge) {
        if let Self::Events(_, open) = self {
            *open = Some(Open::one(streams));
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events(events, _) => {
                events.as_mut().poll_next(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Events(..) => SizeHint::default(),
        }
    }
}

/// An answer.
pub(crate) type Reply = Response<ReplyBody>;

/// An answer that says no; boxed, because it is rare and large.
pub(crate) type Refused = Box<Reply>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// One JSON object.
pub(crate) fn json(message: Bytes) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Some(message)));
    reply.headers_mut().insert(CONTENT_TYPE, JSON);
    reply
}

/// A status and nothing else.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(None));
    *reply.status_mut() = status;
    reply
}

/// An error of HTTP, explained by a JSON-RPC error without an id (H-11).
pub(crate) fn refuse(status: StatusCode, error: &RpcError) -> Reply {
    let mut reply = json(response::error(None, error));
    *reply.status_mut() = status;
    reply
}

/// A request that was turned away before anything was done: `403` or `429`
/// (T-42).
pub(crate) fn turned_away(refusal: Refusal) -> Reply {
    let mut reply = json(refusal.message);
    let headers = reply.headers_mut();
    let status = match refusal.fault {
        Fault::InsufficientScope(_) => StatusCode::FORBIDDEN,
        Fault::TooOften { retry_after_ms, .. } => {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_ms.div_ceil(1000).max(1)));
            StatusCode::TOO_MANY_REQUESTS
        }
        _ => StatusCode::OK,
    };
    *reply.status_mut() = status;
    reply.extensions_mut().insert(Counted);
    reply
}

/// `405` (H-8).
pub(crate) fn not_allowed() -> Reply {
    let error = RpcError::invalid_request("this endpoint takes POST, GET and DELETE");
    let mut reply = refuse(StatusCode::METHOD_NOT_ALLOWED, &error);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    reply
}

/// A stream of events.
pub(crate) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Reply {
    let mut reply = Response::new(ReplyBody::Events(Box::pin(events), None));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Proxies that collect answers would hold events back.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    reply
}

impl From<TurnedAway> for Reply {
    fn from(why: TurnedAway) -> Self {
        let message = match why {
            TurnedAway::Host => "Forbidden: the Host header does not name this server",
            TurnedAway::Origin => "Forbidden: pages of this origin may not call this server",
        };
        refuse(StatusCode::FORBIDDEN, &RpcError::invalid_request(message))
    }
}

pub(crate) fn bad_body(why: BodyError, most: usize) -> Reply {
    match why {
        BodyError::TooLarge => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            &RpcError::invalid_request(format!("the body is larger than {most} bytes (wire.message)")),
        ),
        BodyError::TooSlow => refuse(
            StatusCode::REQUEST_TIMEOUT,
            &RpcError::invalid_request("the body did not arrive in time (wire.body-time)"),
        ),
        BodyError::Broken => {
            refuse(StatusCode::BAD_REQUEST, &RpcError::invalid_request("the body broke off"))
        }
    }
}
