//! The entries `[[http]]` of a case: HTTP requests that the tool makes, and their answers.

use crate::fields::Fields;
use crate::json_values::same;
use crate::toml_json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use serde_json::Value;
use std::fmt;
use toml::Table;
use toolyard_cli::nearest::nearest;
use toolyard_dispatch::{RawJson, ResponseOutcome, TapeRequest};
use toolyard_engine::{recordable_errors, request_url};

/// The largest body of a request or a response that is recorded, in bytes.
pub const MAX_BODY: usize = 64 << 10;
/// A header that is not recorded, because it is a credential.
const COOKIE: &str = "set-cookie";
/// A header that follows from the body, so that people can change a recorded one.
const LENGTH: &str = "content-length";

/// A recorded exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpEntry {
    /// The method and the whole URL.
    pub request: RequestLine,
    /// The body that the request must have; `None` if any fits.
    pub body: Option<ExpectedBody>,
    /// The answer. An error is one of [`recordable_errors`].
    pub answer: ResponseOutcome,
}

/// The method and the URL of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    method: String,
    url: String,
}

/// The expected body of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ExpectedBody {
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// The value as JSON.
    Json(Value),
}

/// A request of a call that is recorded.
#[derive(Debug)]
pub struct Exchange {
    /// The method and the whole URL.
    pub request: RequestLine,
    /// The body of the request, or why it cannot be recorded.
    pub body: Result<Vec<u8>, String>,
    /// The answer of the network, or why it cannot be recorded.
    pub outcome: Result<ResponseOutcome, String>,
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)
    }
}

impl RequestLine {
    /// The line of a request of the tool.
    pub fn of(request: &TapeRequest<'_>) -> Self {
        Self { method: request.method.to_owned(), url: request.url.to_owned() }
    }

    /// Whether the response has no body, whatever its headers say.
    fn is_head(&self) -> bool {
        self.method == Method::HEAD.as_str()
    }

    fn read(at: &str, text: &str) -> Result<Self, String> {
        let wrong = |what: String| format!("`{at}.request`: {what}");
        let Some((method, url)) = text.split_once(' ') else {
            return Err(wrong(
                "expected a method and a URL, such as \"GET https://a.example/v1\"".to_owned(),
            ));
        };
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|_| wrong(format!("`{method}` is not a method of HTTP")))?;
        let url = request_url(url.trim()).map_err(|error| wrong(format!("`{url}` is not a URL: {error}")))?;
        Ok(Self { method: method.as_str().to_owned(), url })
    }
}

impl ExpectedBody {
    /// Whether a request has this body.
    pub fn fits(&self, body: &[u8]) -> bool {
        match self {
            Self::Bytes(bytes) => bytes == body,
            Self::Json(value) => json_of(body).is_some_and(|body| same(value, &body)),
        }
    }

    /// The body as JSON if it is JSON, else as text.
    pub fn shown(&self) -> Value {
        match self {
            Self::Bytes(bytes) => text_value(bytes),
            Self::Json(value) => value.clone(),
        }
    }

    /// A body that is to be shown beside this one.
    pub fn shown_like(&self, body: &[u8]) -> Value {
        match self {
            Self::Bytes(_) => text_value(body),
            Self::Json(_) => json_of(body).unwrap_or_else(|| text_value(body)),
        }
    }
}

/// Reads the value of the key `http`.
///
/// # Errors
/// The error, and its key.
pub fn read(value: Option<toml::Value>) -> Result<Vec<HttpEntry>, String> {
    let entries = match value {
        None => return Ok(Vec::new()),
        Some(toml::Value::Array(entries)) => entries,
        Some(_) => return Err("`http`: expected a list of tables, each begun by [[http]]".to_owned()),
    };
    let entries = entries.into_iter().enumerate().map(|(index, entry)| {
        let at = format!("http[{}]", index + 1);
        match entry {
            toml::Value::Table(table) => HttpEntry::read(&at, table),
            _ => Err(format!("`{at}`: expected a table, begun by [[http]]")),
        }
    });
    entries.collect()
}

impl HttpEntry {
    fn read(at: &str, table: Table) -> Result<Self, String> {
        const KNOWN: [&str; 12] = [
            "request",
            "request-body",
            "request-json",
            "request-json-text",
            "request-body-base64",
            "status",
            "headers",
            "body",
            "json",
            "json-text",
            "body-base64",
            "error",
        ];
        let mut fields = Fields::new(at, table, &KNOWN)?;
        let request = fields.read::<String>("request")?.ok_or_else(|| {
            format!("`{at}.request` is missing: a method and a URL, such as \"GET https://a.example/v1\"")
        })?;
        let request = RequestLine::read(at, &request)?;
        let body = match Body::read(&mut fields, "request-")? {
            None => None,
            Some(Body::Bytes(bytes)) => Some(ExpectedBody::Bytes(bytes)),
            Some(Body::Json { value, .. }) => Some(ExpectedBody::Json(value)),
        };
        let mut answer = read_answer(fields)?;
        if !request.is_head() {
            add_length(&mut answer);
        }
        Ok(Self { request, body, answer })
    }
}

fn read_answer(mut fields: Fields) -> Result<ResponseOutcome, String> {
    let error: Option<String> = fields.read("error")?;
    let status: Option<i64> = fields.read("status")?;
    let mut headers = headers(&mut fields)?;
    let body = Body::read(&mut fields, "")?;
    if let Some(name) = error {
        return match (status, headers.is_empty(), body) {
            (None, true, None) => {
                error_named(&fields, &name).map(|name| ResponseOutcome::Error(name.to_owned()))
            }
            _ => Err(format!("`{}` beside a response: a request has one of both", fields.key("error"))),
        };
    }
    let Some(status) = status else {
        return Err(format!("`{}` is missing: a status such as 200, or `error`", fields.key("status")));
    };
    let status = u16::try_from(status)
        .ok()
        .filter(|status| (200..=599).contains(status))
        .ok_or_else(|| format!("`{}`: expected 200 to 599, not {status}", fields.key("status")))?;
    let body = match body {
        None => Vec::new(),
        Some(Body::Bytes(bytes)) => bytes,
        Some(Body::Json { text, .. }) => {
            if !headers.iter().any(|(name, _)| name == "content-type") {
                headers.push((Bytes::from("content-type"), Bytes::from("application/json")));
            }
            text.into_bytes()
        }
    };
    Ok(ResponseOutcome::Complete { status, headers, body: body.into() })
}

fn error_named(fields: &Fields, name: &str) -> Result<&'static str, String> {
    recordable_errors().find(|known| *known == name).ok_or_else(|| {
        let hint = nearest(name, recordable_errors()).map_or_else(
            || format!("known are {}", recordable_errors().collect::<Vec<_>>().join(", ")),
            |nearest| format!("did you mean `{nearest}`?"),
        );
        format!("`{}`: `{name}` is not an error of a request; {hint}", fields.key("error"))
    })
}

/// The headers of a response. A header that occurs several times has a list of values.
fn headers(fields: &mut Fields) -> Result<Vec<(Bytes, Bytes)>, String> {
    let key = fields.key("headers");
    let mut headers = Vec::new();
    for (name, values) in fields.read::<Table>("headers")?.unwrap_or_default() {
        let wrong = |what: &str| format!("`{key}.{name}`: {what}");
        let valid = HeaderName::try_from(&name).map_err(|_| wrong("not the name of a header"))?;
        let values = match values {
            toml::Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            match value {
                toml::Value::String(value) if HeaderValue::try_from(&value).is_ok() => {
                    headers.push((valid.as_str().to_owned().into(), value.into()));
                }
                _ => return Err(wrong("expected a text in one line, or a list of them")),
            }
        }
    }
    Ok(headers)
}

/// Adds the length of the body, which a server sends unless its headers say how the body ends.
fn add_length(answer: &mut ResponseOutcome) {
    let ResponseOutcome::Complete { status, headers, body } = answer else { return };
    let has_other = headers.iter().any(|(name, _)| name == LENGTH || name == "transfer-encoding");
    if !has_other && !matches!(status, 204 | 304) {
        headers.push((Bytes::from(LENGTH), Bytes::from(body.len().to_string())));
    }
}

/// A body, as one of four keys gives it.
enum Body {
    Bytes(Vec<u8>),
    Json { value: Value, text: String },
}

impl Body {
    /// Reads the keys `body`, `json`, `json-text` and `body-base64` with this prefix.
    fn read(fields: &mut Fields, prefix: &str) -> Result<Option<Self>, String> {
        let keys = ["body", "json", "json-text", "body-base64"].map(|key| format!("{prefix}{key}"));
        let [text, json, json_text, base64] = &keys;
        let mut bodies = Vec::new();
        if let Some(said) = fields.read::<String>(text)? {
            bodies.push((fields.key(text), Self::Bytes(said.into_bytes())));
        }
        if let Some(value) = fields.take(json) {
            let value = toml_json::json(value);
            bodies.push((fields.key(json), Self::Json { text: value.to_string(), value }));
        }
        if let Some(text) = fields.read::<String>(json_text)? {
            let key = fields.key(json_text);
            let raw = RawJson::parse(text.clone()).map_err(|error| format!("`{key}` is {error}"))?;
            let value = raw.decode().map_err(|error| format!("`{key}` cannot be read: {error}"))?;
            bodies.push((key, Self::Json { value, text }));
        }
        if let Some(text) = fields.read::<String>(base64)? {
            let key = fields.key(base64);
            let bytes =
                STANDARD.decode(text.trim()).map_err(|error| format!("`{key}` is no base64: {error}"))?;
            bodies.push((key, Self::Bytes(bytes)));
        }
        match &bodies[..] {
            [(one, _), (other, _), ..] => Err(format!("`{one}` and `{other}` are two ways to say one thing")),
            _ => Ok(bodies.pop().map(|(_, body)| body)),
        }
    }
}

/// The entry for a recorded exchange.
///
/// # Errors
/// Why it cannot be recorded.
pub fn entry(exchange: &Exchange) -> Result<toml::Value, String> {
    let Exchange { request, body, outcome } = exchange;
    let not_recordable = |why: &String| format!("{request}: {why}");
    let mut table = Table::new();
    table.insert("request".to_owned(), request.to_string().into());
    let body = body.as_ref().map_err(not_recordable)?;
    if !body.is_empty() {
        insert_body(&mut table, "request-", body);
    }
    match outcome.as_ref().map_err(not_recordable)? {
        ResponseOutcome::Error(name) if recordable_errors().all(|known| known != name) => {
            return Err(not_recordable(&format!("it ended with the error {name}")));
        }
        ResponseOutcome::Error(name) => {
            table.insert("error".to_owned(), name.clone().into());
        }
        ResponseOutcome::Complete { status, headers: all, body } => {
            table.insert("status".to_owned(), i64::from(*status).into());
            let mut headers = Table::new();
            // TOML has only text: a header with other bytes is left out.
            let text = |bytes| std::str::from_utf8(bytes).ok();
            for (name, value) in all.iter().filter_map(|(name, value)| text(name).zip(text(value))) {
                if name == COOKIE || name == LENGTH && !request.is_head() {
                    continue;
                }
                match headers.get_mut(name) {
                    None => drop(headers.insert(name.to_owned(), value.into())),
                    Some(toml::Value::Array(values)) => values.push(value.into()),
                    Some(first) => *first = vec![first.clone(), value.into()].into(),
                }
            }
            if !headers.is_empty() {
                table.insert("headers".to_owned(), headers.into());
            }
            if !body.is_empty() {
                insert_body(&mut table, "", body);
            }
        }
    }
    Ok(table.into())
}

/// Inserts a body by the most readable key that can say it.
fn insert_body(table: &mut Table, prefix: &str, body: &[u8]) {
    // A lone number or word is shown as the text that it is.
    let json = json_of(body).filter(|value| value.is_object() || value.is_array());
    let (key, value) = match (json, std::str::from_utf8(body)) {
        (Some(value), Ok(text)) => match toml_json::toml(&value) {
            Some(value) => ("json", value),
            None => ("json-text", text.into()),
        },
        (None, Ok(text)) => ("body", text.into()),
        (_, Err(_)) => ("body-base64", STANDARD.encode(body).into()),
    };
    table.insert(format!("{prefix}{key}"), value);
}

/// The value of a body that is JSON.
fn json_of(body: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(body).ok()?;
    RawJson::parse(text.to_owned()).ok()?.decode().ok()
}

/// A body as a text to show.
fn text_value(body: &[u8]) -> Value {
    match std::str::from_utf8(body) {
        Ok(text) => text.into(),
        Err(_) => format!("{} bytes that are not text", body.len()).into(),
    }
}

#[cfg(test)]
mod tests;
