//! Who may knock: `Host` and `Origin` (H-2, H-3).
//!
//! A page in a browser can be made to resolve its own name to 127.0.0.1 and so
//! reach a local server; its `Host` and `Origin` give it away.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnedAway {
    /// Its `Host` is not this machine.
    Host,
    /// Its `Origin` is not a page of this machine.
    Origin,
}

/// Only names of this machine's loopback are served, and only pages of it may
/// call. `authority` is that of the request's target, if it has one.
///
/// # Errors
/// What gives the request away.
pub fn check(authority: Option<&Authority>, headers: &HeaderMap) -> Result<(), TurnedAway> {
    let mut hosts = headers.get_all(HOST).iter();
    let header = hosts.next().and_then(|value| value.to_str().ok()?.parse::<Authority>().ok());
    let named = authority.or(header.as_ref());
    // No host, or two: nothing that a client of ours sends.
    if hosts.next().is_some() || !named.is_some_and(is_loopback) {
        return Err(TurnedAway::Host);
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => Ok(()),
        (Some(origin), None) if origin.to_str().is_ok_and(is_local_origin) => Ok(()),
        _ => Err(TurnedAway::Origin),
    }
}

/// Whether an `Origin` is a page of this machine. `null` is not: sandboxed pages
/// of anybody send it.
fn is_local_origin(origin: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.and_then(|rest| rest.parse::<Authority>().ok()).is_some_and(|authority| is_loopback(&authority))
}

/// The name of an honest host begins its authority, and only a port follows;
/// `Authority` lets more pass.
fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let Some(rest) = authority.as_str().strip_prefix(host) else { return false };
    let port = if rest.is_empty() { Some(rest) } else { rest.strip_prefix(':') };
    port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
        && (host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(host: Option<&str>, origin: Option<&str>) -> Result<(), TurnedAway> {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, host.parse().expect("test header"));
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().expect("test header"));
        }
        check(None, &headers)
    }

    #[test]
    fn h_3_only_loopback_names_are_served() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7420", "[::1]:80", "[::1]"] {
            assert_eq!(checked(Some(host), None), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example@localhost",
            "localhost@localhost",
            "localhost:8*0",
            "[::1]80",
            "127.0.0.2",
            "0.0.0.0",
            "",
        ] {
            assert_eq!(checked(Some(host), None), Err(TurnedAway::Host), "{host}");
        }
        assert_eq!(checked(None, None), Err(TurnedAway::Host));
    }

    #[test]
    fn h_2_only_pages_of_this_machine_may_call() {
        for origin in
            ["http://localhost", "https://localhost:3000", "http://127.0.0.1:6274", "http://[::1]:1"]
        {
            assert_eq!(checked(Some("localhost"), Some(origin)), Ok(()), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "http://evil.example@localhost",
            "http://localhost:62*4",
            "file://localhost",
            "localhost",
            "http://",
        ] {
            assert_eq!(checked(Some("localhost"), Some(origin)), Err(TurnedAway::Origin), "{origin}");
        }
    }
}
