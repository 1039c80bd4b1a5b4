//! The address of a server: this one, an issuer, or the source of its keys.

use http::Uri;
use http::uri::Scheme;
use std::fmt;

/// An absolute `http` or `https` URL without a user, query or fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    uri: Uri,
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("expected a URL such as https://example.com/path, not `{text}`");
        // `Uri` would drop a fragment silently.
        if text.contains(['#', '?']) {
            return Err(format!("expected a URL without query and fragment, not `{text}`"));
        }
        // `Uri` also accepts quotes, which would end the quoted string in a header.
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains(['"', '\\', '<', '>', '{', '}'])
        {
            return Err(expected());
        }
        let uri: Uri = text.parse().map_err(|_| expected())?;
        let known = uri.scheme().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
        let plain = uri
            .authority()
            .is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
        if known && plain { Ok(Self { text: text.to_owned(), uri }) } else { Err(expected()) }
    }

    /// As [`Address::parse`], for an address whose content no one can change on the way: `https`, or on this
    /// machine.
    ///
    /// # Errors
    /// The required form.
    pub fn parse_safe(text: &str) -> Result<Self, String> {
        let address = Self::parse(text)?;
        if address.is_encrypted() || address.is_local() {
            Ok(address)
        } else {
            Err(format!("expected an https URL (http only on this machine's loopback), not `{text}`"))
        }
    }

    /// The address as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path of the address, `/` at least.
    #[must_use]
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The address of its well-known document `name`, inserted between host and path (RFC 8615, as RFC 8414
    /// and RFC 9728 use it).
    #[must_use]
    pub fn well_known(&self, name: &str) -> String {
        format!("{}/.well-known/{name}{}", self.origin(), self.path().trim_end_matches('/'))
    }

    /// The address of its well-known document `name`, appended to the path as in OpenID Connect.
    #[must_use]
    pub fn below(&self, name: &str) -> String {
        format!("{}{}/.well-known/{name}", self.origin(), self.path().trim_end_matches('/'))
    }

    pub(super) const fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    fn is_local(&self) -> bool {
        self.uri.host().is_some_and(|host| {
            host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]"
        })
    }

    fn origin(&self) -> String {
        let scheme = self.uri.scheme_str().unwrap_or_default();
        format!("{scheme}://{}", self.uri.authority().map_or("", http::uri::Authority::as_str))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_absolute_and_bare() {
        let bare = "https://a.example http://localhost:1/mcp https://a.example:8443/x/y/ https://[::1]/";
        for text in bare.split(' ') {
            assert_eq!(Address::parse(text).expect(text).as_str(), text);
        }
        let others = "|/mcp|a.example|a.example/mcp|ftp://a.example|https://|https:///x|https://user@a.example/\
                      |https://a.example/?q|https://a.example/#f|https://a example/|https://a.example/\"x\
                      |https://a.example/\\x";
        for text in others.split('|') {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_fetched_is_encrypted_or_never_leaves_the_machine() {
        for (texts, is_safe) in [
            ("https://a.example/k http://127.0.0.1:9/k http://[::1]:9/k http://LOCALHOST/k", true),
            ("http://a.example/k http://localhost.a.example/ http://127.0.0.1.a.example/", false),
        ] {
            for text in texts.split(' ') {
                assert_eq!(Address::parse_safe(text).is_ok(), is_safe, "{text}");
            }
        }
    }

    #[test]
    fn a_2_well_known_documents_stand_between_host_and_path() {
        let at = |text: &str| Address::parse(text).expect("an address").well_known("x");
        assert_eq!(at("https://a.example/mcp"), "https://a.example/.well-known/x/mcp");
        assert_eq!(at("https://a.example"), "https://a.example/.well-known/x");
        assert_eq!(at("https://a.example:1/b/c/"), "https://a.example:1/.well-known/x/b/c");
        let below = Address::parse("https://a.example/realm/").expect("an address").below("x");
        assert_eq!(below, "https://a.example/realm/.well-known/x");
    }
}
