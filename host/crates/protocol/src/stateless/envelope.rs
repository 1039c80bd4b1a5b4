//! The `_meta` of a request: which version it claims, and what the client says of
//! itself for this request alone (26R, 26B).

use super::members::{Member, each, last};
use super::{META_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL, META_VERSION, TASKS};
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

/// What params claim, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The claim.
    pub claim: Claim,
    /// What the `_meta` that it is in says, if that is an object, the only one, and all
    /// is plain enough that reading it again would find nothing else.
    meta: Option<Said>,
}

impl Claimed {
    /// No claim.
    pub const NONE: Self = Self { claim: Claim::None, meta: None };

    /// What these params claim. Params that cannot claim anything, which are those of
    /// the other generation, are searched for the key and not read.
    #[must_use]
    pub fn by(params: Option<&RawJson>) -> Self {
        match params {
            Some(params) if may_name_version(params.as_bytes()) => claimed(params),
            _ => Self::NONE,
        }
    }
}

/// The claim alone.
#[must_use]
pub fn claim(params: Option<&RawJson>) -> Claim {
    Claimed::by(params).claim
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

/// What a `_meta` says of its request, unread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Said {
    version: Option<RawJson>,
    capabilities: Option<RawJson>,
    client: Option<RawJson>,
    log_level: Option<RawJson>,
}

impl Said {
    /// Where the value of this name belongs.
    fn place(&mut self, member: &Member<'_>) -> Option<&mut Option<RawJson>> {
        [
            (META_VERSION, &mut self.version),
            (META_CAPABILITIES, &mut self.capabilities),
            (META_CLIENT_INFO, &mut self.client),
            (META_LOG_LEVEL, &mut self.log_level),
        ]
        .into_iter()
        .find_map(|(name, place)| member.is(name).then_some(place))
    }
}

fn claimed(params: &RawJson) -> Claimed {
    let owner = params.bytes();
    let mut claim = Claim::None;
    let mut said = Said::default();
    let (mut plain, mut metas) = (true, 0_usize);
    // What cannot be read to its end is refused by whoever reads it; what it claimed
    // before decides by which rules.
    let read = each(params.as_str(), |member| {
        plain &= !member.is_escaped();
        if !member.is("_meta") {
            return;
        }
        metas += 1;
        let Some(object) = member.object() else {
            plain = false;
            return;
        };
        let read = each(object, |member| {
            plain &= !member.is_escaped();
            if member.is(META_VERSION) {
                claim = match (&claim, serde_json::from_str::<String>(member.value.get())) {
                    (Claim::None, Ok(version)) => Claim::Version(version),
                    _ => Claim::Malformed,
                };
            }
            if let Some(place) = said.place(&member) {
                plain &= place.replace(RawJson::within(&owner, member.value)).is_none();
            }
        });
        plain &= read.is_ok();
    });
    let meta = (plain && metas == 1 && read.is_ok()).then_some(said);
    Claimed { claim, meta }
}

/// What a request says of its client. It holds for this request only (26R-6).
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Name and version, for logs and displays only (26R-5), unread.
    client: Option<RawJson>,
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
        let owner = params.bytes();
        let Meta { version, capabilities, client, log_level } = serde_json::from_str(meta.get())
            .map_err(|error| RpcError::invalid_params(format!("`_meta`: {error}")))?;
        let within = |value: Option<&RawValue>| value.map(|value| RawJson::within(&owner, value));
        Self::of(&Said {
            version: within(version),
            capabilities: within(capabilities),
            client: within(client),
            log_level: within(log_level),
        })
    }

    /// The same for params whose claim was looked for already.
    ///
    /// # Errors
    /// As those of [`Envelope::decode`].
    pub fn open(params: Option<&RawJson>, claimed: &Claimed) -> Result<Self, RpcError> {
        match &claimed.meta {
            Some(said) => Self::of(said),
            None => Self::decode(params),
        }
    }

    fn of(said: &Said) -> Result<Self, RpcError> {
        let version = said.version.as_ref().ok_or_else(|| missing(META_VERSION))?;
        // Unless it has escapes, a text that was read once can be read again.
        if !is_plain(version.as_str()) && version.decode::<String>().is_err() {
            return Err(wrong(META_VERSION, "a string"));
        }
        let capabilities = said.capabilities.as_ref().ok_or_else(|| missing(META_CAPABILITIES))?;
        if !capabilities.is_object() {
            return Err(wrong(META_CAPABILITIES, "an object"));
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
            client: said.client.clone(),
            log_level: said.log_level.as_ref().map(log_level).transpose()?,
            tasks: extensions.is_some_and(|extensions| object(extensions, TASKS).is_some()),
            session_tasks: tasks.is_some(),
            capabilities: capabilities.clone(),
        })
    }

    /// What the client calls itself, for logs and displays only (26R-5). It steers
    /// nothing, so a client that says it badly is served all the same.
    #[must_use]
    pub fn client(&self) -> Option<Implementation> {
        // From an array the members would be read by their places.
        self.client.as_ref().filter(|client| client.is_object())?.decode().ok()
    }
}

/// Whether JSON text is a string without escapes.
fn is_plain(text: &str) -> bool {
    text.starts_with('"') && !text.contains('\\')
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

fn log_level(raw: &RawJson) -> Result<LogLevel, RpcError> {
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

#[cfg(test)]
mod tests;
