//! How rules name principals.

use super::pattern::Pattern;
use crate::access::principal::{Principal, Subject};

/// The principals that a rule names.
#[derive(Debug)]
pub(crate) enum PrincipalPattern {
    /// `*`: everybody.
    Everybody,
    /// `anonymous`.
    Anonymous,
    /// `local`.
    Local,
    /// `token:NAME`.
    Token(Pattern),
    /// `ISSUER#SUBJECT`: each side by itself, so that a subject with `#` in its
    /// name cannot look like another issuer's.
    Subject { issuer: Pattern, subject: Pattern },
}

impl PrincipalPattern {
    pub fn new(pattern: &str) -> Result<Self, String> {
        Ok(match pattern {
            "*" => Self::Everybody,
            "anonymous" => Self::Anonymous,
            "local" => Self::Local,
            _ => match (pattern.split_once('#'), pattern.strip_prefix("token:")) {
                (Some((issuer, subject)), _) => {
                    Self::Subject { issuer: Pattern::new(issuer)?, subject: Pattern::new(subject)? }
                }
                (None, Some(name)) => Self::Token(Pattern::new(name)?),
                (None, None) => {
                    return Err(format!(
                        "`{pattern}` names no principal; one is written `anonymous`, `local`, `token:NAME`, \
                         `ISSUER#SUBJECT` (such as `https://idp.example.com#*`) or `*`"
                    ));
                }
            },
        })
    }

    pub fn matches(&self, principal: &Principal) -> bool {
        match (self, principal) {
            (Self::Everybody, _)
            | (Self::Anonymous, Principal::Anonymous)
            | (Self::Local, Principal::Local) => true,
            (Self::Token(name), Principal::Subject(of)) => {
                of.issuer == Subject::TOKENS && name.matches(&of.subject)
            }
            (Self::Subject { issuer, subject }, Principal::Subject(of)) => {
                of.issuer != Subject::TOKENS && issuer.matches(&of.issuer) && subject.matches(&of.subject)
            }
            _ => false,
        }
    }
}
