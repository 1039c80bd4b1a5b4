//! What hosts that share a store tell each other in passing: notices for clients that listen
//! on another host, what guests say has changed, and how much of their rates and of their
//! runs principals have used.
//!
//! All of it may be lost. What must be true stands in the store.

use crate::Subject;
use crate::access::principal::Principal;
use crate::access::rate_limit::{Operation, RateKey};
use crate::client::client_channel::Notice;
use crate::node::Node;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use toolyard_task::gossip::LONGEST;
use toolyard_task::tool::Change;
use toolyard_task::wire::RawJson;
use toolyard_task::{SessionDigest, SessionId, TaskId};

/// A word to the other hosts. Tagged from outside, here and below: JSON as it came cannot be
/// read out of anything else.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// A notice for the client of a session, which listens on another host, perhaps.
    Notice { session: SessionDigest, task: Option<TaskId>, notice: Passed },
    /// A guest says that something has changed.
    Changed { what: Said },
    /// So much of their rates these have used here since the last word.
    Used { by: Vec<(Who, Operation, u32)> },
    /// So many runs these have now on the host of this number; in this round of words. They
    /// go by the names of [`crate::slots::admission::told_as`].
    Running { host: u64, round: u64, of: Vec<(Arc<str>, u32)> },
}

/// A notice, as it is passed on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Passed {
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
    /// How its task stands, whoever gets it reads.
    Status,
    ElicitationComplete {
        elicitation_id: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

/// Whose operations are counted together.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Who {
    Local,
    Peer(IpAddr),
    Subject(String, String),
}

impl Node {
    /// Passes a notice on to the host where its client listens. Says nothing where there is
    /// no other host.
    pub fn pass_on(&self, session: &SessionId, task: Option<TaskId>, notice: &Notice) {
        if !self.is_shared {
            return;
        }
        let notice = match notice {
            Notice::Progress { token, progress } => Passed::Progress {
                token: token.clone(),
                progress: progress.progress,
                total: progress.total,
                message: progress.message.clone(),
            },
            Notice::Log { level, logger, data } => {
                Passed::Log { level: level.as_str().to_owned(), logger: logger.clone(), data: data.clone() }
            }
            Notice::Status(_) => Passed::Status,
            Notice::ElicitationComplete { elicitation_id } => {
                Passed::ElicitationComplete { elicitation_id: elicitation_id.clone() }
            }
        };
        self.tell(&Word::Notice { session: session.digest(), task, notice });
    }

    /// Tells the others what a guest here says has changed.
    pub(crate) fn tell_change(&self, change: &Change) {
        if self.is_shared {
            let what = match change {
                Change::Tools => Said::Tools,
                Change::Prompts => Said::Prompts,
                Change::Resources => Said::Resources,
                Change::Resource(uri) => Said::Resource(uri.clone()),
            };
            self.tell(&Word::Changed { what });
        }
    }

    /// Tells the others what was used here since the last time, and what runs.
    pub(crate) fn tell_use(&self) {
        let used = self.access.used.take().into_iter().filter_map(|((who, operation), count)| {
            let who = match who {
                RateKey::Local => Who::Local,
                RateKey::Peer(address) => Who::Peer(address),
                RateKey::Subject(principal) => match &*principal {
                    Principal::Subject(subject) => {
                        Who::Subject(subject.issuer.clone(), subject.subject.clone())
                    }
                    Principal::Local | Principal::Anonymous | Principal::Operator => return None,
                },
                // The crowd of another host is another one.
                RateKey::Crowd => return None,
            };
            Some((who, operation, count))
        });
        self.tell_all(used.collect(), |by| Word::Used { by });
        if let Some((round, running)) = self.slots.admission.round() {
            let host = self.number;
            // Nobody runs anything any more: that is told as well.
            if running.is_empty() {
                self.tell(&Word::Running { host, round, of: Vec::new() });
            }
            self.tell_all(running, |of| Word::Running { host, round, of });
        }
    }

    /// Tells these in as few words as may be.
    fn tell_all<T: Serialize>(&self, all: Vec<T>, word: impl Fn(Vec<T>) -> Word) {
        // What stands around them, with room to spare.
        const AROUND: usize = 200;
        let (mut some, mut length) = (Vec::new(), AROUND);
        for one in all {
            let bytes = serde_json::to_string(&one).map_or(LONGEST, |text| text.len() + 1);
            if length + bytes > LONGEST && !some.is_empty() {
                self.tell(&word(std::mem::take(&mut some)));
                length = AROUND;
            }
            length += bytes;
            some.push(one);
        }
        if !some.is_empty() {
            self.tell(&word(some));
        }
    }

    fn tell(&self, word: &Word) {
        match serde_json::to_string(word) {
            Ok(word) => self.gossip.tell(word),
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a word is no JSON"),
        }
    }
}

impl From<Who> for RateKey {
    fn from(who: Who) -> Self {
        match who {
            Who::Local => Self::Local,
            Who::Peer(address) => Self::Peer(address),
            Who::Subject(issuer, subject) => {
                Self::Subject(Arc::new(Principal::Subject(Subject::named(issuer, subject))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is told is heard as it was told.
    #[test]
    fn words_are_read_as_they_were_written() {
        let token = RawJson::trusted("\"a \\u0041\"");
        let data = RawJson::trusted(r#"{ "n" : 1.50 }"#);
        let notices = [
            Passed::Progress { token, progress: 0.5, total: None, message: Some("half".into()) },
            Passed::Log { level: "error".into(), logger: None, data },
            Passed::Status,
            Passed::ElicitationComplete { elicitation_id: "e".into() },
        ];
        let session = SessionId("s".into()).digest();
        let passed = notices.map(|notice| Word::Notice { session: session.clone(), task: None, notice });
        let used = Word::Used {
            by: vec![
                (Who::Peer([127, 0, 0, 1].into()), Operation::Call, 3),
                (Who::Subject("i".into(), "s".into()), Operation::FailedLookup, 1),
            ],
        };
        let running = Word::Running { host: 1, round: 2, of: vec![("k".into(), 3)] };
        for word in passed.into_iter().chain([used, running, Word::Changed { what: Said::Tools }]) {
            let text = serde_json::to_string(&word).expect("JSON");
            let read: Word = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(format!("{read:?}"), format!("{word:?}"));
        }
    }
}
