//! Replies, with the headers that all of them have.

use bytes::Bytes;
use futures_util::stream::Stream;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use maud::Markup;
use std::convert::Infallible;

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(crate) type Reply = Response<Body>;

/// Pages use only files of this console, and send forms only to it. `trusted-types` names the one policy of
/// `console.js`.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types toolyard";
/// A file of a guest that is opened as a page may do nothing.
const FILE_POLICY: &str = "default-src 'none'; sandbox";

pub(crate) fn page(status: StatusCode, page: Markup) -> Reply {
    reply(status, "text/html; charset=utf-8", page.into_string())
}

pub(crate) fn text(status: StatusCode, text: &'static str) -> Reply {
    reply(status, "text/plain; charset=utf-8", text)
}

/// Sends the browser to another page after an action.
pub(crate) fn see(path: &str) -> Reply {
    let mut reply = text(StatusCode::SEE_OTHER, "");
    // A path of this console is plain ASCII; anything else leads to the start.
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    reply.headers_mut().insert(LOCATION, path);
    reply
}

pub(crate) fn with_cookie(mut reply: Reply, cookie: &str) -> Reply {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        reply.headers_mut().append(SET_COOKIE, cookie);
    }
    reply
}

/// A file of this console, which browsers may keep.
pub(crate) fn asset(kind: &'static str, body: &'static [u8]) -> Reply {
    let mut reply = reply(StatusCode::OK, kind, body);
    let keep = HeaderValue::from_static("public, max-age=31536000, immutable");
    reply.headers_mut().insert(CACHE_CONTROL, keep);
    reply
}

/// Content of a guest: an image to show, or a file to save.
pub(crate) fn content(kind: &'static str, body: Vec<u8>, is_shown: bool) -> Reply {
    let mut reply = reply(StatusCode::OK, kind, body);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(FILE_POLICY));
    if !is_shown {
        headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    }
    reply
}

/// A file to save; `disposition` has its name.
pub(crate) fn download(kind: &'static str, disposition: &'static str, body: String) -> Reply {
    let mut reply = reply(StatusCode::OK, kind, body);
    reply.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static(disposition));
    reply
}

/// A stream of server-sent events.
pub(crate) fn events(events: impl Stream<Item = &'static str> + Send + 'static) -> Reply {
    use futures_util::StreamExt as _;
    let frames = events.map(|event| Ok(Frame::data(Bytes::from_static(event.as_bytes()))));
    with_headers(StatusCode::OK, "text/event-stream", StreamBody::new(frames).boxed_unsync())
}

fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    with_headers(status, kind, Full::new(body.into()).boxed_unsync())
}

fn with_headers(status: StatusCode, kind: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let headers: &mut HeaderMap = reply.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers send forms with `Origin: null`, which cannot be checked.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}
