//! An HTTP exchange, from the decision to the response's head. The response's body is transferred while
//! the guest reads it.

use super::body::{Body, Exchanged, RequestBody, ResponseBody, Rest, whole};
use super::connect;
use super::error::{MAX_HEAD_BYTES, NOT_RESOLVED, of_connection};
use super::exchange_report::ExchangeReport;
use super::http_tape::{Consulted, consult, record};
use super::permission::{self, RequestPermit};
use crate::network::policy::NetworkPolicy;
use bytes::Bytes;
use futures_util::future::{Either, select};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri, Version, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::future::pending;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};
use toolyard_manifest::{Host, Target, is_forbidden};
use toolyard_task::host_call::HttpRequest;
use toolyard_task::wire::visible::clip;
use wasmtime_wasi_http::{Error, RequestOptions};

const MAX_HEADERS: usize = 128;
/// The longest name of a method or host in a report (characters).
const MAX_NAME: usize = 128;

/// Sends a request for which the run has a permit, if its grants allow it, and reports it.
pub(super) async fn exchange(
    policy: Arc<NetworkPolicy>,
    place: Arc<OwnedSemaphorePermit>,
    request: Request<Body>,
    options: RequestOptions,
) -> Exchanged {
    let target = Target::of(request.uri()).map_err(|what| {
        policy.refused(format!("a request was not sent: {what}"));
        Error::HttpRequestUriInvalid
    })?;
    let report = ExchangeReport::new(policy.context.clone(), described(&policy, &target, request.method()));
    policy.open_exchange(report.clone());
    let exchanged = permitted_exchange(policy, place, (target, report.clone()), request, options).await;
    exchanged.inspect_err(|error| report.fail(error))
}

/// The report of a request that has not been sent yet.
fn described(policy: &NetworkPolicy, target: &Target, method: &Method) -> HttpRequest {
    // A guest chooses both names, and may put a secret into them.
    let name = |text: String| clip(&policy.grants.clean(text), MAX_NAME);
    HttpRequest {
        method: name(method.as_str().to_owned()),
        scheme: target.scheme.as_str(),
        host: name(target.host.to_string()),
        port: target.port,
        ..HttpRequest::default()
    }
}

async fn permitted_exchange(
    policy: Arc<NetworkPolicy>,
    place: Arc<OwnedSemaphorePermit>,
    (target, report): (Target, Arc<ExchangeReport>),
    request: Request<Body>,
    options: RequestOptions,
) -> Exchanged {
    if let Some(never) = NEVER.iter().find(|never| is(request.method(), never)) {
        policy.refused(format!("a request to {target} was not sent: the method {never} never is"));
        return Err(Error::HttpRequestMethodInvalid);
    }
    let permit = permission::check_send(&policy, &target, request.method()).await?;
    if !policy.may_act() {
        return Err(Error::HttpRequestDenied);
    }
    report.begin();
    let (request, unwanted) = prepared((&policy, &report), &target, request)?;
    let time = policy.limits.http_time;
    let end = Instant::now() + time;
    let sent = async {
        let patience = options.between_bytes_timeout.filter(|patience| *patience < time);
        let begin = |response: Response<Body>| {
            report.respond(response.status().as_u16());
            let of = (policy.clone(), target.clone());
            let body =
                |body| ResponseBody::new(body, report.clone(), of, end, patience, place).boxed_unsync();
            response.map(body)
        };
        let (request, recorded) = match policy.context.http_tape() {
            None => (request, None),
            Some(tape) => match consult((&policy, &report), tape, &target, request).await? {
                Consulted::Answered((response, rest)) => return Ok((begin(response), rest)),
                Consulted::Send(request, number) => (request, number.map(|number| (tape, number))),
            },
        };
        let sent = sent(&policy, &target, &permit, request, &options).await;
        let exchanged = sent.map(|(response, connection)| {
            let body = |body: Incoming| body.map_err(|error| of_connection(&error)).boxed_unsync();
            let rest: Rest = Box::new(async move {
                if let Some(connection) = connection {
                    // The body reports how the connection ended.
                    drop(timeout_at(end, connection).await);
                }
                Ok(())
            });
            (begin(response.map(body)), rest)
        });
        match recorded {
            Some((tape, number)) => record(&policy, tape, number, exchanged).await,
            None => exchanged,
        }
    };
    let sent = async {
        let unwanted = async {
            match unwanted {
                Some(body) => refuse_data(body, &policy, &target).await,
                None => pending().await,
            }
        };
        match select(pin!(sent), pin!(unwanted)).await {
            Either::Left((response, _)) => response,
            Either::Right((error, _)) => Err(error),
        }
        .inspect_err(|error| policy.failed(&target, error))
    };
    timeout_at(end, sent)
        .await
        .unwrap_or_else(|_| Err(policy.over("http-time", &format!("{target} took too long"))))
}

/// Methods that are never sent, in any letter case. CONNECT opens a tunnel, and a server that
/// ignores case answers TRACE and TRACK with the headers that the host added.
const NEVER: [&str; 3] = ["CONNECT", "TRACE", "TRACK"];

/// Methods of requests without a body. A server that expects no body reads one as the next request,
/// which the manifest may not grant.
const BODILESS: [&str; 2] = ["GET", "HEAD"];

fn is(method: &Method, name: &str) -> bool {
    method.as_str().eq_ignore_ascii_case(name)
}

/// Returns an error when the guest writes to the body of a request that has none.
async fn refuse_data(mut body: Body, policy: &NetworkPolicy, target: &Target) -> Error {
    // A guest that drops its body without finishing it has not written anything.
    while let Some(Ok(frame)) = body.frame().await {
        if frame.data_ref().is_some_and(|data| !data.is_empty()) {
            return refuse_body(policy, target);
        }
    }
    pending().await
}

fn refuse_body(policy: &NetworkPolicy, target: &Target) -> Error {
    policy.refused(format!("a request to {target} was not sent: one with GET or HEAD has no body"));
    Error::HttpRequestBodySize(Some(0))
}

/// Prepares the outgoing request. Also returns the guest's body if the request must not have one.
fn prepared(
    (policy, report): (&Arc<NetworkPolicy>, &Arc<ExchangeReport>),
    target: &Target,
    request: Request<Body>,
) -> Result<(Request<RequestBody>, Option<Body>), Error> {
    let (mut head, body) = request.into_parts();
    let bodiless = BODILESS.iter().any(|name| is(&head.method, name));
    let declared =
        head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > policy.limits.http_request) {
        return Err(RequestBody::too_large(policy));
    }
    if bodiless {
        let length = head.headers.remove(header::CONTENT_LENGTH);
        if length.is_some_and(|length| length != "0") {
            return Err(refuse_body(policy, target));
        }
    }
    // Only a proxy needs more than the path.
    let path = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    head.uri = Uri::from(path);
    head.version = Version::HTTP_11;
    let host = HeaderValue::try_from(target.authority()).map_err(|_| Error::HttpRequestUriInvalid)?;
    let headers = &mut head.headers;
    for name in headers.keys().filter(|name| is_forbidden(name)).cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
    headers.insert(header::HOST, host);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    trace(policy, headers);
    for injection in policy.grants.http.injections.iter().filter(|injection| injection.is_for(target)) {
        injection.apply(headers);
    }
    let (body, unwanted) = if bodiless { (whole(Bytes::new()), Some(body)) } else { (body, None) };
    Ok((Request::from_parts(head, RequestBody::new(body, policy.clone(), report.clone())), unwanted))
}

/// Adds the trace headers, unless the guest has set its own.
fn trace(policy: &NetworkPolicy, headers: &mut http::HeaderMap) {
    const PARENT: HeaderName = HeaderName::from_static("traceparent");
    const STATE: HeaderName = HeaderName::from_static("tracestate");
    if headers.contains_key(PARENT) {
        return;
    }
    let Some(context) = policy.context.info().trace else { return };
    let state = context.state.as_deref().and_then(|state| HeaderValue::try_from(state).ok());
    if let Ok(parent) = HeaderValue::try_from(context.parent()) {
        headers.insert(PARENT, parent);
        headers.remove(STATE);
        headers.extend(state.map(|state| (STATE, state)));
    }
}

type Connection = http1::Connection<TokioIo<Box<dyn connect::Stream>>, RequestBody>;

/// Connects, sends the request, and waits for the head of the response.
async fn sent(
    policy: &NetworkPolicy,
    target: &Target,
    permit: &RequestPermit,
    request: Request<RequestBody>,
    options: &RequestOptions,
) -> Result<(Response<Incoming>, Option<Connection>), Error> {
    let time = policy.limits.http_time;
    // `exchange` enforces the total time.
    let shorter = |asked: Option<Duration>| asked.filter(|asked| *asked < time);
    let connecting = shorter(options.connect_timeout);
    let connected = async {
        let found = addresses(policy, target).await?;
        let reachable = permit.reachable(policy, target, found)?;
        let stream = connect::tcp(&reachable, target.port, connecting.unwrap_or(time)).await?;
        let stream = connect::secure(stream, target, &policy.network.roots).await.map_err(|insecure| {
            policy.refused(format!("{target} has no secure connection: {}", insecure.why));
            insecure.error
        })?;
        // Connecting may have taken long.
        if !policy.may_act() {
            return Err(Error::HttpRequestDenied);
        }
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| of_connection(&error))
    };
    let (mut sender, connection) = patient(connecting, Error::ConnectionTimeout, connected).await?;
    let response = async {
        match select(pin!(sender.send_request(request)), connection).await {
            Either::Left((response, connection)) => Ok((response, Some(connection))),
            Either::Right((Err(error), _)) => Err(of_connection(&error)),
            Either::Right((Ok(()), response)) => Ok((response.await, None)),
        }
    };
    let (response, connection) =
        patient(shorter(options.first_byte_timeout), Error::ConnectionReadTimeout, response).await?;
    Ok((response.map_err(|error| of_connection(&error))?, connection))
}

/// Waits for at most the time that the guest allows.
async fn patient<T>(
    time: Option<Duration>,
    over: Error,
    waited: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match time {
        Some(time) => timeout(time, waited).await.unwrap_or(Err(over)),
        None => waited.await,
    }
}

async fn addresses(policy: &NetworkPolicy, target: &Target) -> Result<Vec<IpAddr>, Error> {
    let unknown = |rcode: &str| Error::DnsError { rcode: Some(rcode.to_owned()), info_code: None };
    match &target.host {
        Host::Address(address) => Ok(vec![*address]),
        Host::Name(name) => match policy.addresses(name).await {
            Some(found) if found.is_empty() => Err(unknown("the name has no address")),
            Some(found) => Ok(found.to_vec()),
            None => Err(unknown(NOT_RESOLVED)),
        },
    }
}

#[cfg(test)]
mod tests;
