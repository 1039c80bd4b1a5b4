//! The check of `Host` and `Origin` against DNS rebinding (H-2, H-3).
//!
//! A page in a browser can make its own name resolve to 127.0.0.1 and so reach a local
//! server; its `Host` and `Origin` reveal that. Only the operator allows further names and origins.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use std::borrow::Cow;

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostOriginError {
    /// The `Host` of the request does not name this server.
    Host,
    /// Pages of its `Origin` may not call.
    Origin,
}

/// The host names that are served and the origins whose pages may call. Those of this machine's loopback are
/// always allowed; by default no others are.
#[derive(Debug, Clone, Default)]
pub struct AllowedNames {
    hosts: Vec<Name>,
    origins: Vec<(bool, Name)>,
}

/// A host in lower case, and its port if the port matters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    host: String,
    port: Option<u16>,
}

impl AllowedNames {
    /// Allows the loopback names, these hosts (each with a port or for any port), and the pages of these
    /// origins.
    ///
    /// # Errors
    /// The expected form of a host or an origin.
    pub fn new(hosts: &[String], origins: &[String]) -> Result<Self, InvalidName> {
        let hosts = hosts.iter().map(|host| host_name(host).ok_or_else(|| InvalidName::Host(host.clone())));
        let origins = origins
            .iter()
            .map(|origin| origin_name(origin).ok_or_else(|| InvalidName::Origin(origin.clone())));
        Ok(Self { hosts: hosts.collect::<Result<_, _>>()?, origins: origins.collect::<Result<_, _>>()? })
    }

    /// Checks whether a request is allowed. `authority` is the authority of the request's target, if it has
    /// one.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn check(&self, authority: Option<&Authority>, headers: &HeaderMap) -> Result<(), HostOriginError> {
        if !named(authority, headers).is_some_and(|named| self.serves(&named)) {
            return Err(HostOriginError::Host);
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if origin.to_str().is_ok_and(|origin| self.lets_in(origin)) => Ok(()),
            _ => Err(HostOriginError::Origin),
        }
    }

    fn serves(&self, authority: &Authority) -> bool {
        is_plain_authority(authority)
            && (is_loopback(authority.host())
                || self.hosts.iter().any(|name| {
                    name.host.eq_ignore_ascii_case(authority.host())
                        && name.port.is_none_or(|port| authority.port_u16() == Some(port))
                }))
    }

    /// Whether pages of an origin may call. `null` may not: any site can send it from a sandboxed page.
    fn lets_in(&self, origin: &str) -> bool {
        let Some((encrypted, authority)) = origin_parts(origin) else { return false };
        is_loopback(authority.host())
            || self.origins.iter().any(|(scheme, name)| {
                *scheme == encrypted
                    && name.host.eq_ignore_ascii_case(authority.host())
                    && name.port == explicit_port(encrypted, &authority)
            })
    }
}

/// The server that a request names by its target or its `Host`. `None` if there is no host or two: no correct client
/// sends that.
pub(super) fn named<'a>(target: Option<&'a Authority>, headers: &HeaderMap) -> Option<Cow<'a, Authority>> {
    let mut hosts = headers.get_all(HOST).iter();
    let header = hosts.next().and_then(|value| value.to_str().ok()?.parse().ok());
    target.map(Cow::Borrowed).or(header.map(Cow::Owned)).filter(|_| hosts.next().is_none())
}

/// A configured value that should be a host or an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// A host.
    #[error("expected a host such as tools.example.com or tools.example.com:8443, not `{0}`")]
    Host(String),
    /// An origin.
    #[error("expected an origin such as https://app.example.com, not `{0}`")]
    Origin(String),
}

fn host_name(text: &str) -> Option<Name> {
    let authority: Authority = text.parse().ok()?;
    // Everything else that an authority may contain, and wildcards that people may try.
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'[' | b']' | b':');
    let host = authority.host();
    (is_plain_authority(&authority)
        && has_valid_port(&authority)
        && !host.is_empty()
        && host.bytes().all(plain))
    .then(|| Name { host: host.to_ascii_lowercase(), port: authority.port_u16() })
}

fn origin_name(text: &str) -> Option<(bool, Name)> {
    let (encrypted, authority) = origin_parts(text)?;
    let name = host_name(authority.as_str())?;
    Some((encrypted, Name { port: explicit_port(encrypted, &authority), ..name }))
}

/// Whether an origin is encrypted, and its host and port.
fn origin_parts(origin: &str) -> Option<(bool, Authority)> {
    let (encrypted, rest) = match origin.strip_prefix("https://") {
        Some(rest) => (true, rest),
        None => (false, origin.strip_prefix("http://")?),
    };
    let authority = rest.parse::<Authority>().ok()?;
    (is_plain_authority(&authority) && has_valid_port(&authority)).then_some((encrypted, authority))
}

/// The port of an origin, unless it is the default port.
fn explicit_port(encrypted: bool, authority: &Authority) -> Option<u16> {
    authority.port_u16().filter(|port| *port != if encrypted { 443 } else { 80 })
}

/// Without a port, or with a valid one: 99999 must not count as no port.
fn has_valid_port(authority: &Authority) -> bool {
    authority.port_u16().is_some() || authority.as_str() == authority.host()
}

/// In a correct authority, the host comes first and only a port follows; `Authority` accepts more.
fn is_plain_authority(authority: &Authority) -> bool {
    let Some(rest) = authority.as_str().strip_prefix(authority.host()) else { return false };
    let port = if rest.is_empty() { Some(rest) } else { rest.strip_prefix(':') };
    port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a request with this `Host` and, if it is of a page, this `Origin`.
    fn checked(names: &AllowedNames, host: &str, origin: Option<&str>) -> Result<(), HostOriginError> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().expect("test header"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().expect("test header"));
        }
        names.check(None, &headers)
    }

    fn named(hosts: &[&str], origins: &[&str]) -> Option<AllowedNames> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        AllowedNames::new(&owned(hosts), &owned(origins)).ok()
    }

    #[test]
    fn h_3_only_loopback_names_and_those_that_the_operator_names_are_served() {
        let hosts = ["Tools.example.com", "other.example.com:8443", "192.0.2.7", "[2001:db8::1]"];
        let names = named(&hosts, &[]).expect("names");
        for (names, served, refused) in [
            (
                &AllowedNames::default(),
                "localhost LOCALHOST:1 127.0.0.1:7420 [::1]:80 [::1]",
                "evil.example localhost.evil.example 127.0.0.1.evil.example evil.example@localhost \
                 localhost@localhost localhost:8*0 [::1]80 127.0.0.2 0.0.0.0",
            ),
            (
                &names,
                "tools.example.com TOOLS.example.com:7420 other.example.com:8443 192.0.2.7:1 [2001:db8::1]:1 localhost",
                "example.com x.tools.example.com tools.example.com. tools.example.com@evil.example \
                 evil.example@tools.example.com tools.example.com:x other.example.com other.example.com:8444",
            ),
        ] {
            for host in served.split(' ') {
                assert_eq!(checked(names, host, None), Ok(()), "{host}");
            }
            for host in refused.split(' ').chain([""]) {
                assert_eq!(checked(names, host, None), Err(HostOriginError::Host), "{host}");
            }
            assert_eq!(names.check(None, &HeaderMap::new()), Err(HostOriginError::Host));
        }
        // A served host is not an origin whose pages may call.
        let page = Some("https://tools.example.com");
        assert_eq!(checked(&names, "tools.example.com", page), Err(HostOriginError::Origin));
        for name in ["", "*", "*.example.com", "https://a.example", "a/b", "a:b", "a:", "a:99999", "u@a"] {
            assert!(named(&[name], &[]).is_none(), "{name}");
        }
    }

    #[test]
    fn h_2_only_pages_of_this_machine_and_those_that_the_operator_names_may_call() {
        let origins = ["https://app.example.com", "http://other.example.com:8080", "https://c.example:443"];
        let names = named(&[], &origins).expect("origins");
        for (names, allowed, refused) in [
            (
                &AllowedNames::default(),
                "http://localhost https://localhost:3000 http://127.0.0.1:6274 http://[::1]:1",
                "null http://evil.example http://localhost.evil.example http://localhost@evil.example \
                 http://evil.example@localhost http://localhost:62*4 file://localhost localhost http://",
            ),
            (
                &names,
                "https://app.example.com https://app.example.com:443 http://other.example.com:8080 \
                 https://c.example http://localhost:1",
                "http://app.example.com https://app.example.com:8443 https://app.example.com:99999 \
                 https://app.example.com: https://x.app.example.com https://app.example.com.evil.example \
                 https://app.example.com@evil.example https://evil.example@app.example.com \
                 http://other.example.com null",
            ),
        ] {
            for origin in allowed.split(' ') {
                assert_eq!(checked(names, "localhost", Some(origin)), Ok(()), "{origin}");
            }
            for origin in refused.split(' ').chain([""]) {
                let refusal = checked(names, "localhost", Some(origin));
                assert_eq!(refusal, Err(HostOriginError::Origin), "{origin}");
            }
        }
        for name in ["", "*", "null", "app.example.com", "https://app.example.com/", "https://*.a.example"] {
            assert!(named(&[], &[name]).is_none(), "{name}");
        }
    }
}
