//! The work of a host for the guest of one run, outside the sandbox: requests, connections and waits.
//!
//! A host call has neither paths, queries nor bodies. Names that a guest chose are redacted before they come
//! here.

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use std::time::Duration;

/// The most host calls of a run that are kept. Further ones are counted by kind.
pub const MAX_HOST_CALLS: usize = 200;
/// A shorter wait is no host call.
pub const MIN_WAIT: Duration = Duration::from_millis(1);

/// Something that a host did for a guest. It is reported at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCall {
    /// How long it took.
    pub took: Duration,
    /// The details.
    pub what: HostAction,
}

/// The details of a host call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostAction {
    /// An outgoing HTTP request.
    Http(HttpRequest),
    /// A raw socket that the guest connects, or whose first datagram it sends.
    Socket {
        /// `tcp` or `udp`.
        protocol: &'static str,
        /// The address.
        peer: String,
        /// Whether the manifest allows the peer. Whether it answers is not known here.
        is_allowed: bool,
    },
    /// The guest waited for a time to pass.
    Sleep,
    /// The guest waited for answers of the client.
    Question {
        /// The number of questions.
        count: usize,
        /// Whether answers came.
        is_answered: bool,
    },
    /// The guest waited for a person to permit something.
    Permission {
        /// Whether it was permitted.
        is_given: bool,
    },
}

/// An outgoing HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The host, without the port.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The status of the response, if one came.
    pub status: Option<u16>,
    /// The name of the error that ended it. A response may have begun before.
    pub error: Option<&'static str>,
    /// Bytes of the request's body that were sent.
    pub sent: u64,
    /// Bytes of the response's body that the guest read.
    pub received: u64,
    /// The time to the head of the response.
    pub first_byte: Option<Duration>,
}

/// The names of the kinds of host calls, in the order of [`HostCallCounts`].
pub const HOST_CALL_KINDS: [&str; 5] = ["http", "socket", "sleep", "question", "permission"];

/// Host calls by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCallCounts(pub [u64; HOST_CALL_KINDS.len()]);

impl HostAction {
    const fn index(&self) -> usize {
        match self {
            Self::Http(_) => 0,
            Self::Socket { .. } => 1,
            Self::Sleep => 2,
            Self::Question { .. } => 3,
            Self::Permission { .. } => 4,
        }
    }

    /// The name of its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        HOST_CALL_KINDS[self.index()]
    }
}

impl HostCallCounts {
    /// Counts one more.
    pub const fn count(&mut self, what: &HostAction) {
        let count = &mut self.0[what.index()];
        *count = count.saturating_add(1);
    }

    /// The kinds that occurred, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        HOST_CALL_KINDS.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }
}

fn milliseconds(time: Duration) -> f64 {
    // Microseconds are enough to read, and keep the numbers short.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl Serialize for HostCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.what.kind())?;
        map.serialize_entry("took_ms", &milliseconds(self.took))?;
        match &self.what {
            HostAction::Http(request) => {
                map.serialize_entry("method", &request.method)?;
                map.serialize_entry("scheme", request.scheme)?;
                map.serialize_entry("host", &request.host)?;
                map.serialize_entry("port", &request.port)?;
                if let Some(status) = request.status {
                    map.serialize_entry("status", &status)?;
                }
                if let Some(error) = request.error {
                    map.serialize_entry("error", error)?;
                }
                map.serialize_entry("sent", &request.sent)?;
                map.serialize_entry("received", &request.received)?;
                if let Some(time) = request.first_byte {
                    map.serialize_entry("first_byte_ms", &milliseconds(time))?;
                }
            }
            HostAction::Socket { protocol, peer, is_allowed } => {
                map.serialize_entry("protocol", protocol)?;
                map.serialize_entry("peer", peer)?;
                map.serialize_entry("allowed", is_allowed)?;
            }
            HostAction::Sleep => {}
            HostAction::Question { count, is_answered } => {
                map.serialize_entry("questions", count)?;
                map.serialize_entry("answered", is_answered)?;
            }
            HostAction::Permission { is_given } => map.serialize_entry("given", is_given)?,
        }
        map.end()
    }
}

impl Serialize for HostCallCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RawJson;

    #[test]
    fn a_host_call_is_one_flat_object() {
        let request = HttpRequest {
            method: "GET".to_owned(),
            scheme: "https",
            host: "api.example".to_owned(),
            port: 443,
            status: Some(200),
            received: 7,
            first_byte: Some(Duration::from_micros(1_500)),
            ..HttpRequest::default()
        };
        let call = HostCall { took: Duration::from_millis(3), what: HostAction::Http(request) };
        assert_eq!(
            RawJson::of(&call).as_str(),
            r#"{"kind":"http","took_ms":3.0,"method":"GET","scheme":"https","host":"api.example","port":443,"status":200,"sent":0,"received":7,"first_byte_ms":1.5}"#
        );
        let mut further = HostCallCounts::default();
        assert!(further.is_empty());
        further.count(&call.what);
        further.count(&HostAction::Sleep);
        assert_eq!(RawJson::of(&further).as_str(), r#"{"http":1,"sleep":1}"#);
    }
}
