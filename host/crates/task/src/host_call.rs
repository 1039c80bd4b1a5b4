//! The work of a host for the guest of one run, outside the sandbox: requests, connections and waits.
//!
//! A host call has neither paths, queries nor bodies. Names that a guest chose are redacted before they come
//! here.

use serde::{Serialize, Serializer};
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
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
        #[serde(rename = "allowed")]
        is_allowed: bool,
    },
    /// The guest waited for a time to pass.
    Sleep,
    /// The guest waited for answers of the client.
    Question {
        /// The number of questions.
        #[serde(rename = "questions")]
        count: usize,
        /// Whether answers came.
        #[serde(rename = "answered")]
        is_answered: bool,
    },
    /// The guest waited for a person to permit something.
    Permission {
        /// Whether it was permitted.
        #[serde(rename = "given")]
        is_given: bool,
    },
}

/// An outgoing HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The name of the error that ended it. A response may have begun before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// Bytes of the request's body that were sent.
    pub sent: u64,
    /// Bytes of the response's body that the guest read.
    pub received: u64,
    /// The time to the head of the response.
    #[serde(
        rename = "first_byte_ms",
        serialize_with = "serialize_milliseconds",
        skip_serializing_if = "Option::is_none"
    )]
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

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn serialize_milliseconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(milliseconds).serialize(serializer)
}

impl Serialize for HostCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Members<'a> {
            kind: &'static str,
            took_ms: f64,
            #[serde(flatten)]
            details: &'a HostAction,
        }
        let (kind, took_ms) = (self.what.kind(), milliseconds(self.took));
        Members { kind, took_ms, details: &self.what }.serialize(serializer)
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

    /// The timelines of stores have host calls in this form.
    #[test]
    fn a_host_call_is_written_as_one_object() {
        let written = |what| {
            let call = HostCall { took: Duration::from_nanos(3_500_400), what };
            RawJson::of(&call).as_str().to_owned()
        };
        let request = HttpRequest {
            method: "GET".to_owned(),
            scheme: "http",
            host: "a.example".to_owned(),
            port: 80,
            status: Some(200),
            error: None,
            sent: 0,
            received: 7,
            first_byte: Some(Duration::from_micros(1_250)),
        };
        let failed = HttpRequest { status: None, error: Some("dns"), first_byte: None, ..request.clone() };
        let peer = "192.0.2.7:9".to_owned();
        for (what, expected) in [
            (
                HostAction::Http(request),
                r#""kind":"http","took_ms":3.5,"method":"GET","scheme":"http","host":"a.example","port":80,"status":200,"sent":0,"received":7,"first_byte_ms":1.25"#,
            ),
            (
                HostAction::Http(failed),
                r#""kind":"http","took_ms":3.5,"method":"GET","scheme":"http","host":"a.example","port":80,"error":"dns","sent":0,"received":7"#,
            ),
            (
                HostAction::Socket { protocol: "udp", peer, is_allowed: false },
                r#""kind":"socket","took_ms":3.5,"protocol":"udp","peer":"192.0.2.7:9","allowed":false"#,
            ),
            (HostAction::Sleep, r#""kind":"sleep","took_ms":3.5"#),
            (
                HostAction::Question { count: 2, is_answered: true },
                r#""kind":"question","took_ms":3.5,"questions":2,"answered":true"#,
            ),
            (HostAction::Permission { is_given: true }, r#""kind":"permission","took_ms":3.5,"given":true"#),
        ] {
            assert_eq!(written(what), format!("{{{expected}}}"));
        }
    }
}
