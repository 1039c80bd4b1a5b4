//! HTTP requests, over `wasi:http`. The host sends them: it checks them against `[http] allow` of the
//! plugin's manifest, does TLS, and adds the headers of `[http.inject]`, which the tool never has.
//!
//! ```
//! use std::time::Duration;
//!
//! use serde_json::{Value, json};
//! use toolyard_plugin::{Error, http};
//!
//! fn tool() -> Result<(), Error> {
//!     let page = http::get("https://example.com/")?.text()?;
//!     let response = http::Request::post("https://api.example.com/orders")
//!         .query("lang", "en")
//!         .header("accept", "application/json")
//!         .json(&json!({ "count": 2 }))
//!         .timeout(Duration::from_secs(5))
//!         .send()?;
//!     if response.status() == 201 {
//!         let order: Value = response.json()?;
//! #       let _ = (page, order);
//!     }
//!     Ok(())
//! }
//! # let _ = tool();
//! ```
//!
//! A status such as 404 is a response, not an error. Redirects are responses too. In native unit tests,
//! [`testing::respond`](crate::testing::respond) provides the responses.

#[cfg(target_family = "wasm")]
mod wasi;

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(not(target_family = "wasm"))]
use crate::testing::exchange::{self as backend, Incoming};
#[cfg(target_family = "wasm")]
use wasi::{self as backend, Incoming};

/// The timeout of a request that sets none.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Some services refuse requests without this header.
const USER_AGENT: &str = concat!("toolyard-plugin/", env!("CARGO_PKG_VERSION"));

/// Sends a GET request.
pub fn get(url: &str) -> Result<Response, RequestError> {
    Request::get(url).send()
}

/// A request under construction.
#[derive(Debug, Clone)]
#[must_use = "`send` sends it"]
pub struct Request {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) timeout: Duration,
    /// The reason why the body cannot be made, for `send` to return.
    unwritable: Option<String>,
}

impl Request {
    /// A request with any method, such as `OPTIONS`.
    pub fn new(method: &str, url: &str) -> Self {
        Self {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: TIMEOUT,
            unwritable: None,
        }
    }

    /// A GET request.
    pub fn get(url: &str) -> Self {
        Self::new("GET", url)
    }

    /// A POST request.
    pub fn post(url: &str) -> Self {
        Self::new("POST", url)
    }

    /// A PUT request.
    pub fn put(url: &str) -> Self {
        Self::new("PUT", url)
    }

    /// A PATCH request.
    pub fn patch(url: &str) -> Self {
        Self::new("PATCH", url)
    }

    /// A DELETE request.
    pub fn delete(url: &str) -> Self {
        Self::new("DELETE", url)
    }

    /// Adds `name=value` to the query of the URL, percent-encoded.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        let end = self.url.find('#').unwrap_or(self.url.len());
        self.url.truncate(end);
        self.url.push(if self.url.contains('?') { '&' } else { '?' });
        self.url.push_str(&encode(name));
        self.url.push('=');
        self.url.push_str(&encode(value));
        self
    }

    /// Adds a header. Never put a key into one: `[http.inject]` of the manifest does that, and the tool and
    /// the model do not see it.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    /// Sets the body to this value as JSON, and the header `content-type`.
    pub fn json(mut self, value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(json) => self.body = json,
            Err(error) => self.unwritable = Some(error.to_string()),
        }
        self.header("content-type", "application/json")
    }

    /// Limits the time from `send` to the end of the response's body. The default is 30 seconds. The manifest
    /// limits it too (`http-time`).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends the request, and waits until the status and the headers of the response have come.
    pub fn send(mut self) -> Result<Response, RequestError> {
        if let Some(why) = self.unwritable {
            return Err(RequestError::Json(format!("the body of the request cannot be written: {why}")));
        }
        let target = Target::of(&self.url)?;
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
            self.headers.push(("user-agent".to_owned(), USER_AGENT.to_owned()));
        }
        backend::send(&self, &target)
    }
}

/// A response. The methods that return the body read it from the network.
#[derive(Debug)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    incoming: Incoming,
}

impl Response {
    pub(crate) fn new(status: u16, headers: Vec<(String, String)>, incoming: Incoming) -> Self {
        Self { status, headers, incoming }
    }

    /// The status, such as 200.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of this name, in any letter case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// All headers, in order.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The next part of the body; `None` at its end.
    pub fn chunk(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        self.incoming.chunk()
    }

    /// The body. The manifest limits its length (`http-response`).
    pub fn bytes(mut self) -> Result<Vec<u8>, RequestError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk()? {
            body.extend(chunk);
        }
        Ok(body)
    }

    /// The body as text. Bytes that are not UTF-8 are replaced.
    pub fn text(self) -> Result<String, RequestError> {
        let bytes = self.bytes()?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// The body, parsed as JSON.
    pub fn json<T: DeserializeOwned>(self) -> Result<T, RequestError> {
        serde_json::from_slice(&self.bytes()?)
            .map_err(|error| RequestError::Json(format!("the response is not the expected JSON: {error}")))
    }
}

/// The reason why there is no response. `target` is the host, and the port if the URL has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// This is not a URL that can be requested.
    Url {
        /// The URL.
        url: String,
        /// The reason.
        why: String,
    },
    /// A header of this name cannot be sent, or not with this value.
    Header(String),
    /// The manifest does not grant the request.
    Denied {
        /// The method.
        method: String,
        /// The host.
        target: String,
    },
    /// The name leads to an address that is not public, and the manifest does not name it.
    Private(String),
    /// The name of the host has no address.
    Dns(String),
    /// No server accepts connections there.
    Refused(String),
    /// There is no secure connection.
    Tls {
        /// The host.
        target: String,
        /// The reason.
        why: String,
    },
    /// The response did not end in time.
    TimedOut {
        /// The host.
        target: String,
        /// The timeout.
        after: Duration,
    },
    /// The request or the response has more bytes than the manifest allows.
    TooLarge {
        /// The host.
        target: String,
        /// The key under `[limits]` in the manifest.
        limit: &'static str,
    },
    /// A body cannot be written or read as JSON, for this reason.
    Json(String),
    /// Another failure.
    Failed {
        /// The host.
        target: String,
        /// The reason.
        why: String,
    },
}

impl std::error::Error for RequestError {}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, why } => write!(f, "cannot request {url:?}: {why}"),
            Self::Header(name) => write!(f, "the header {name:?} cannot be sent"),
            Self::Denied { method, target } => write!(
                f,
                "this tool is not granted {method} requests to \"{target}\"; the operator of the host can grant \
                 them: add it to `[http] allow` of the plugin's manifest"
            ),
            Self::Private(target) => write!(
                f,
                "\"{target}\" is not at a public address; the operator of the host can grant it by name: see \
                 `[http] allow` of the plugin's manifest"
            ),
            Self::Dns(target) => {
                write!(f, "\"{target}\" has no address; check the name, and the DNS of the host")
            }
            Self::Refused(target) => {
                write!(f, "no server answers at \"{target}\"; check the port, and that the server runs")
            }
            Self::Tls { target, why } => write!(f, "there is no secure connection to \"{target}\": {why}"),
            Self::TimedOut { target, after } => {
                write!(f, "\"{target}\" did not answer within {after:?}; try again later")
            }
            Self::TooLarge { target, limit } => write!(
                f,
                "too many bytes in the exchange with \"{target}\"; the operator of the host can raise `{limit}` \
                 in `[limits]` of the plugin's manifest"
            ),
            Self::Json(why) => f.write_str(why),
            Self::Failed { target, why } => write!(f, "the request to \"{target}\" failed: {why}"),
        }
    }
}

/// The parts of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub is_secure: bool,
    pub authority: &'a str,
    /// The path and the query. May be empty, or begin with a `?`.
    pub path: &'a str,
}

impl<'a> Target<'a> {
    fn of(url: &'a str) -> Result<Self, RequestError> {
        let unfit = |why: &str| RequestError::Url { url: url.to_owned(), why: why.to_owned() };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| unfit("it has no scheme; write a whole URL with http or https"))?;
        let is_secure = scheme.eq_ignore_ascii_case("https");
        if !is_secure && !scheme.eq_ignore_ascii_case("http") {
            return Err(unfit("its scheme is neither http nor https"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err(unfit("it has no host"));
        }
        if authority.contains('@') {
            return Err(unfit("it has a user name or a password in it"));
        }
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(unfit("it has characters that must be percent-encoded, as `Request::query` does"));
        }
        Ok(Self { is_secure, authority, path })
    }
}

/// Percent-encodes text for any part of a URL, such as a segment of its path. `Request::query` encodes its
/// values itself.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{self, Heard};

    #[test]
    fn a_request_and_its_response() {
        let url = "https://api.example/orders?page=1&city=S%C3%A3o%20Paulo%26";
        testing::respond("POST", url, 201, r#"{"id": 7}"#);
        let response = Request::post("https://api.example/orders?page=1#top")
            .query("city", "São Paulo&")
            .header("Accept", "*/*")
            .json(&json!({ "a": 1 }))
            .send()
            .expect("a response");
        assert_eq!((response.status(), response.is_success()), (201, true));
        assert_eq!(response.json::<Value>(), Ok(json!({ "id": 7 })));
        let [Heard::Requested { method, url: requested, headers, body }] = &testing::heard()[..] else {
            panic!("one request");
        };
        assert_eq!((method.as_str(), requested.as_str()), ("POST", url));
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Accept", "content-type", "user-agent"]);
        assert_eq!(body, b"{\"a\":1}");
    }

    #[test]
    fn a_body_is_bytes_text_or_json() {
        let body = |bytes: &[u8]| {
            testing::respond("GET", "http://a", 404, bytes);
            get("http://a").expect("a response")
        };
        assert_eq!(body(b"\x00\xff").bytes(), Ok(vec![0, 255]));
        assert_eq!(body(b"a\xff").text().as_deref(), Ok("a\u{fffd}"));
        let error = body(b"<html>").json::<Value>().expect_err("no JSON").to_string();
        assert!(error.starts_with("the response is not the expected JSON: "), "{error}");
        let mut whole = body(b"abc");
        assert_eq!(whole.chunk(), Ok(Some(b"abc".to_vec())));
        assert_eq!(whole.chunk(), Ok(None));
    }

    #[test]
    fn a_test_without_a_response_or_with_an_error() {
        let denied = RequestError::Denied { method: "GET".to_owned(), target: "a".to_owned() };
        testing::no_response("GET", "http://a/", denied.clone());
        assert_eq!(get("http://a/").map(|_| ()), Err(denied));
        let error = get("http://b/").map(|_| ()).expect_err("none").to_string();
        assert_eq!(error, "the request to \"b\" failed: the test has no response to GET http://b/");
    }

    #[test]
    fn urls_are_taken_apart() {
        let target = Target::of("HTTPS://[::1]:8443?q=/x").expect("a URL");
        assert_eq!(target, Target { is_secure: true, authority: "[::1]:8443", path: "?q=/x" });
        let target = Target::of("http://a.example/x?y=http://z#part").expect("a URL");
        assert_eq!(target, Target { is_secure: false, authority: "a.example", path: "/x?y=http://z" });
        for (url, says) in [
            ("a.example/x", "no scheme"),
            ("ftp://a.example", "neither http nor https"),
            ("https:///x", "no host"),
            ("https://u:p@a.example", "a user name"),
            ("https://a.example/ü", "percent-encoded"),
            ("https://a.example/a b", "percent-encoded"),
        ] {
            let error = get(url).map(|_| ()).expect_err(url).to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(encode("a/ü~"), "a%2F%C3%BC~");
    }
}
