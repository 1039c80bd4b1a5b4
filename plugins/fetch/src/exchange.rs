//! One request over `wasi:http`. All functions here wait for the host.

use std::collections::BTreeMap;

use url::{Position, Url};
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::StreamError;

use crate::fault::Fault;
use crate::journey::Received;

/// The most bytes that one read returns.
const PIECE: u64 = 64 << 10;

/// Default headers, which the call may override. Without compression the body needs no decoding.
const DEFAULTS: [(&str, &str); 3] = [
    ("user-agent", concat!("toolyard-fetch/", env!("CARGO_PKG_VERSION"))),
    ("accept", "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"),
    ("accept-encoding", "identity"),
];

/// Becomes ready when the time of the call has passed.
pub struct Timer(Pollable);

impl Timer {
    pub fn start(ms: u64) -> Self {
        Self(subscribe_duration(ms.saturating_mul(1_000_000)))
    }

    /// Waits for `ready`, but no longer than the timer allows.
    fn wait(&self, ready: &Pollable) -> Result<(), Fault> {
        // `poll` lists ready pollables in order, so `ready` comes first.
        if poll(&[ready, &self.0]).first() == Some(&0) { Ok(()) } else { Err(Fault::Time) }
    }
}

/// Requests a page and reads at most `most` bytes of it. `heard` receives the number of bytes read and the
/// total, if known, and returns whether to stop.
pub fn get(
    url: &Url,
    headers: &BTreeMap<String, String>,
    most: usize,
    timer: &Timer,
    heard: &mut dyn FnMut(usize, Option<u64>) -> bool,
) -> Result<Received, Fault> {
    let response = handle(request(url, headers)?, None).map_err(|error| fault(url, &error))?;
    timer.wait(&response.subscribe())?;
    let response = match response.get() {
        Some(Ok(Ok(response))) => response,
        Some(Ok(Err(error))) => return Err(fault(url, &error)),
        Some(Err(())) | None => return Err(Fault::Failed("the host gave no answer".to_owned())),
    };
    let entries = response.headers().entries().into_iter();
    let headers = entries.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())).collect();
    let mut received = Received { status: response.status(), headers, body: Vec::new(), truncated: false };
    if !(300..400).contains(&received.status) {
        read(response, most, timer, &mut received, heard)?;
    }
    Ok(received)
}

fn request(url: &Url, headers: &BTreeMap<String, String>) -> Result<OutgoingRequest, Fault> {
    let fields = Fields::new();
    let refused = |name: &str| Fault::Failed(format!("the header {name:?} cannot be sent"));
    for (name, value) in DEFAULTS {
        if !headers.keys().any(|given| given.eq_ignore_ascii_case(name)) {
            fields.append(name, value.as_bytes()).map_err(|_| refused(name))?;
        }
    }
    for (name, value) in headers {
        fields.append(name, value.as_bytes()).map_err(|_| refused(name))?;
    }
    let request = OutgoingRequest::new(fields);
    let scheme = if url.scheme() == "https" { Scheme::Https } else { Scheme::Http };
    let unfit = |()| Fault::Url("it has a part that cannot be sent".to_owned());
    request.set_method(&Method::Get).map_err(unfit)?;
    request.set_scheme(Some(&scheme)).map_err(unfit)?;
    request.set_authority(Some(&url[Position::BeforeHost..Position::AfterPort])).map_err(unfit)?;
    request.set_path_with_query(Some(&url[Position::BeforePath..Position::AfterQuery])).map_err(unfit)?;
    let body = request.body().map_err(unfit)?;
    OutgoingBody::finish(body, None).map_err(|error| fault(url, &error))?;
    Ok(request)
}

fn read(
    response: IncomingResponse,
    most: usize,
    timer: &Timer,
    received: &mut Received,
    heard: &mut dyn FnMut(usize, Option<u64>) -> bool,
) -> Result<(), Fault> {
    let total = received.header("content-length").and_then(|length| length.parse().ok());
    let gone = |()| Fault::Failed("the response has no body".to_owned());
    let body = response.consume().map_err(gone)?;
    let stream = body.stream().map_err(gone)?;
    let ready = stream.subscribe();
    let Received { body: bytes, truncated, .. } = received;
    while !*truncated {
        timer.wait(&ready)?;
        match stream.read(PIECE) {
            Ok(piece) => {
                *truncated = bytes.len() + piece.len() > most;
                let room = most - bytes.len();
                bytes.extend_from_slice(&piece[..piece.len().min(room)]);
                if heard(bytes.len(), total) {
                    return Err(Fault::Cancelled);
                }
            }
            Err(StreamError::Closed) => return Ok(()),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(Fault::Failed(error.to_debug_string()));
            }
        }
    }
    Ok(())
}

fn fault(url: &Url, error: &ErrorCode) -> Fault {
    let place = || format!("\"{}\"", &url[Position::BeforeHost..Position::AfterPort]);
    match error {
        ErrorCode::HttpRequestDenied => Fault::Denied(place()),
        ErrorCode::DestinationIpProhibited => Fault::Private(place()),
        ErrorCode::DnsError(_) => Fault::Failed(format!("{} has no address", place())),
        ErrorCode::ConnectionRefused => Fault::Failed(format!("no server answers at {}", place())),
        ErrorCode::TlsCertificateError => {
            Fault::Failed(format!("the certificate of {} is not valid", place()))
        }
        ErrorCode::InternalError(Some(what)) => Fault::Failed(what.clone()),
        other => Fault::Failed(format!("{other:?}")),
    }
}
