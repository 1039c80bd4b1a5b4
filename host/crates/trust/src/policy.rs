//! The operator's policy for signers: `plugins.signers` and `plugins.require-signature`.

use crate::key::PublicKey;
use regex::Regex;
use serde::{Deserialize, Serialize};

/// The signature that a source needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requirement {
    /// None. A signer that the lock file pins is required all the same.
    None,
    /// A plugin may be unsigned when it is added. A signer is pinned then, and required from then on.
    #[default]
    FirstUse,
    /// A signature by a pinned key.
    Always,
}

/// The policy for some sources.
#[derive(Debug, Clone)]
pub struct SignerRule {
    /// Patterns for the source as the lock file writes it. A star stands for any text without a slash, and at
    /// the end for any text: a star in the name of a host must not reach into the path of another host.
    pub from: Vec<String>,
    /// Any of these keys must have signed. If there are some, [`Requirement::Always`] holds.
    pub keys: Vec<PublicKey>,
    /// Holds if there are no keys.
    pub require: Requirement,
}

/// The policy for all sources.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The first rule with a matching pattern decides.
    pub rules: Vec<SignerRule>,
    /// Holds for sources that no rule matches.
    pub default: Requirement,
}

/// The policy for one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling<'a> {
    /// The keys of the operator; empty if any pinned key will do.
    pub keys: &'a [PublicKey],
    /// [`Requirement::Always`] if there are keys.
    pub require: Requirement,
}

impl Policy {
    /// The policy for this source.
    #[must_use]
    pub fn for_source(&self, source: &str) -> Ruling<'_> {
        let rule = self.rules.iter().find(|rule| rule.from.iter().any(|pattern| is_match(pattern, source)));
        match rule {
            Some(SignerRule { keys, require, .. }) if keys.is_empty() => {
                Ruling { keys: &[], require: *require }
            }
            Some(rule) => Ruling { keys: &rule.keys, require: Requirement::Always },
            None => Ruling { keys: &[], require: self.default },
        }
    }
}

/// Whether a pattern of [`SignerRule::from`] matches a source.
#[must_use]
pub fn is_match(pattern: &str, source: &str) -> bool {
    let (inner, end) = pattern.strip_suffix('*').map_or((pattern, ""), |inner| (inner, ".*"));
    let inner = regex::escape(inner).replace(r"\*", "[^/]*");
    Regex::new(&format!(r"(?s)\A{inner}{end}\z")).is_ok_and(|regex| regex.is_match(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = include_str!("../../../../tests/fixtures/signed/cosign3.pub");

    fn rule(from: &[&str], keys: &[&PublicKey], require: Requirement) -> SignerRule {
        let from = from.iter().map(|&pattern| pattern.to_owned()).collect();
        SignerRule { from, keys: keys.iter().copied().cloned().collect(), require }
    }

    #[test]
    fn the_first_rule_that_matches_decides_and_requirements_are_written_in_kebab_case() {
        let key = PublicKey::from_pem(KEY).expect("a key");
        let policy = Policy {
            rules: vec![
                rule(&["oci://ghcr.io/acme/*"], &[&key], Requirement::None),
                rule(&["oci://ghcr.io/*"], &[], Requirement::Always),
                rule(&["file:*", "https://*"], &[], Requirement::None),
            ],
            default: Requirement::FirstUse,
        };
        let ruling = |source| policy.for_source(source);
        let keys = std::slice::from_ref(&key);
        assert_eq!(ruling("oci://ghcr.io/acme/fetch:1"), Ruling { keys, require: Requirement::Always });
        assert_eq!(ruling("oci://ghcr.io/other/fetch:1"), Ruling { keys: &[], require: Requirement::Always });
        assert_eq!(ruling("https://a.example/x.wasm").require, Requirement::None);
        assert_eq!(ruling("file:/tmp/x.wasm").require, Requirement::None);
        assert_eq!(ruling("oci://quay.io/x/y").require, Requirement::FirstUse);
        assert_eq!(Policy::default().for_source("oci://a/b").require, Requirement::FirstUse);
        let texts = ["none", "first-use", "always"];
        let all = [Requirement::None, Requirement::FirstUse, Requirement::Always];
        for (text, requirement) in texts.into_iter().zip(all) {
            assert_eq!(serde_json::to_value(requirement).unwrap(), text);
            assert_eq!(serde_json::from_value::<Requirement>(text.into()).unwrap(), requirement);
        }
    }

    #[test]
    fn a_star_matches_any_depth_at_the_end_and_no_slash_elsewhere() {
        for source in ["oci://ghcr.io/acme/", "oci://ghcr.io/acme/a:1", "oci://ghcr.io/acme/a/b/c@sha256:0"] {
            assert!(is_match("oci://ghcr.io/acme/*", source), "{source}");
        }
        assert!(is_match("*", "oci://a/b"));
        assert!(is_match("oci://ghcr.io/acme-*", "oci://ghcr.io/acme-tools/x"));
        for source in ["oci://ghcr.io/acme", "oci://ghcr.io/acme-evil/x", "oci://ghcr.io.evil/acme/x", ""] {
            assert!(!is_match("oci://ghcr.io/acme/*", source), "{source}");
        }
        assert!(is_match("oci://*.acme.example/*", "oci://eu.acme.example/tools/x"));
        assert!(!is_match("oci://*.acme.example/*", "oci://evil.example/x.acme.example/y"));
        assert!(is_match("oci://a/*/x*z:1", "oci://a/b/xyz:1"));
        assert!(!is_match("oci://a/*/x", "oci://a/b/c/x"));
        assert!(is_match("oci://a/b:1", "oci://a/b:1"));
        for source in ["oci://a/b:12", "oci://a/b", "xoci://a/b:1", "oci://a/b:1/c"] {
            assert!(!is_match("oci://a/b:1", source), "{source}");
        }
        assert!(is_match("a*b*c", "abxbc"));
        assert!(is_match("a*ab", "aab"));
        assert!(!is_match("a*ab", "ab"));
        assert!(is_match("**b", "ab"));
    }
}
