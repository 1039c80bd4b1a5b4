//! Names of things: tasks, sessions, owners, hosts, components.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// The id of a task: a UUID of version 4, so 122 random bits (T-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub Uuid);

impl TaskId {
    /// The id that `text` spells exactly as this type displays it; any other spelling is unknown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(Uuid::try_parse(text).ok()?);
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The id of a session: 32 hexadecimal digits, 122 random bits (H-22).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub Arc<str>);

impl SessionId {
    /// The session id made of a random UUID.
    #[must_use]
    pub fn of(random: Uuid) -> Self {
        Self(random.simple().to_string().into())
    }

    /// The id, as sent in the header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of this session among hosts.
    #[must_use]
    pub fn digest(&self) -> SessionDigest {
        let digest =
            Sha256::new().chain_update(b"toolyard session\0").chain_update(self.0.as_bytes()).finalize();
        SessionDigest(digest[..16].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Names a session to other hosts without giving access to it: 128 bits of a SHA-256 of its id, in
/// hexadecimal digits. The id itself is the only credential of an anonymous client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionDigest(String);

impl fmt::Display for SessionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The owner of a task (T-40).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The user of this machine, over stdio or the command line.
    Local,
    /// An anonymous HTTP client: its session.
    Session(SessionId),
    /// An anonymous client of a stateless revision: everyone who knows the id of the task (26T-25).
    Anyone,
    /// A subject that an issuer vouches for.
    Subject {
        /// The issuer.
        issuer: String,
        /// The subject.
        subject: String,
    },
}

impl Owner {
    /// The text that stores index by. Different owners have different keys.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Local => "local".to_owned(),
            Self::Session(id) => format!("session:{id}"),
            Self::Anyone => "anyone".to_owned(),
            Self::Subject { issuer, subject } => format!("subject:{}:{issuer}{subject}", issuer.len()),
        }
    }
}

/// A run of a host process; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// No host: the holder of a task that is parked. No store registers this number.
    pub const NOBODY: Self = Self(0);
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The SHA-256 of a component's bytes, in 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub String);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_id_has_one_spelling() {
        let id = "786512e2-9e0d-44bd-8f29-789f320fe840";
        assert_eq!(TaskId::parse(id).expect("valid").to_string(), id);
        for other in ["", "x", "786512E2-9E0D-44BD-8F29-789F320FE840", "786512e29e0d44bd8f29789f320fe840"] {
            assert_eq!(TaskId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_session_digest_tells_nothing_of_the_id() {
        let [one, other] = ["a", "b"].map(|id| SessionId(id.into()));
        assert_eq!(one.digest(), one.digest());
        assert_ne!(one.digest(), other.digest());
        assert_eq!(one.digest().to_string().len(), 32);
        assert_ne!(SessionId(one.digest().to_string().into()).digest(), one.digest());
    }

    #[test]
    fn different_owners_have_different_keys() {
        let subject =
            |issuer: &str, subject: &str| Owner::Subject { issuer: issuer.into(), subject: subject.into() };
        assert_ne!(subject("a", "bc").key(), subject("ab", "c").key());
        assert_ne!(Owner::Local.key(), Owner::Session(SessionId("local".into())).key());
    }
}
