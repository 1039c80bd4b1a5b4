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

    fn headers(&self) -> &HeaderMap {
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
                return Err(Problem::slow(&host, why));
            };
            let frame = match frame {
                None => break,
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    return Err(truncated(bound.item, bytes.len(), &causes(&error)));
                }
            };
            if let Ok(data) = frame.into_data() {
                bound.check((bytes.len() + data.len()) as u64)?;
                bytes.extend_from_slice(&data);
            }
        }
        match bound.exact {
            Some(exact) if (bytes.len() as u64) < exact => {
                Err(truncated(bound.item, bytes.len(), &format!("the manifest says {exact}")))
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
            return Problem::Other(format!(
                "{host} answered with the status {} and wants a pause of {} s; try again then",
                status.as_u16(),
                pause.as_secs()
            ));
        }
        let body = self.read(Bound::new("the error", MAX_ERROR_BODY)).await.unwrap_or_default();
        let detail = sentence(&body).map(|text| format!(" ({text})")).unwrap_or_default();
        Problem::Other(match status {
            StatusCode::FORBIDDEN => format!(
                "403, the credential for {host} does not allow this{detail}; ask the owner of the repository"
            ),
            _ => format!(
                "{host} answered with the status {}{detail}; try again later, or ask its operator",
                status.as_u16()
            ),
        })
    }
}

/// Data ended early.
fn truncated(item: &str, received: usize, why: &str) -> Problem {
    Problem::Other(format!("{item} ended after {received} bytes: {why}; try again"))
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
