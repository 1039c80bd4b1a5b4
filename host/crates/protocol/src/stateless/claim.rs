//! The version that a message claims in its `_meta`, and the reading of params with such a claim (26R, 26B).

use super::META_VERSION;
use super::envelope::Envelope;
use super::input::Retry;
use super::plain::Plain;
use crate::error::RpcError;
use crate::members::each;
use crate::method::Method;
use crate::raw::RawJson;
use crate::tools::CallParams;

/// Whether a message claims a version, which makes it one of this generation
/// whatever the version is (the table of 26B).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionClaim {
    /// The message claims no version.
    None,
    /// The message claims this version.
    Version(String),
    /// The key is present, but its value is not a string, or it occurs twice.
    Malformed,
}

/// The version that params claim, and the rest of them if they are written plainly.
#[derive(Debug, Clone)]
pub struct ClaimedParams {
    /// The claim.
    pub claim: VersionClaim,
    read: Option<Box<Plain>>,
}

impl ClaimedParams {
    /// No claim.
    pub const NONE: Self = Self { claim: VersionClaim::None, read: None };

    /// The claim in the params of a request of this method. Params without a claim, which belong to the
    /// other generation, are only searched for the key and not decoded.
    #[must_use]
    pub fn by(method: &Method, params: Option<&RawJson>) -> Self {
        match params {
            Some(params) if may_name_version(params.as_bytes()) => match Plain::read(method, params) {
                Some((version, plain)) => {
                    Self { claim: VersionClaim::Version(version), read: Some(Box::new(plain)) }
                }
                None => Self { claim: claimed(params), read: None },
            },
            _ => Self::NONE,
        }
    }

    /// Whether there is a whole envelope.
    #[must_use]
    pub fn is_whole(&self, params: Option<&RawJson>) -> bool {
        self.read.is_some() || Envelope::decode(params).is_ok()
    }

    /// The envelope in the params with this claim, and for `tools/call` the rest if it was read with
    /// it. If not, [`call_params`](super::input::call_params) reads it, or reports its fault.
    ///
    /// # Errors
    /// As those of [`Envelope::decode`].
    pub fn open(self, params: Option<&RawJson>) -> Result<(Envelope, Option<(CallParams, Retry)>), RpcError> {
        match self.read {
            Some(plain) => Ok((plain.envelope, plain.call)),
            None => Ok((Envelope::decode(params)?, None)),
        }
    }
}

/// The claim alone.
#[must_use]
pub fn claim(params: Option<&RawJson>) -> VersionClaim {
    match params {
        Some(params) if may_name_version(params.as_bytes()) => claimed(params),
        _ => VersionClaim::None,
    }
}

/// Whether the key can be anywhere in this text: as it is, or spelled with the only escapes that its
/// characters have, `\u` and `\/`. Looks only at the two bytes that are rare elsewhere.
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

fn claimed(params: &RawJson) -> VersionClaim {
    let mut claim = VersionClaim::None;
    // A later reader refuses text that is broken further on; the claim before that decides which rules
    // apply.
    drop(each(params.as_str(), |member| {
        let Some(meta) = member.object().filter(|_| member.is("_meta")) else { return };
        drop(each(meta, |member| {
            if member.is(META_VERSION) {
                claim = match (&claim, serde_json::from_str::<String>(member.value.get())) {
                    (VersionClaim::None, Ok(version)) => VersionClaim::Version(version),
                    _ => VersionClaim::Malformed,
                };
            }
        }));
    }));
    claim
}

#[cfg(test)]
mod tests;
