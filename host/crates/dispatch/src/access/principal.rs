//! The principal of a request, as the transport authenticated it.

use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use toolyard_task::audit::{By, subject_name};
use toolyard_task::wire::Timestamp;
use toolyard_task::{Owner, SessionId};

/// The principal of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Principal {
    /// An unauthenticated client.
    Anonymous,
    /// The user of this machine, over stdio or the command line.
    Local,
    /// The operator at the command line, who sees everybody's tasks.
    Operator,
    /// A subject that an issuer vouches for.
    Subject(Subject),
}

/// A subject that an issuer vouches for.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// The issuer: the `iss` of a token, or [`Subject::TOKENS`] for the tokens of the
    /// configuration.
    pub issuer: String,
    /// The subject: its `sub`, or the name of a token of the configuration.
    pub subject: String,
    /// The client that the token was issued to.
    pub client: Option<String>,
    /// The scopes of the token.
    pub scopes: BTreeSet<String>,
    /// All claims of the token: an object.
    pub claims: Value,
    /// When the token expires.
    pub expires_at: Option<Timestamp>,
}

impl Subject {
    /// The issuer of the tokens in the configuration. Other issuers are URLs, so
    /// none can have this name.
    pub const TOKENS: &'static str = toolyard_task::audit::TOKENS;

    /// The subject of this name, if nothing else is known about its token.
    #[must_use]
    pub const fn named(issuer: String, subject: String) -> Self {
        Self { issuer, subject, client: None, scopes: BTreeSet::new(), claims: Value::Null, expires_at: None }
    }
}

impl Principal {
    /// The owner of the principal's tasks. For an anonymous client this is its session.
    #[must_use]
    pub fn owner(&self, session: Option<&SessionId>) -> Option<Owner> {
        match self {
            Self::Operator => None,
            Self::Local => Some(Owner::Local),
            Self::Anonymous => session.cloned().map(Owner::Session),
            Self::Subject(subject) => {
                Some(Owner::Subject { issuer: subject.issuer.clone(), subject: subject.subject.clone() })
            }
        }
    }

    /// Whether an object of `owner`, such as a session, belongs to this principal. An anonymous client
    /// owns every anonymous session that it can name, and no others.
    #[must_use]
    pub fn has(&self, owner: &Owner) -> bool {
        match (self, owner) {
            (Self::Operator, _) | (Self::Anonymous, Owner::Session(_)) | (Self::Local, Owner::Local) => true,
            (Self::Subject(of), Owner::Subject { issuer, subject }) => {
                of.issuer == *issuer && of.subject == *subject
            }
            _ => false,
        }
    }

    /// The name, as the audit log writes it.
    #[must_use]
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Anonymous => "anonymous".into(),
            Self::Local => "local".into(),
            Self::Operator => "operator".into(),
            Self::Subject(subject) => subject.to_string().into(),
        }
    }

    /// The principal, in this session, as the audit log names it.
    pub(crate) fn by(&self, session: Option<&SessionId>) -> By {
        let session = match self {
            Self::Operator | Self::Local => None,
            Self::Anonymous | Self::Subject(_) => session.cloned(),
        };
        By::principal(&self.name(), session)
    }

    /// When its authentication expires, if it does.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.subject()?.expires_at
    }

    /// The subject that an issuer vouches for, if it is one.
    pub(crate) const fn subject(&self) -> Option<&Subject> {
        match self {
            Self::Subject(subject) => Some(subject),
            Self::Anonymous | Self::Local | Self::Operator => None,
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// As the audit log writes it.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&subject_name(&self.issuer, &self.subject))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A subject without a client, scopes and claims.
    pub(crate) fn bare(issuer: &str, subject: &str) -> Subject {
        Subject {
            issuer: issuer.into(),
            subject: subject.into(),
            client: None,
            scopes: BTreeSet::new(),
            claims: Value::Null,
            expires_at: None,
        }
    }

    fn subject(issuer: &str, subject: &str) -> Principal {
        Principal::Subject(bare(issuer, subject))
    }

    #[test]
    fn t_40_a_principal_has_what_is_its_own_and_nothing_else() {
        let session = SessionId("s".into());
        let everybody = [
            Principal::Anonymous,
            Principal::Local,
            subject("https://a.example", "alice"),
            subject("https://b.example", "alice"),
            subject("https://a.example", "bob"),
            subject(Subject::TOKENS, "alice"),
        ];
        for (at, one) in everybody.iter().enumerate() {
            let owner = one.owner(Some(&session)).expect("all but the operator own");
            for (other_at, other) in everybody.iter().enumerate() {
                assert_eq!(other.has(&owner), at == other_at, "{other} has what is of {one}");
            }
        }
    }

    #[test]
    fn a_6_no_two_principals_are_written_alike() {
        let subjects = ["https://a.example", Subject::TOKENS].map(|issuer| subject(issuer, "local"));
        let shown = [Principal::Anonymous, Principal::Local].into_iter().chain(subjects);
        let shown: Vec<_> = shown.map(|principal| principal.to_string()).collect();
        assert_eq!(shown, ["anonymous", "local", "https://a.example#local", "token:local"]);
    }
}
