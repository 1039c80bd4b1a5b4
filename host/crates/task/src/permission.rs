//! Wishes of a plugin that need the permission of a user, and the reasons why a wish is refused.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A single, exact thing that a manifest leaves to the person who calls
/// (`grant = "ask"`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AccessRequest {
    /// A folder.
    Folder {
        /// The path in the guest.
        guest: String,
        /// The path on the host, with all links resolved. Shown only to the operator and to the
        /// user of this machine.
        path: String,
        /// The name in the manifest, shown to everyone else.
        named: String,
        /// The kind of access.
        access: Access,
    },
    /// Requests to a host.
    Host {
        /// `http` or `https`.
        scheme: String,
        /// The host, in lower case.
        host: String,
        /// The port.
        port: u16,
    },
}

/// The access to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// List and read.
    Read,
    /// Also create, change and delete.
    Write,
}

impl AccessRequest {
    /// Requests to a host, however it was spelled.
    #[must_use]
    pub fn host(scheme: &str, host: &str, port: u16) -> Self {
        Self::Host { scheme: scheme.to_ascii_lowercase(), host: host.to_ascii_lowercase(), port }
    }

    /// The text that stands for it wherever it is stored. Different wishes have different keys; another
    /// spelling of a folder in the manifest does not make it a different folder.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Folder { guest, path, access, .. } => {
                format!("folder:{}:{}:{guest}{path}", access.as_str(), guest.len())
            }
            Self::Host { scheme, host, port } => format!("host:{}:{scheme}{port}:{host}", scheme.len()),
        }
    }

    /// The key of the manifest that lets the user decide.
    #[must_use]
    pub fn manifest_key(&self) -> String {
        match self {
            Self::Folder { guest, .. } => format!("fs.\"{guest}\".grant"),
            Self::Host { .. } => "http.allow.grant".to_owned(),
        }
    }
}

impl Access {
    /// The word of the manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// For the operator: the complete wish, on one line.
impl fmt::Display for AccessRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder { guest, path, access, .. } => {
                write!(f, "{} {} as {}", access.as_str(), path.escape_debug(), guest.escape_debug())
            }
            Self::Host { scheme, host, port } => write!(f, "{scheme}://{}:{port}", host.escape_debug()),
        }
    }
}

/// A refused wish. Its text is for the model and names no path of the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {why} (`{}`)", shown(.wanted), .wanted.manifest_key())]
pub struct NotPermitted {
    /// The wish.
    pub wanted: AccessRequest,
    /// Why not.
    pub why: WhyNot,
}

/// Why something was not permitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// The person said no, or closed the dialogue.
    #[error("was not allowed by the user")]
    Refused,
    /// The person said "never" before; `toolyard grants` revokes this.
    #[error("is never allowed, by the user's word; `toolyard grants revoke` takes that word back")]
    Never,
    /// The user did not answer in time.
    #[error("was not allowed: the user did not answer in time")]
    TimedOut,
    /// The client answered with an error, or with an invalid answer.
    #[error("was not allowed: the client gave no answer that can be used: {0}")]
    NoAnswer(String),
    /// The client cannot ask its user; the text says what it lacks.
    #[error(
        "needs the user's permission, which this client cannot ask for: {0}; \
         the operator can grant it by `grant = \"always\"`"
    )]
    CannotAsk(String),
    /// The host asks no user for a request of this kind.
    #[error(
        "needs the user's permission, which this request cannot ask for; call a tool of the plugin first"
    )]
    NotHere,
    /// The call has asked this many questions already, which is the limit.
    #[error("was not asked for: a call asks for at most {0} permissions (`limits.permissions`)")]
    TooMany(u32),
    /// The store cannot read earlier verdicts.
    #[error("was not allowed: what the user said before cannot be looked up now")]
    Unavailable,
    /// The run is being stopped.
    #[error("was not asked for: the call was stopped")]
    Stopped,
}

fn shown(wanted: &AccessRequest) -> String {
    match wanted {
        AccessRequest::Folder { guest, .. } => format!("the folder `{guest}`"),
        AccessRequest::Host { scheme, host, port } => {
            format!("the host {scheme}://{}:{port}", host.escape_debug())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn folder(guest: &str, path: &str, access: Access) -> AccessRequest {
        AccessRequest::Folder { guest: guest.into(), path: path.into(), named: "./x".into(), access }
    }

    #[test]
    fn different_things_have_different_keys_and_one_thing_has_one() {
        let all = [
            folder("/a", "/b", Access::Read),
            folder("/a", "/b", Access::Write),
            folder("/a/b", "/c", Access::Read),
            folder("/a", "/b/c", Access::Read),
            AccessRequest::host("http", "example.com", 80),
            AccessRequest::host("https", "example.com", 80),
            AccessRequest::host("https", "example.com", 8),
            AccessRequest::host("https", "0.example.com", 8),
        ];
        let keys: BTreeSet<_> = all.iter().map(AccessRequest::key).collect();
        assert_eq!(keys.len(), all.len(), "{keys:?}");
        assert_eq!(
            AccessRequest::host("HTTPS", "Example.COM", 443).key(),
            AccessRequest::host("https", "example.com", 443).key()
        );
        let (guest, path, named) = ("/a".into(), "/b".into(), "y".into());
        let otherwise = AccessRequest::Folder { guest, path, named, access: Access::Read };
        assert_eq!(otherwise.key(), all[0].key(), "spelled otherwise in the manifest");
    }

    #[test]
    fn a_refusal_names_the_key_of_the_manifest_and_no_path_of_the_host() {
        let wanted = folder("/data", "/srv/secret", Access::Read);
        for why in [
            WhyNot::Refused,
            WhyNot::Never,
            WhyNot::TimedOut,
            WhyNot::NoAnswer("x".into()),
            WhyNot::CannotAsk("y".into()),
            WhyNot::NotHere,
            WhyNot::TooMany(8),
            WhyNot::Unavailable,
            WhyNot::Stopped,
        ] {
            let text = NotPermitted { wanted: wanted.clone(), why }.to_string();
            assert!(text.starts_with("the folder `/data` "), "{text}");
            assert!(text.ends_with("(`fs.\"/data\".grant`)"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
}
