//! The port for the erasure of all that a store holds of one principal.
//!
//! The audit log is not part of it: it keeps who did what, without contents.

use crate::audit::{Action, By, Entry, LOCAL, TOKENS, name_of, subject_name};
use crate::error::StoreError;
use crate::id::Owner;
use async_trait::async_trait;
use serde::Serialize;
use std::fmt;

/// All anonymous clients, as the audit log names them.
const ANONYMOUS: &str = "anonymous";

/// A principal that owns data: one owner, or all anonymous clients together, which the audit log
/// gives the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataOwner {
    /// The user of this machine.
    Local,
    /// All anonymous clients.
    Anonymous,
    /// A subject that an issuer vouches for.
    Subject {
        /// The issuer.
        issuer: String,
        /// The subject.
        subject: String,
    },
}

impl DataOwner {
    /// The principal that the audit log writes so: `local`, `anonymous`, `token:NAME` or
    /// `ISSUER#SUBJECT`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let subject = |issuer: &str, subject: &str| {
            (!subject.is_empty())
                .then(|| Self::Subject { issuer: issuer.to_owned(), subject: subject.to_owned() })
        };
        match name {
            LOCAL => Some(Self::Local),
            ANONYMOUS => Some(Self::Anonymous),
            _ => match name.strip_prefix(TOKENS).and_then(|rest| rest.strip_prefix(':')) {
                Some(token) => subject(TOKENS, token),
                // The URL of an issuer has no fragment, so the first `#` ends it.
                None => match name.split_once('#') {
                    Some((issuer, of)) if !issuer.is_empty() && issuer != TOKENS => subject(issuer, of),
                    _ => None,
                },
            },
        }
    }

    /// Whether data of this owner belongs to the principal.
    #[must_use]
    pub fn has(&self, owner: &Owner) -> bool {
        matches!((self, owner), (Self::Anonymous, Owner::Session(_))) || self.owner() == *owner
    }

    /// The owner of this name. For anonymous clients, the one without a session.
    fn owner(&self) -> Owner {
        match self.clone() {
            Self::Local => Owner::Local,
            Self::Anonymous => Owner::Anyone,
            Self::Subject { issuer, subject } => Owner::Subject { issuer, subject },
        }
    }

    /// The keys of its owners ([`Owner::key`]): the first of these, and those from the second to before the third,
    /// which are none if it is empty.
    #[must_use]
    pub fn keys(&self) -> [String; 3] {
        let (from, until) = match self {
            // A semicolon follows the colon, so the range holds the keys of all sessions.
            Self::Anonymous => ("session:", "session;"),
            Self::Local | Self::Subject { .. } => ("", ""),
        };
        [self.owner().key(), from.to_owned(), until.to_owned()]
    }

    /// The name in records of runs and in audit entries, which shorten long names.
    #[must_use]
    pub fn short_name(&self) -> String {
        name_of(&self.owner())
    }
}

impl fmt::Display for DataOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str(LOCAL),
            Self::Anonymous => f.write_str(ANONYMOUS),
            Self::Subject { issuer, subject } => f.write_str(&subject_name(issuer, subject)),
        }
    }
}

/// How many rows of each kind a store holds of a principal, or has erased.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holdings {
    /// Tasks that have not ended.
    pub live_tasks: u64,
    /// Ended tasks, each with its arguments, its result, its questions and its timeline.
    pub tasks: u64,
    /// Records of runs, which outlive their tasks.
    pub runs: u64,
    /// Sessions.
    pub sessions: u64,
    /// Permissions.
    pub permissions: u64,
}

impl Holdings {
    /// The sum of all kinds.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.live_tasks + self.tasks + self.runs + self.sessions + self.permissions
    }

    /// Adds the counts of another batch.
    pub const fn add(&mut self, other: Self) {
        self.live_tasks += other.live_tasks;
        self.tasks += other.tasks;
        self.runs += other.runs;
        self.sessions += other.sessions;
        self.permissions += other.permissions;
    }
}

impl fmt::Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (self.live_tasks, "live task", "live tasks"),
            (self.tasks, "ended task", "ended tasks"),
            (self.runs, "record of a run", "records of runs"),
            (self.sessions, "session", "sessions"),
            (self.permissions, "permission", "permissions"),
        ];
        let held = kinds.into_iter().filter(|(count, ..)| *count > 0);
        let held: Vec<String> = held
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        if held.is_empty() { f.write_str("nothing") } else { f.write_str(&held.join(", ")) }
    }
}

impl Entry {
    /// The erasure of these data of a principal, in one commit.
    #[must_use]
    pub fn erased(of: &DataOwner, erased: &Holdings, by: &By) -> Self {
        Self {
            owner: Some(of.short_name()),
            reason: Some(erased.to_string()),
            count: Some(erased.total()),
            ..Self::new(Action::PrincipalErased, by)
        }
    }
}

/// The erasure of a principal's data. Hosts keep running meanwhile.
#[async_trait]
pub trait Erasure: Send + Sync + 'static {
    /// Counts the rows of the principal.
    async fn holdings(&self, of: &DataOwner) -> Result<Holdings, StoreError>;

    /// Removes some of its rows, in one short transaction with an audit entry, and returns how
    /// many; none at the end. Live tasks and their records stay: a host may run them.
    async fn erase(&self, of: &DataOwner, by: &By) -> Result<Holdings, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SessionId;

    #[test]
    fn each_name_of_the_audit_log_stands_for_its_owners_alone() {
        let subject =
            |issuer: &str, subject: &str| Owner::Subject { issuer: issuer.into(), subject: subject.into() };
        let owners = [
            Owner::Local,
            Owner::Anyone,
            Owner::Session(SessionId("ann".into())),
            subject(TOKENS, "ann"),
            subject(TOKENS, "anna"),
            subject(TOKENS, "ann#b"),
            subject("https://idp.example", "ann"),
            subject("https://idp.example", "ann#b"),
        ];
        for owner in &owners {
            let name = name_of(owner);
            let of = DataOwner::parse(&name).expect("a principal");
            assert_eq!((of.to_string(), of.short_name()), (name.clone(), name.clone()));
            let [one, from, until] = of.keys();
            for other in &owners {
                let key = other.key();
                assert_eq!(of.has(other), name_of(other) == name, "{name} and {other:?}");
                assert_eq!(of.has(other), key == one || (from <= key && key < until), "{name} and {key}");
            }
        }
        for none in ["", "ann", "operator", "host", "token:", "token#ann", "#ann", "https://idp.example#"] {
            assert_eq!(DataOwner::parse(none), None, "{none}");
        }
    }

    #[test]
    fn counts_are_said_in_words() {
        assert_eq!(Holdings::default().to_string(), "nothing");
        let some = Holdings { tasks: 2, runs: 1, permissions: 1, ..Holdings::default() };
        assert_eq!(some.to_string(), "2 ended tasks, 1 record of a run, 1 permission");
    }
}
