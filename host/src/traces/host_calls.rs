//! Spans of host calls, with attributes named as in the semantic conventions for HTTP and networks. They have
//! no path and no query.

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, Status};
use std::borrow::Cow;
use toolyard_dispatch::host_call::{HostAction, HttpRequest};

/// The methods that the conventions know. A guest chooses the method, and a collector must not get a new
/// span name for each of its ideas.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];

/// The name, the kind and the attributes of a span.
pub fn described(what: &HostAction) -> (Cow<'static, str>, SpanKind, Vec<KeyValue>) {
    match what {
        HostAction::Http(request) => http(request),
        HostAction::Socket { protocol, peer, .. } => {
            let attributes = vec![
                KeyValue::new("network.transport", *protocol),
                KeyValue::new("network.peer.address", peer.clone()),
            ];
            ("socket".into(), SpanKind::Client, attributes)
        }
        HostAction::Sleep => ("sleep".into(), SpanKind::Internal, Vec::new()),
        HostAction::Question { count, is_answered } => {
            let attributes = vec![
                KeyValue::new("toolyard.questions", i64::try_from(*count).unwrap_or(i64::MAX)),
                KeyValue::new("toolyard.answered", *is_answered),
            ];
            ("question".into(), SpanKind::Internal, attributes)
        }
        HostAction::Permission { is_given } => {
            let attributes = vec![KeyValue::new("toolyard.permitted", *is_given)];
            ("permission".into(), SpanKind::Internal, attributes)
        }
    }
}

fn http(request: &HttpRequest) -> (Cow<'static, str>, SpanKind, Vec<KeyValue>) {
    let known = METHODS.into_iter().find(|known| request.method == *known);
    let mut attributes = vec![
        KeyValue::new("http.request.method", known.unwrap_or("_OTHER")),
        KeyValue::new("url.scheme", request.scheme),
        KeyValue::new("server.address", request.host.clone()),
        KeyValue::new("server.port", i64::from(request.port)),
        KeyValue::new("http.request.body.size", size(request.sent)),
        KeyValue::new("http.response.body.size", size(request.received)),
    ];
    if known.is_none() {
        attributes.push(KeyValue::new("http.request.method_original", request.method.clone()));
    }
    if let Some(status) = request.status {
        attributes.push(KeyValue::new("http.response.status_code", i64::from(status)));
    }
    if let Some(time) = request.first_byte {
        attributes.push(KeyValue::new("toolyard.first_byte", time.as_secs_f64()));
    }
    match (request.error, request.status) {
        (Some(error), _) => attributes.push(KeyValue::new("error.type", error)),
        (None, Some(status @ 400..)) => attributes.push(KeyValue::new("error.type", status.to_string())),
        (None, _) => {}
    }
    (known.unwrap_or("HTTP").into(), SpanKind::Client, attributes)
}

/// The status of a span: the conventions count a response of 400 and above as an error of the client.
pub fn status(what: &HostAction) -> Status {
    match what {
        HostAction::Http(HttpRequest { error: Some(error), .. }) => Status::error(*error),
        HostAction::Http(HttpRequest { status: Some(400..), .. }) => Status::error(""),
        HostAction::Socket { is_allowed: false, .. } => Status::error("refused"),
        _ => Status::Unset,
    }
}

fn size(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
