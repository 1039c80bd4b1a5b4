//! Maps connection errors to WASI error codes, and names these for records.

use std::error::Error as _;
use std::io::ErrorKind;
use wasmtime_wasi_http::Error;

/// The maximum number of bytes in the head of a response.
pub(super) const MAX_HEAD_BYTES: usize = 64 << 10;

/// Why a name leads nowhere.
pub(super) const NOT_RESOLVED: &str = "the name could not be resolved";

/// The WASI error for a failed connection.
pub(super) fn of_connection(error: &hyper::Error) -> Error {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Error::HttpRequestBodySize(size)) = cause.downcast_ref() {
            return Error::HttpRequestBodySize(*size);
        }
        if let Some(cause) = cause.downcast_ref::<std::io::Error>() {
            return match cause.kind() {
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
                    Error::ConnectionTerminated
                }
                ErrorKind::UnexpectedEof => Error::HttpResponseIncomplete,
                _ => Error::HttpProtocolError,
            };
        }
        source = cause.source();
    }
    if error.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(u32::try_from(MAX_HEAD_BYTES).ok())
    } else if error.is_incomplete_message() || error.is_body_write_aborted() {
        Error::HttpResponseIncomplete
    } else {
        Error::HttpProtocolError
    }
}

/// Why a request failed, if only the error code says so. The host keeps a sentence about the other errors where they
/// arise, by [`NetworkPolicy::refused`](super::policy::NetworkPolicy::refused).
pub(super) fn why(error: &Error) -> Option<&str> {
    Some(match error {
        Error::DnsError { rcode: Some(why), .. } => why,
        Error::DnsError { .. } | Error::DnsTimeout => NOT_RESOLVED,
        Error::ConnectionRefused => "the connection was refused",
        Error::ConnectionTimeout => "the connection was not made in time",
        Error::ConnectionReadTimeout | Error::ConnectionWriteTimeout | Error::HttpResponseTimeout => {
            "the response did not come in time"
        }
        Error::DestinationIpUnroutable => "there is no route to the host",
        Error::DestinationUnavailable | Error::DestinationNotFound => "the host cannot be reached",
        Error::ConnectionTerminated | Error::HttpResponseIncomplete => {
            "the connection was closed before the response was complete"
        }
        Error::HttpResponseHeaderSectionSize(_) => "the head of the response is too large",
        Error::HttpProtocolError => "the response is not valid HTTP",
        _ => return None,
    })
}

/// The WASI errors by name, without details. A recorded case may have those before `RECORDABLE`; the host itself decides
/// the others.
const ERRORS: [(&str, Error); 25] = [
    ("DNS-timeout", Error::DnsTimeout),
    ("DNS-error", Error::DnsError { rcode: None, info_code: None }),
    ("destination-not-found", Error::DestinationNotFound),
    ("destination-unavailable", Error::DestinationUnavailable),
    ("destination-IP-unroutable", Error::DestinationIpUnroutable),
    ("connection-refused", Error::ConnectionRefused),
    ("connection-terminated", Error::ConnectionTerminated),
    ("connection-timeout", Error::ConnectionTimeout),
    ("connection-read-timeout", Error::ConnectionReadTimeout),
    ("connection-write-timeout", Error::ConnectionWriteTimeout),
    ("connection-limit-reached", Error::ConnectionLimitReached),
    ("TLS-protocol-error", Error::TlsProtocolError),
    ("TLS-certificate-error", Error::TlsCertificateError),
    ("TLS-alert-received", Error::TlsAlertReceived { alert_id: None, alert_message: None }),
    ("HTTP-response-incomplete", Error::HttpResponseIncomplete),
    ("HTTP-response-timeout", Error::HttpResponseTimeout),
    ("HTTP-protocol-error", Error::HttpProtocolError),
    ("HTTP-request-denied", Error::HttpRequestDenied),
    ("destination-IP-prohibited", Error::DestinationIpProhibited),
    ("HTTP-request-URI-invalid", Error::HttpRequestUriInvalid),
    ("HTTP-request-method-invalid", Error::HttpRequestMethodInvalid),
    ("HTTP-request-body-size", Error::HttpRequestBodySize(None)),
    ("HTTP-response-body-size", Error::HttpResponseBodySize(None)),
    ("HTTP-response-header-section-size", Error::HttpResponseHeaderSectionSize(None)),
    ("configuration-error", Error::ConfigurationError),
];
const RECORDABLE: usize = 17;

/// The names of the errors that a recorded request may fail with, as WASI writes them.
pub fn recordable_errors() -> impl Iterator<Item = &'static str> {
    ERRORS.into_iter().take(RECORDABLE).map(|(name, _)| name)
}

/// The name of a WASI error, without its details.
pub(crate) fn code(error: &Error) -> &'static str {
    let kind = std::mem::discriminant(error);
    let known = ERRORS.into_iter().find(|(_, known)| std::mem::discriminant(known) == kind);
    known.map_or("internal-error", |(name, _)| name)
}

/// The WASI error of this name, without details.
pub(crate) fn named(name: &str) -> Error {
    let known = ERRORS.into_iter().find(|(known, _)| *known == name);
    known.map_or(Error::InternalError(None), |(_, error)| error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_an_error_of_its_own() {
        for (name, _) in ERRORS {
            assert_eq!(code(&named(name)), name);
        }
        assert_eq!(code(&Error::InternalError(None)), "internal-error");
        assert!(recordable_errors().any(|name| name == "HTTP-protocol-error"));
        assert!(recordable_errors().all(|name| name != "HTTP-request-denied"));
    }
}
