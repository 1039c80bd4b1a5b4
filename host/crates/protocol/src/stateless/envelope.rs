//! The `_meta` of a request: the client's description of itself for this request alone (26R).

use super::{META_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL, META_VERSION, TASKS};
use crate::error::RpcError;
use crate::initialize::{Implementation, MAX_CLIENT_BYTES, too_long};
use crate::logging::LogLevel;
use crate::members::{each, last};
use crate::raw::RawJson;
use crate::visible::clip;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The members of a `_meta` besides the version, unread.
pub(super) struct RawMeta {
    pub capabilities: RawJson,
    pub client: Option<RawJson>,
    pub log_level: Option<RawJson>,
}

/// The `_meta` of a request about its client. It holds for this request only (26R-6).
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Name and version, for logs and displays only (26R-5), unread.
    client: Option<RawJson>,
    /// The capabilities of the client: an object, kept as it is.
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
        let owner = params.bytes();
        let Meta { version, capabilities, client, log_level } = serde_json::from_str(meta.get())
            .map_err(|error| RpcError::invalid_params(format!("`_meta`: {error}")))?;
        let version = version.ok_or_else(|| missing(META_VERSION))?;
        if serde_json::from_str::<String>(version.get()).is_err() {
            return Err(wrong(META_VERSION, "a string"));
        }
        let within = |value| RawJson::kept(&owner, value);
        Self::of(RawMeta {
            capabilities: within(capabilities.ok_or_else(|| missing(META_CAPABILITIES))?),
            client: client.map(within),
            log_level: log_level.map(within),
        })
    }

    pub(super) fn of(said: RawMeta) -> Result<Self, RpcError> {
        let RawMeta { capabilities, client, log_level } = said;
        if !capabilities.is_object() {
            return Err(wrong(META_CAPABILITIES, "an object"));
        }
        if capabilities.as_bytes().len() > MAX_CLIENT_BYTES {
            return Err(too_long(META_CAPABILITIES));
        }
        if client.as_ref().is_some_and(|client| client.as_bytes().len() > MAX_CLIENT_BYTES) {
            return Err(too_long(META_CLIENT_INFO));
        }
        let (mut extensions, mut tasks) = (None, None);
        let read = each(capabilities.as_str(), |member| {
            if member.is("extensions") {
                extensions = member.object();
            } else if member.is("tasks") {
                tasks = member.object();
            }
        });
        if read.is_err() {
            (extensions, tasks) = (None, None);
        }
        Ok(Self {
            log_level: log_level.as_ref().map(level_of).transpose()?,
            tasks: extensions.is_some_and(|extensions| object(extensions, TASKS).is_some()),
            session_tasks: tasks.is_some(),
            client,
            capabilities,
        })
    }

    /// The name and version of the client, for logs and displays only (26R-5). They steer nothing,
    /// so a client with malformed ones is served all the same.
    #[must_use]
    pub fn client(&self) -> Option<Implementation> {
        // From an array, the members would be read by position.
        self.client.as_ref().filter(|client| client.is_object())?.decode().ok()
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

/// The member of this name, if it is an object.
fn object<'a>(of: &'a str, name: &str) -> Option<&'a str> {
    last(of, name).map(RawValue::get).filter(|value| value.starts_with('{'))
}

fn level_of(raw: &RawJson) -> Result<LogLevel, RpcError> {
    let name: String = raw.decode().map_err(|_| wrong(META_LOG_LEVEL, "a string"))?;
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
