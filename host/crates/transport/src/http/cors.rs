//! What pages in browsers may see (the Fetch standard, "CORS protocol"). Which
//! pages may call at all is decided at the door, before anything here.

use super::reply::{self, Reply};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderMap,
    HeaderValue, ORIGIN, VARY,
};
use http::{Method, StatusCode};

/// What a page may send.
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Content-Type, Accept, Mcp-Session-Id, Mcp-Protocol-Version, Last-Event-ID, Mcp-Method, \
     Mcp-Name",
);
/// What a page may read beside the body.
const EXPOSED: HeaderValue = HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After");
/// Seconds that a browser may remember the answer to a preflight.
const REMEMBERED: HeaderValue = HeaderValue::from_static("7200");

/// Whether a browser asks what it may send. It does so without credentials.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight for these methods.
pub(crate) fn preflight(methods: &'static str) -> Reply {
    let mut reply = reply::empty(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    reply
}

/// Lets a page of this origin, which has passed the door, read the answer.
pub(crate) fn allow(reply: &mut Reply, origin: HeaderValue) {
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from_static("Origin"));
}

/// Lets every page read the answer, which is the same for all.
pub(crate) fn allow_all(reply: &mut Reply) {
    reply.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
}
