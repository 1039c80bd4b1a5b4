//! The `_meta` of a request: which version it claims, and what the client says of
//! itself for this request alone (26R, 26B).

use super::members::{each, last};
use super::{META_CAPABILITIES, META_LOG_LEVEL, META_VERSION, TASKS};
use crate::error::clip;
use crate::initialize::Implementation;
use crate::{LogLevel, RawJson, RpcError};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Whether a message claims a version, which makes it one of this generation
/// whatever the version is (the table of 26B).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It does not.
    None,
    /// This one.
    Version(String),
    /// The key is there, but its value is no string, or it is there twice.
    Malformed,
}

/// What these params claim. Params that cannot claim anything, which are those of
/// the other generation, are searched for the key and not read.
#[must_use]
pub fn claim(params: Option<&RawJson>) -> Claim {
    let Some(params) = params else { return Claim::None };
    if may_name_version(params.as_bytes()) { claimed(params.as_str()) } else { Claim::None }
}

/// Whether the key can be anywhere in this text: as it is, or spelled with the only
/// escapes that its characters have, `\u` and `\/`. Looks at nothing but the two
/// bytes that are rare elsewhere.
fn may_name_version(text: &[u8]) -> bool {
    memchr::memchr2_iter(b'V', b'\\', text).any(|at| {
        let (before, after) = (&text[..at], &text[at + 1..]);
        match text[at] {
            b'V' => after.starts_with(KEY_AFTER_V) && before.ends_with(KEY_TO_V),
            _ => matches!(after.first(), Some(b'u' | b'/')),
        }
    })
}

const KEY_TO_V: &[u8] = META_VERSION.as_bytes().split_at(META_VERSION.len() - AFTER - 1).0;
const KEY_AFTER_V: &[u8] = META_VERSION.as_bytes().split_at(META_VERSION.len() - AFTER).1;
const AFTER: usize = "ersion".len();

fn claimed(params: &str) -> Claim {
    let mut claim = Claim::None;
    // What cannot be read to its end is refused by whoever reads it; what it claimed
    // before decides by which rules.
    let _ = each(params, |member| {
        let Some(meta) = member.object().filter(|_| member.is("_meta")) else { return };
        let _ = each(meta, |member| {
            if member.is(META_VERSION) {
                claim = match (&claim, serde_json::from_str::<String>(member.value.get())) {
                    (Claim::None, Ok(version)) => Claim::Version(version),
                    _ => Claim::Malformed,
                };
            }
        });
    });
    claim
}

/// What a request says of its client. It holds for this request only (26R-6).
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Name and version, for logs and displays only (26R-5).
    pub client: Option<Implementation>,
    /// What the client can do: an object, kept as it is.
    pub capabilities: RawJson,
    /// The least serious log message that the request wants; none without it
    /// (26C-4).
    pub log_level: Option<LogLevel>,
    /// Whether the client declares the tasks extension (26T-1).
    pub tasks: bool,
    /// Whether it declares tasks as 2025-11-25 did, which lets it reach tasks of
    /// that revision and nothing else (26T-2, 26T-6).
    pub session_tasks: bool,
}

impl Envelope {
    /// Decodes the `_meta` of a request; the capabilities share the memory of the
    /// params.
    ///
    /// # Errors
    /// `-32602` that names what is missing or of the wrong type (26R-2), or an
    /// unknown log level (26C-4).
    pub fn decode(params: Option<&RawJson>) -> Result<Self, RpcError> {
        let Some(params) = params else { return Err(missing("params")) };
        let Params { meta } = params.decode().map_err(|error| RpcError::invalid_params(error.to_string()))?;
        let meta = meta.ok_or_else(|| missing("_meta"))?;
        if !meta.get().starts_with('{') {
            return Err(wrong("_meta", "an object"));
        }
        let meta: Meta<'_> = serde_json::from_str(meta.get())
            .map_err(|error| RpcError::invalid_params(format!("`_meta`: {error}")))?;
        let version = meta.version.ok_or_else(|| missing(META_VERSION))?;
        serde_json::from_str::<String>(version.get()).map_err(|_| wrong(META_VERSION, "a string"))?;
        let capabilities = meta.capabilities.ok_or_else(|| missing(META_CAPABILITIES))?;
        if !capabilities.get().starts_with('{') {
            return Err(wrong(META_CAPABILITIES, "an object"));
        }
        let extensions = object(capabilities.get(), "extensions");
        Ok(Self {
            // It steers nothing, so a client that says it badly is served all the same.
            client: meta.client.and_then(client),
            log_level: meta.log_level.map(log_level).transpose()?,
            tasks: extensions.is_some_and(|extensions| object(extensions, TASKS).is_some()),
            session_tasks: object(capabilities.get(), "tasks").is_some(),
            capabilities: RawJson::within(&params.bytes(), capabilities),
        })
    }
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, default, rename = "_meta", deserialize_with = "crate::raw::present")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/protocolVersion",
        deserialize_with = "crate::raw::present"
    )]
    version: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/clientCapabilities",
        deserialize_with = "crate::raw::present"
    )]
    capabilities: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/clientInfo",
        deserialize_with = "crate::raw::present"
    )]
    client: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/logLevel",
        deserialize_with = "crate::raw::present"
    )]
    log_level: Option<&'a RawValue>,
}

fn client(raw: &RawValue) -> Option<Implementation> {
    // From an array the members would be read by their places.
    raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok())?
}

/// The member of this name, if it is an object.
fn object<'a>(of: &'a str, name: &str) -> Option<&'a str> {
    last(of, name).map(RawValue::get).filter(|value| value.starts_with('{'))
}

fn log_level(raw: &RawValue) -> Result<LogLevel, RpcError> {
    let name: String = serde_json::from_str(raw.get()).map_err(|_| wrong(META_LOG_LEVEL, "a string"))?;
    LogLevel::parse(&name).ok_or_else(|| {
        RpcError::invalid_params(format!("`_meta` names an unknown log level: {}", clip(&name, 40)))
    })
}

fn missing(what: &str) -> RpcError {
    let place = if what.contains('/') { " in `_meta`" } else { "" };
    RpcError::invalid_params(format!("`{what}` is required{place}"))
}

fn wrong(what: &str, expected: &str) -> RpcError {
    RpcError::invalid_params(format!("`{what}` must be {expected}"))
}

#[cfg(test)]
mod tests;
