//! Roles of logins, and the people who may log in by a token of their own.

use sha2::{Digest as _, Sha256};

/// The rights of a login. Each role may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Also answers questions, approves and denies.
    Approver,
    /// Everything.
    Admin,
}

impl Role {
    /// The names, for configurations and errors.
    pub const NAMES: [(&'static str, Self); 3] =
        [("viewer", Self::Viewer), ("approver", Self::Approver), ("admin", Self::Admin)];

    /// The role of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, role)| role)
    }
}

/// A person who may log in by a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleUser {
    /// Their name, for the audit log.
    pub name: String,
    /// SHA-256 of their token.
    pub token_sha256: [u8; 32],
    /// Their role.
    pub role: Role,
    /// Whether they see arguments, results, questions and log messages. An admin does in any case.
    pub contents: bool,
}

/// The user with this token.
pub(crate) fn of_token<'a>(users: &'a [ConsoleUser], token: &str) -> Option<&'a ConsoleUser> {
    // Digests of random tokens tell nothing about them, so the time of the comparison may vary.
    let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
    users.iter().find(|user| user.token_sha256 == digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_one_user() {
        let user = |name: &str, token: &str| ConsoleUser {
            name: name.to_owned(),
            token_sha256: Sha256::digest(token.as_bytes()).into(),
            role: Role::Viewer,
            contents: false,
        };
        let users = [user("ada", "a"), user("bob", "b")];
        assert_eq!(of_token(&users, "b").map(|user| &*user.name), Some("bob"));
        assert!(of_token(&users, "c").is_none() && of_token(&users, "").is_none());
    }
}
