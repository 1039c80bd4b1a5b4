//! Params as nearly every client writes them, read in one go: the version that they claim, the
//! envelope, and the parts of a `tools/call`.
//!
//! Not here: any rule of its own. This reader rejects params that have a name twice, an escape in a
//! compared value, or anything missing or of the wrong type. The readers of one part each handle
//! those, and report the fault.

use super::envelope::{Envelope, RawMeta};
use super::input::Retry;
use crate::method::Method;
use crate::progress::Meta;
use crate::raw::RawJson;
use crate::tools::CallParams;
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::value::RawValue;

/// The members besides the version.
#[derive(Debug, Clone)]
pub(super) struct Plain {
    pub envelope: Envelope,
    /// Of `tools/call`.
    pub call: Option<(CallParams, Retry)>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, rename = "_meta", deserialize_with = "object")]
    meta: WireMeta<'a>,
    #[serde(borrow)]
    name: Option<&'a str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "crate::raw::present")]
    task: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "inputResponses", deserialize_with = "crate::raw::present")]
    responses: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "requestState", deserialize_with = "crate::raw::present")]
    state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireMeta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: &'a str,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: &'a RawValue,
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
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow)]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow)]
    tracestate: Option<&'a RawValue>,
}

impl Plain {
    /// The version that the params of a request of this method claim, and their other content, if they
    /// are written plainly.
    pub fn read(method: &Method, params: &RawJson) -> Option<(String, Self)> {
        if !params.is_object() {
            return None;
        }
        let Wire { meta, name, arguments, task, responses, state } = params.decode().ok()?;
        let WireMeta { version, capabilities, client, log_level, progress_token, traceparent, tracestate } =
            meta;
        let owner = params.bytes();
        let within = |value: &RawValue| RawJson::kept(&owner, value);
        let envelope = Envelope::of(RawMeta {
            capabilities: within(capabilities),
            client: client.map(within),
            log_level: log_level.map(within),
        });
        let call = match method {
            Method::ToolsCall => {
                let meta = Meta { progress_token, traceparent, tracestate };
                let call = CallParams::of(params, name?.to_owned(), arguments, task, Some(meta)).ok()?;
                Some((call, Retry::of(params, responses, state).ok()?))
            }
            _ => None,
        };
        Some((version.to_owned(), Self { envelope: envelope.ok()?, call }))
    }
}

/// Only from an object: a struct that serde derives is also read from an array, by the positions of its
/// members.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(Object(deserializer))
}

struct Object<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Object<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
