//! Maps connection errors to WASI error codes.

use std::error::Error as _;
use std::io::ErrorKind;
use wasmtime_wasi_http::Error;

/// The maximum number of bytes in the head of a response.
pub(super) const HEAD_BYTES: usize = 64 << 10;

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
        Error::HttpResponseHeaderSectionSize(u32::try_from(HEAD_BYTES).ok())
    } else if error.is_incomplete_message() || error.is_body_write_aborted() {
        Error::HttpResponseIncomplete
    } else {
        Error::HttpProtocolError
    }
}
