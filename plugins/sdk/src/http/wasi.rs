//! One exchange over `wasi:http`. The host requires that child resources are dropped before their parents:
//! a pollable before its stream, and a stream before its body.

use std::time::Duration;

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
    http_error_code,
};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

use super::{Request, RequestError, Response, Target};

/// The most bytes that one read returns.
const PIECE: u64 = 64 << 10;

const CUT: &str = "the server closed the connection before the end of its response";

/// Ends an exchange that takes too long, and makes its errors.
#[derive(Debug)]
struct Exchange {
    timer: Pollable,
    timeout: Duration,
    method: String,
    target: String,
}

impl Exchange {
    /// Waits for `ready`, but no longer than the timer allows.
    fn wait(&self, ready: &Pollable) -> Result<(), RequestError> {
        // `poll` lists ready pollables in order, so `ready` comes first.
        if poll(&[ready, &self.timer]).first() == Some(&0) { Ok(()) } else { Err(self.timed_out()) }
    }

    fn timed_out(&self) -> RequestError {
        RequestError::TimedOut { target: self.target.clone(), after: self.timeout }
    }

    fn failed(&self, why: impl Into<String>) -> RequestError {
        RequestError::Failed { target: self.target.clone(), why: why.into() }
    }

    fn error(&self, code: &ErrorCode) -> RequestError {
        let target = self.target.clone();
        let tls = |why: &str| RequestError::Tls { target: self.target.clone(), why: why.to_owned() };
        match code {
            ErrorCode::HttpRequestDenied => RequestError::Denied { method: self.method.clone(), target },
            ErrorCode::DestinationIpProhibited => RequestError::Private(target),
            ErrorCode::DnsError(_) | ErrorCode::DnsTimeout | ErrorCode::DestinationNotFound => {
                RequestError::Dns(target)
            }
            ErrorCode::ConnectionRefused => RequestError::Refused(target),
            ErrorCode::TlsCertificateError => tls("its certificate is not valid"),
            ErrorCode::TlsProtocolError => tls("the server does not speak TLS as expected"),
            ErrorCode::TlsAlertReceived(alert) => {
                tls(alert.alert_message.as_deref().unwrap_or("the server ended it"))
            }
            ErrorCode::ConnectionTimeout
            | ErrorCode::ConnectionReadTimeout
            | ErrorCode::ConnectionWriteTimeout
            | ErrorCode::HttpResponseTimeout => self.timed_out(),
            ErrorCode::ConnectionTerminated | ErrorCode::HttpResponseIncomplete => self.failed(CUT),
            ErrorCode::HttpRequestMethodInvalid => {
                self.failed(format!("the host never sends {}", self.method))
            }
            ErrorCode::HttpRequestBodySize(Some(0)) => self.failed("a request with GET or HEAD has no body"),
            ErrorCode::HttpRequestBodySize(_) => RequestError::TooLarge { target, limit: "http-request" },
            ErrorCode::HttpResponseBodySize(_) => RequestError::TooLarge { target, limit: "http-response" },
            // The host's own sentence, for example about a limit.
            ErrorCode::InternalError(Some(why)) => self.failed(why),
            other => self.failed(format!("{other:?}")),
        }
    }

    fn stream_error(&self, error: &StreamError) -> RequestError {
        match error {
            StreamError::Closed => self.failed(CUT),
            StreamError::LastOperationFailed(error) => match http_error_code(error) {
                Some(code) => self.error(&code),
                None => self.failed(error.to_debug_string()),
            },
        }
    }
}

/// Sends a request, and waits for the head of the response.
pub(super) fn send(request: &Request, target: &Target<'_>) -> Result<Response, RequestError> {
    let nanoseconds = u64::try_from(request.timeout.as_nanos()).unwrap_or(u64::MAX);
    let exchange = Exchange {
        timer: subscribe_duration(nanoseconds),
        timeout: request.timeout,
        method: request.method.clone(),
        target: target.authority.to_owned(),
    };
    let (outgoing, body) = outgoing(request, target)?;
    let response = if request.body.is_empty() {
        OutgoingBody::finish(body, None).map_err(|code| exchange.error(&code))?;
        handle(outgoing, None).map_err(|code| exchange.error(&code))?
    } else {
        let response = handle(outgoing, None).map_err(|code| exchange.error(&code))?;
        write(&exchange, body, &request.body)?;
        response
    };
    exchange.wait(&response.subscribe())?;
    match response.get() {
        Some(Ok(Ok(response))) => incoming(exchange, response),
        Some(Ok(Err(code))) => Err(exchange.error(&code)),
        Some(Err(())) | None => Err(exchange.failed("the host gave no answer")),
    }
}

fn outgoing(request: &Request, target: &Target<'_>) -> Result<(OutgoingRequest, OutgoingBody), RequestError> {
    let fields = Fields::new();
    let add = |name: &str, value: &str| {
        fields.append(name, value.as_bytes()).map_err(|_| RequestError::Header(name.to_owned()))
    };
    request.headers.iter().try_for_each(|(name, value)| add(name, value))?;
    if !request.body.is_empty() {
        // Otherwise the host sends the body in chunks, which some servers do not read.
        add("content-length", &request.body.len().to_string())?;
    }
    let outgoing = OutgoingRequest::new(fields);
    let unfit = |what: &'static str| {
        move |()| RequestError::Url { url: request.url.clone(), why: format!("its {what} cannot be sent") }
    };
    let scheme = if target.is_secure { Scheme::Https } else { Scheme::Http };
    let path =
        if target.path.starts_with('/') { target.path.to_owned() } else { format!("/{}", target.path) };
    outgoing.set_method(&method(&request.method)).map_err(unfit("method"))?;
    outgoing.set_scheme(Some(&scheme)).map_err(unfit("scheme"))?;
    outgoing.set_authority(Some(target.authority)).map_err(unfit("host"))?;
    outgoing.set_path_with_query(Some(&path)).map_err(unfit("path"))?;
    let body = outgoing.body().map_err(unfit("body"))?;
    Ok((outgoing, body))
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

/// Writes the body. If the server answers before it has read all of it, or the host refuses it, the rest stays
/// unwritten, and the response tells the reason. So the only error here is the timeout.
fn write(exchange: &Exchange, body: OutgoingBody, bytes: &[u8]) -> Result<(), RequestError> {
    if let Ok(stream) = body.write() {
        write_all(exchange, &stream, bytes)?;
    }
    let _unfinished = OutgoingBody::finish(body, None);
    Ok(())
}

fn write_all(exchange: &Exchange, stream: &OutputStream, mut bytes: &[u8]) -> Result<(), RequestError> {
    let ready = stream.subscribe();
    while !bytes.is_empty() {
        exchange.wait(&ready)?;
        let Ok(room) = stream.check_write() else { return Ok(()) };
        let (piece, rest) = bytes.split_at(bytes.len().min(room as usize));
        if stream.write(piece).is_err() {
            return Ok(());
        }
        bytes = rest;
    }
    // A body must not be finished while the stream still has data.
    if stream.flush().is_ok() { exchange.wait(&ready) } else { Ok(()) }
}

fn incoming(exchange: Exchange, response: IncomingResponse) -> Result<Response, RequestError> {
    let entries = response.headers().entries().into_iter();
    let headers = entries.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())).collect();
    let gone = |()| exchange.failed("the response has no body");
    let body = response.consume().map_err(gone)?;
    let stream = body.stream().map_err(gone)?;
    let ready = stream.subscribe();
    let status = response.status();
    let incoming = Incoming { ready, stream, _body: body, _response: response, exchange };
    Ok(Response::new(status, headers, incoming))
}

/// The body of a response. Fields are dropped in their order.
#[derive(Debug)]
pub(crate) struct Incoming {
    ready: Pollable,
    stream: InputStream,
    _body: IncomingBody,
    _response: IncomingResponse,
    exchange: Exchange,
}

impl Incoming {
    pub(super) fn chunk(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        loop {
            self.exchange.wait(&self.ready)?;
            match self.stream.read(PIECE) {
                // A stream may be ready without data.
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Ok(Some(piece)),
                Err(StreamError::Closed) => return Ok(None),
                Err(error) => return Err(self.exchange.stream_error(&error)),
            }
        }
    }
}
