//! The checks of a request: that it names this console, and that a page of this console sent an action.

use http::header::{COOKIE, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, Request};
use std::net::IpAddr;

/// Why an action is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionRefusal {
    /// The request does not come from a page of this console.
    Origin,
    /// The browser says that another site caused it.
    Site,
    /// The form is not of this login.
    Token,
    /// The form is not readable, or too large.
    Form,
    /// The login may not do this.
    Role,
}

impl ActionRefusal {
    /// The reason, for the audit log.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Origin => "the Origin header names another page",
            Self::Site => "another site caused the request",
            Self::Token => "the form is not of this login",
            Self::Form => "the form cannot be read",
            Self::Role => "the role of the login does not allow it",
        }
    }
}

/// The value of the `Host` header, if it names this console: a page in a browser can make its own name
/// resolve to loopback.
pub(crate) fn named_host<B>(request: &Request<B>, own: &str, more: &[String]) -> Option<String> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let header = hosts.next().and_then(|value| value.to_str().ok()?.parse::<Authority>().ok());
    if hosts.next().is_some() {
        return None;
    }
    let named = request.uri().authority().cloned().or(header)?;
    if named.as_str().contains('@') {
        return None;
    }
    let host = named.host();
    let is_loopback = || {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        address.is_ok_and(|address| address.is_loopback())
    };
    let is = |name: &str| host.eq_ignore_ascii_case(name);
    let is_known = is(own) || is("localhost") || more.iter().any(|name| is(name)) || is_loopback();
    is_known.then(|| named.as_str().to_ascii_lowercase())
}

/// Checks that a page of this console sent the request. `host` is its `Host` header.
pub(crate) fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), ActionRefusal> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let origin = origins.next().and_then(|origin| origin.to_str().ok()).ok_or(ActionRefusal::Origin)?;
    // A proxy may add TLS.
    let from = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    if origins.next().is_some() || !from.is_some_and(|from| from.eq_ignore_ascii_case(host)) {
        return Err(ActionRefusal::Origin);
    }
    let site = headers.get(HeaderName::from_static("sec-fetch-site"));
    if site.is_some_and(|site| site != "same-origin") {
        return Err(ActionRefusal::Site);
    }
    Ok(())
}

/// Whether the page of an action came by https, through a proxy.
pub(crate) fn is_from_https(headers: &HeaderMap) -> bool {
    headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs =
        cookies.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(value: &str) -> Option<String> {
        let request = Request::builder().header(HOST, value).body(()).expect("a request");
        named_host(&request, "abcd.localhost", &["console.example".to_owned()])
    }

    #[test]
    fn only_names_of_this_console_are_served() {
        let own =
            "abcd.localhost:7422 ABCD.localhost localhost:7422 127.0.0.1:7422 [::1]:7422 console.example";
        for name in own.split(' ') {
            assert!(host(name).is_some(), "{name}");
        }
        let others = "other.localhost:7422 evil.example 10.0.0.7:7422 user@localhost localhost.evil.example";
        for name in others.split(' ').chain([""]) {
            assert!(host(name).is_none(), "{name}");
        }
        let two = Request::builder().header(HOST, "localhost").header(HOST, "localhost").body(());
        assert!(named_host(&two.expect("a request"), "abcd.localhost", &[]).is_none());
    }

    fn check(headers: &[(&'static str, &str)]) -> Result<(), ActionRefusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        check_origin(&map, "abcd.localhost:7422")
    }

    #[test]
    fn an_action_comes_from_a_page_of_this_console() {
        let own = ("origin", "http://abcd.localhost:7422");
        assert_eq!(check(&[own]), Ok(()));
        assert_eq!(check(&[own, ("sec-fetch-site", "same-origin")]), Ok(()));
        assert_eq!(check(&[("origin", "https://abcd.localhost:7422")]), Ok(()), "behind a proxy");
        assert_eq!(check(&[]), Err(ActionRefusal::Origin));
        for other in ["null", "http://abcd.localhost", "http://localhost:7422", "http://evil.example"] {
            assert_eq!(check(&[("origin", other)]), Err(ActionRefusal::Origin), "{other}");
        }
        assert_eq!(check(&[own, own]), Err(ActionRefusal::Origin), "two");
        for site in ["cross-site", "same-site", "none"] {
            assert_eq!(check(&[own, ("sec-fetch-site", site)]), Err(ActionRefusal::Site), "{site}");
        }
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "toolyard_74=b; toolyard_7422=a; theme=dark".parse().expect("a value"));
        assert_eq!(cookie(&headers, "toolyard_7422"), Some("a"));
        assert_eq!(cookie(&headers, "toolyard_742"), None);
    }
}
