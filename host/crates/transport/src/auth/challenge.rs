//! `WWW-Authenticate`: what a client must send (RFC 6750, section 3; ).

use super::{AuthError, AuthSettings};
use http::HeaderValue;
use toolyard_dispatch::rules::is_scope;

/// The challenges. Most are rendered only once.
pub(super) struct Challenges {
    missing: HeaderValue,
    malformed: HeaderValue,
    invalid: HeaderValue,
    scope: Option<HeaderValue>,
    metadata: Option<String>,
}

impl Challenges {
    /// The challenges include the URL of the metadata, if there is any. Without issuers no client can get a
    /// token, so the challenge says no more than `Bearer`.
    pub fn new(settings: &AuthSettings, metadata: Option<&str>) -> Self {
        let scopes = if settings.scopes.is_empty() { &settings.required_scopes } else { &settings.scopes };
        let wanted = metadata.map(|_| scopes.as_slice()).unwrap_or_default();
        let made = |parts: &[(&str, &str)], scopes: &[String]| {
            write(parts, scopes, metadata).unwrap_or(HeaderValue::from_static("Bearer"))
        };
        let invalid = ("error_description", "The access token is not valid, or not any more");
        let malformed = ("error_description", "The Authorization header must be: Bearer TOKEN");
        Self {
            missing: made(&[], wanted),
            malformed: made(&[("error", "invalid_request"), malformed], &[]),
            invalid: made(&[("error", "invalid_token"), invalid], wanted),
            scope: insufficient(&settings.required_scopes, metadata),
            metadata: metadata.map(str::to_owned),
        }
    }

    /// The challenge for a refusal.
    pub fn to(&self, why: &AuthError) -> Option<HeaderValue> {
        match why {
            AuthError::Missing => Some(self.missing.clone()),
            AuthError::Malformed(_) => Some(self.malformed.clone()),
            AuthError::Invalid(_) => Some(self.invalid.clone()),
            AuthError::Scope => self.scope.clone(),
            AuthError::KeysAway => None,
        }
    }

    /// The challenge for a valid token that does not permit this request.
    pub fn insufficient(&self, scopes: &[String]) -> Option<HeaderValue> {
        insufficient(scopes, self.metadata.as_deref())
    }
}

fn insufficient(scopes: &[String], metadata: Option<&str>) -> Option<HeaderValue> {
    let why = ("error_description", "The access token lacks a scope that this needs");
    write(&[("error", "insufficient_scope"), why], scopes, metadata)
}

/// Nothing between quotes contains a quote or a backslash: it is the host's own text, an address, or checked
/// scopes.
fn write(parts: &[(&str, &str)], scopes: &[String], metadata: Option<&str>) -> Option<HeaderValue> {
    let mut all: Vec<String> = parts.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).filter(|scope| is_scope(scope)).collect();
    if !scopes.is_empty() {
        all.push(format!("scope=\"{}\"", scopes.join(" ")));
    }
    all.extend(metadata.map(|url| format!("resource_metadata=\"{url}\"")));
    HeaderValue::try_from(format!("Bearer {}", all.join(", ")).trim_end()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_3_scopes_that_would_break_out_of_the_quotes_are_left_out() {
        let scopes = ["tools", "a\"b", "c\\d", "e f", "", "g:h/i.j", "\u{e9}"].map(str::to_owned);
        let challenge = insufficient(&scopes, Some("https://a.example/m")).expect("a header");
        assert_eq!(
            challenge,
            "Bearer error=\"insufficient_scope\", error_description=\"The access token lacks a scope that this \
             needs\", scope=\"tools g:h/i.j\", resource_metadata=\"https://a.example/m\""
        );
        assert_eq!(write(&[], &[], None).expect("a header"), "Bearer");
    }
}
