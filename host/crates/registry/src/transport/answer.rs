//! The answer to a request, whose body is bounded while it is read.

use super::causes;
use crate::document::visible;
use crate::error::Problem;
use crate::limits::{MAX_ERROR_BODY, MAX_RETRY_AFTER, MIN_RATE};
use http::header::{CONTENT_LENGTH, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::Instant;

/// The expected size of a body.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// The data, for errors.
    pub item: &'static str,
    /// The most bytes.
    pub limit: u64,
    /// The setting that changes the limit, for errors.
    pub setting: &'static str,
    /// The number of bytes that a manifest promises.
    pub exact: Option<u64>,
}

impl Bound {
    pub const fn new(item: &'static str, limit: u64) -> Self {
        Self { item, limit, setting: "", exact: None }
    }

    pub const fn exactly(self, size: u64) -> Self {
        Self { exact: Some(size), ..self }
    }

    pub const fn setting(self, setting: &'static str) -> Self {
        Self { setting, ..self }
    }

    pub fn check(&self, size: u64) -> Result<(), Problem> {
        if size > self.limit {
            return Err(Problem::TooLarge { item: self.item, limit: self.limit, setting: self.setting });
        }
        match self.exact {
            Some(exact) if size > exact => {
                let why = format!("it has more than the {exact} bytes of its manifest");
                Err(Problem::malformed(self.item, why))
            }
            _ => Ok(()),
        }
    }
}

/// An answer whose body has not been read.
#[derive(Debug)]
pub struct Answer {
    response: Response<Incoming>,
    uri: Uri,
    host: String,
    read_timeout: Duration,
}

impl Answer {
    pub fn new(response: Response<Incoming>, uri: Uri, host: String, read_timeout: Duration) -> Self {
        Self { response, uri, host, read_timeout }
    }

    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The address that answered, after redirects.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers().get(name)?.to_str().ok()
    }

    /// All values of `WWW-Authenticate` that are text.
    pub fn challenges(&self) -> impl Iterator<Item = &str> {
        self.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok())
    }

    pub fn redirect_location(&self) -> Option<&str> {
        matches!(self.status().as_u16(), 301 | 302 | 303 | 307 | 308).then(|| self.header(LOCATION)).flatten()
    }

    pub fn retry_after(&self) -> Option<Duration> {
        self.header(RETRY_AFTER)?.trim().parse().ok().map(Duration::from_secs)
    }

    /// Reads the body of a successful answer.
    pub async fn read(self, bound: Bound) -> Result<Vec<u8>, Problem> {
        let length = self.header(CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        bound.check(length.unwrap_or(0))?;
        let (host, started) = (self.host, Instant::now());
        let mut body = self.response.into_body();
        let mut bytes = Vec::new();
        loop {
            let slowest = self.read_timeout + Duration::from_secs(bytes.len() as u64 / MIN_RATE);
            let until = (Instant::now() + self.read_timeout).min(started + slowest);
            let Ok(frame) = tokio::time::timeout_at(until, body.frame()).await else {
                let why = format!("{} stopped after {} bytes", bound.item, bytes.len());
                return Err(Problem::Slow { host, why });
            };
            let frame = match frame {
                None => break,
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    let (item, received) = (bound.item, bytes.len() as u64);
                    return Err(Problem::Truncated { item, received, why: causes(&error) });
                }
            };
            if let Ok(data) = frame.into_data() {
                bound.check((bytes.len() + data.len()) as u64)?;
                bytes.extend_from_slice(&data);
            }
        }
        let received = bytes.len() as u64;
        match bound.exact {
            Some(exact) if received < exact => {
                let why = format!("the manifest says {exact}");
                Err(Problem::Truncated { item: bound.item, received, why })
            }
            _ => Ok(bytes),
        }
    }

    /// Passes an answer on whose status is one of these.
    pub async fn expect(self, item: &'static str, expected: &[StatusCode]) -> Result<Self, Problem> {
        if expected.contains(&self.status()) { Ok(self) } else { Err(self.into_problem(item).await) }
    }

    /// The error that this answer means.
    pub async fn into_problem(self, item: &'static str) -> Problem {
        let (status, host) = (self.status(), self.host.clone());
        if status == StatusCode::NOT_FOUND {
            return Problem::NotFound { host, item };
        }
        if let Some(pause) = self.retry_after().filter(|pause| *pause > MAX_RETRY_AFTER) {
            return Problem::Busy { host, status: status.as_u16(), seconds: pause.as_secs() };
        }
        let body = self.read(Bound::new("the error", MAX_ERROR_BODY)).await.unwrap_or_default();
        let detail = sentence(&body).map(|text| format!(" ({text})")).unwrap_or_default();
        match status {
            StatusCode::FORBIDDEN => Problem::Forbidden { host, detail },
            _ => Problem::Status { host, status: status.as_u16(), detail },
        }
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// The sentence of a registry's error.
fn sentence(body: &[u8]) -> Option<String> {
    let body: ErrorBody = serde_json::from_slice(body).ok()?;
    let first = body.errors.into_iter().next()?;
    let text = if first.message.is_empty() { first.code } else { first.message };
    Some(visible(&text)).filter(|text| !text.is_empty())
}
