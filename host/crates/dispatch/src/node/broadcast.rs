//! Broadcasts between hosts on one store: notices for clients that listen on another host, changes
//! that guests announce, tasks that equal calls join, and the use of rates and slots by principals.
//!
//! Any message may be lost. Facts that must hold are in the store.

use crate::access::principal::{Principal, Subject};
use crate::access::rate_limit::{Operation, RateKey};
use crate::client::client_channel::Notice;
use crate::node::Node;
use crate::task::rejoin::{JoinKey, RejoinBroadcast};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use toolyard_task::broadcast::MAX_MESSAGE_BYTES;
use toolyard_task::tool::OfferChange;
use toolyard_task::wire::RawJson;
use toolyard_task::{SessionDigest, SessionId, TaskId};

/// A message to the other hosts. Externally tagged, here and below: raw JSON cannot be decoded from any
/// other form.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BroadcastMessage {
    /// A notice for the client of a session, which may listen on another host.
    Notice { session: SessionDigest, task: Option<TaskId>, notice: ForwardedNotice },
    /// A guest says that something has changed.
    Changed { what: ChangedList },
    /// How much of their rate limits these principals have used here since the last message.
    Used { by: Vec<(SharedRateKey, Operation, u32)> },
    /// How many runs these principals have now on the host of this number, by the report of this
    /// number. They have the names of [`crate::slots::admission::shared_name`].
    Running { host: u64, round: u64, of: Vec<(Arc<str>, u32)> },
    /// A call of this key joins this task from now on.
    Kept { task: TaskId, key: JoinKey },
    /// The client knows this task, so no call joins it any more.
    Delivered { task: TaskId },
}

/// A notice, as it is passed on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ForwardedNotice {
    Progress {
        token: RawJson,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    },
    Log {
        level: String,
        logger: Option<String>,
        data: RawJson,
    },
    /// The receiver reads the status of the task in the store.
    Status,
    ElicitationComplete {
        elicitation_id: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChangedList {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

/// The key under which operations are counted together.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SharedRateKey {
    Local,
    Peer(IpAddr),
    Subject(String, String),
}

impl Node {
    /// Passes a notice on to the host where its client listens. Does nothing if there is no other host.
    pub fn pass_on(&self, session: &SessionId, task: Option<TaskId>, notice: &Notice) {
        if !self.is_shared {
            return;
        }
        let notice = match notice {
            Notice::Progress { token, progress } => ForwardedNotice::Progress {
                token: token.clone(),
                progress: progress.progress,
                total: progress.total,
                message: progress.message.clone(),
            },
            Notice::Log { level, logger, data } => ForwardedNotice::Log {
                level: level.as_str().to_owned(),
                logger: logger.clone(),
                data: data.clone(),
            },
            Notice::Status(_) => ForwardedNotice::Status,
            // It is for the host that serves the session.
            Notice::ToolsChanged => return,
            Notice::ElicitationComplete { elicitation_id } => {
                ForwardedNotice::ElicitationComplete { elicitation_id: elicitation_id.clone() }
            }
        };
        self.send(&BroadcastMessage::Notice { session: session.digest(), task, notice });
    }

    /// Tells the other hosts what has changed, according to a guest here.
    pub(crate) fn send_change(&self, change: &OfferChange) {
        if self.is_shared {
            let what = match change {
                OfferChange::Tools => ChangedList::Tools,
                OfferChange::Prompts => ChangedList::Prompts,
                OfferChange::Resources => ChangedList::Resources,
                OfferChange::Resource(uri) => ChangedList::Resource(uri.clone()),
            };
            self.send(&BroadcastMessage::Changed { what });
        }
    }

    /// Tells the other hosts what was used here since the last message, and what runs.
    pub(crate) fn send_use(&self) {
        let used = self.access.used.take().into_iter().filter_map(|((who, operation), count)| {
            let who = match who {
                RateKey::Local => SharedRateKey::Local,
                RateKey::Peer(address) => SharedRateKey::Peer(address),
                RateKey::Subject(principal) => {
                    let subject = principal.subject()?;
                    SharedRateKey::Subject(subject.issuer.clone(), subject.subject.clone())
                }
                // The crowd of each host consists of other callers.
                RateKey::Crowd => return None,
            };
            Some((who, operation, count))
        });
        self.send_all(used.collect(), |by| BroadcastMessage::Used { by });
        if let Some((round, running)) = self.slots.admission.round() {
            let host = self.number;
            // The end of the last run also needs a message.
            if running.is_empty() {
                self.send(&BroadcastMessage::Running { host, round, of: Vec::new() });
            }
            self.send_all(running, |of| BroadcastMessage::Running { host, round, of });
        }
    }

    /// Sends these in as few messages as possible.
    fn send_all<T: Serialize>(&self, all: Vec<T>, message: impl Fn(Vec<T>) -> BroadcastMessage) {
        // An upper bound for the bytes around the entries of a message.
        const MAX_FRAME_BYTES: usize = 200;
        let (mut some, mut length) = (Vec::new(), MAX_FRAME_BYTES);
        for one in all {
            let bytes = serde_json::to_string(&one).map_or(MAX_MESSAGE_BYTES, |text| text.len() + 1);
            if length + bytes > MAX_MESSAGE_BYTES && !some.is_empty() {
                self.send(&message(std::mem::take(&mut some)));
                length = MAX_FRAME_BYTES;
            }
            length += bytes;
            some.push(one);
        }
        if !some.is_empty() {
            self.send(&message(some));
        }
    }

    fn send(&self, message: &BroadcastMessage) {
        match serde_json::to_string(message) {
            Ok(message) => self.broadcast.send(message),
            Err(error) => {
                tracing::error!(
                    event = "cluster.broadcast_not_encoded",
                    error = &error as &dyn std::error::Error,
                    "cannot encode broadcast"
                )
            }
        }
    }
}

impl RejoinBroadcast for Node {
    fn send_kept(&self, task: TaskId, key: JoinKey) {
        if self.is_shared {
            self.send(&BroadcastMessage::Kept { task, key });
        }
    }

    fn send_delivered(&self, task: TaskId) {
        if self.is_shared {
            self.send(&BroadcastMessage::Delivered { task });
        }
    }
}

impl From<SharedRateKey> for RateKey {
    fn from(who: SharedRateKey) -> Self {
        match who {
            SharedRateKey::Local => Self::Local,
            SharedRateKey::Peer(address) => Self::Peer(address),
            SharedRateKey::Subject(issuer, subject) => {
                Self::Subject(Arc::new(Principal::Subject(Subject::named(issuer, subject))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every message is received as it was sent.
    #[test]
    fn words_are_read_as_they_were_written() {
        let token = RawJson::trusted("\"a \\u0041\"");
        let data = RawJson::trusted(r#"{ "n" : 1.50 }"#);
        let session = SessionId("s".into()).digest();
        let notice = |notice| BroadcastMessage::Notice { session: session.clone(), task: None, notice };
        let task = TaskId(uuid::Uuid::nil());
        let key = serde_json::from_str(&format!("{:?}", [7; 32])).expect("a key");
        let used = vec![
            (SharedRateKey::Peer([127, 0, 0, 1].into()), Operation::Call, 3),
            (SharedRateKey::Subject("i".into(), "s".into()), Operation::FailedLookup, 1),
        ];
        let message = Some("half".into());
        for message in [
            notice(ForwardedNotice::Progress { token, progress: 0.5, total: None, message }),
            notice(ForwardedNotice::Log { level: "error".into(), logger: None, data }),
            notice(ForwardedNotice::Status),
            notice(ForwardedNotice::ElicitationComplete { elicitation_id: "e".into() }),
            BroadcastMessage::Used { by: used },
            BroadcastMessage::Running { host: 1, round: 2, of: vec![("k".into(), 3)] },
            BroadcastMessage::Changed { what: ChangedList::Tools },
            BroadcastMessage::Kept { task, key },
            BroadcastMessage::Delivered { task },
        ] {
            let text = serde_json::to_string(&message).expect("JSON");
            let read: BroadcastMessage =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(format!("{read:?}"), format!("{message:?}"));
        }
    }
}
