//! The first entry of a journal.

use crate::error::Fault;
use crate::format::FORMAT;
use base16ct::lower::{decode, encode_string};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

/// The conditions under which a run began. They hold until its end, on every host.
///
/// Its JSON may have more members, which later versions add; this version ignores them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Begin {
    /// The format of the journal: [`FORMAT`] when it is written.
    pub format: u32,
    /// The version of the host, for messages.
    pub version: String,
    /// The name of the tool.
    pub tool: String,
    /// The digest of the component, as the catalog writes it.
    pub digest: String,
    /// The seed of all random numbers.
    pub seed: Seed,
    /// The time from which the clock counts its steps, in milliseconds since 1970.
    pub base_time: u64,
    /// The plain variables in the order in which the guest reads them. Secrets are never among them.
    #[serde(default)]
    pub environment: Vec<(String, String)>,
    /// The limits that a guest can notice, by their keys in a manifest, each in its own unit.
    #[serde(default)]
    pub limits: BTreeMap<String, u64>,
    /// The step of the clock in milliseconds.
    pub clock_step: NonZeroU32,
    /// The crc32 of the arguments of the call.
    pub arguments: u32,
    /// The state that an earlier run of the task gave to this one, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The number of HTTP requests in the journals of the task before this one. The number of a request in its
    /// task is unique, that in its journal is not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests_before: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Begin {
    /// Reads the payload of the entry.
    ///
    /// # Errors
    /// If it has another format, or is not such JSON.
    pub(crate) fn from_json(json: &[u8]) -> Result<Self, Fault> {
        /// The member that decides how to read the others.
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let fault = |error: serde_json::Error| Fault::Begin(error.to_string());
        let Format { format } = serde_json::from_slice(json).map_err(fault)?;
        match format {
            FORMAT => serde_json::from_slice(json).map_err(fault),
            other => Err(Fault::UnknownFormat(other)),
        }
    }
}

/// The seed of all random numbers of a run. Its text is 64 hexadecimal digits. `Debug` does not show it, because
/// it reveals the numbers that the guest believes to be secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(…)")
    }
}

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode_string(&self.0))
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut seed = [0; 32];
        match decode(&text, &mut seed) {
            Ok(decoded) if decoded.len() == 32 => Ok(Self(seed)),
            _ => Err(serde::de::Error::custom("the seed has not 64 hexadecimal digits")),
        }
    }
}
