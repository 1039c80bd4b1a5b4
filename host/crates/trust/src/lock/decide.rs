//! The decision about a candidate: whether an update is taken or waits for a person.

use super::{Entry, Signer};
use crate::definition::{Changes, compare, escape};
use std::fmt::{self, Display};

/// The decision about a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The candidate is the plugin itself.
    Unchanged,
    /// The candidate may replace the plugin.
    Take,
    /// A person has to accept it.
    Hold(Vec<Reason>),
}

/// A reason to hold a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The candidate comes from elsewhere.
    OtherSource {
        /// The source of the plugin.
        old: String,
        /// The source of the candidate.
        new: String,
    },
    /// The candidate is unsigned, and the plugin is signed.
    SignerLost {
        /// The signer of the plugin.
        old: Signer,
    },
    /// Another signer signed it.
    OtherSigner {
        /// The signer of the plugin.
        old: Signer,
        /// The signer of the candidate.
        new: Signer,
    },
    /// The candidate would have grants that the plugin has not.
    WiderGrants(Vec<String>),
    /// The manifest of the candidate has other limits, words or approvals.
    Settings(Vec<String>),
    /// The tools or prompts of the candidate differ.
    Definitions(Changes),
}

impl Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { fingerprint, .. } => write!(f, "key {}", escape(fingerprint)),
            Self::Identity { identity, issuer } => write!(f, "{} ({})", escape(identity), escape(issuer)),
            Self::None { .. } => f.write_str("unsigned"),
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherSource { old, new } => {
                write!(f, "it comes from {}, not from {}", escape(new), escape(old))
            }
            Self::SignerLost { old } => write!(f, "it is unsigned; the plugin was signed by {old}"),
            Self::OtherSigner { old, new } => {
                write!(f, "it is signed by {new}; the plugin was signed by {old}")
            }
            Self::WiderGrants(grants) => {
                let grants: Vec<_> = grants.iter().map(|grant| escape(grant)).collect();
                write!(f, "it has more grants: {}", grants.join(", "))
            }
            Self::Settings(changes) => write!(f, "its settings changed: {}", changes.join(", ")),
            Self::Definitions(changes) => write!(f, "its definitions changed:\n{changes}"),
        }
    }
}

/// The lines that one of two lists has and the other has not, with signs as in a diff.
pub(super) fn changed_lines(old: &[String], new: &[String]) -> Vec<String> {
    let removed = old.iter().filter(|line| !new.contains(line)).map(|line| format!("- {}", escape(line)));
    let added = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {}", escape(line)));
    removed.chain(added).collect()
}

/// Decides about a candidate for the plugin of `old`.
#[must_use]
pub fn decide(old: &Entry, new: &Entry) -> Decision {
    let mut reasons = Vec::new();
    if old.source != new.source {
        reasons.push(Reason::OtherSource { old: old.source.clone(), new: new.source.clone() });
    }
    match (&old.signer, &new.signer) {
        (Signer::None { .. }, _) => {}
        (_, Signer::None { .. }) => reasons.push(Reason::SignerLost { old: old.signer.clone() }),
        (was, is) if !is_same_signer(was, is) => {
            reasons.push(Reason::OtherSigner { old: was.clone(), new: is.clone() });
        }
        _ => {}
    }
    let wider: Vec<_> = new.grants.iter().filter(|grant| !old.grants.contains(grant)).cloned().collect();
    if !wider.is_empty() {
        reasons.push(Reason::WiderGrants(wider));
    }
    if let (Some(old), Some(new)) = (&old.settings, &new.settings) {
        let changes = changed_lines(old, new);
        if !changes.is_empty() {
            reasons.push(Reason::Settings(changes));
        }
    }
    let changes = compare(&old.definitions, &new.definitions);
    if !changes.is_empty() {
        reasons.push(Reason::Definitions(changes));
    }
    match reasons.is_empty() {
        false => Decision::Hold(reasons),
        true if is_same_plugin(old, new) => Decision::Unchanged,
        true => Decision::Take,
    }
}

fn is_same_signer(a: &Signer, b: &Signer) -> bool {
    match (a, b) {
        // The file is a note for people.
        (Signer::Key { fingerprint: a, .. }, Signer::Key { fingerprint: b, .. }) => a == b,
        (Signer::None { .. }, Signer::None { .. }) => true,
        (a, b) => a == b,
    }
}

/// Whether replacing would change nothing, given that there is no reason to hold it.
fn is_same_plugin(old: &Entry, new: &Entry) -> bool {
    old.digest == new.digest
        && old.manifest == new.manifest
        && is_same_signer(&old.signer, &new.signer)
        && old.grants.iter().all(|grant| new.grants.contains(grant))
}
