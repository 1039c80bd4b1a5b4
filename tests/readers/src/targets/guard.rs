//! `Host` and `Origin`: every accepted request names this machine or a configured name, whatever else it
//! contains.

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue};
use std::sync::LazyLock;
use toolyard_transport::http::host_origin::AllowedNames;

static OPEN: LazyLock<AllowedNames> = LazyLock::new(|| {
    let (hosts, origins) = (["named.example".to_owned()], ["https://page.example".to_owned()]);
    AllowedNames::new(&hosts, &origins).expect("names")
});

/// Each line is a header, which its first letter selects; `a` is the request target.
pub(super) fn check(data: &[u8]) {
    let mut headers = HeaderMap::new();
    let (mut target, mut hosts, mut origins) = (None, Vec::new(), Vec::new());
    for line in data.split(|byte| *byte == b'\n') {
        let Some((kind, text)) = line.split_first() else { continue };
        let Ok(value) = HeaderValue::from_bytes(text) else { continue };
        match kind {
            b'h' => {
                headers.append(HOST, value);
                hosts.push(text);
            }
            b'o' => {
                headers.append(ORIGIN, value);
                origins.push(text);
            }
            b'a' => target = Authority::try_from(text).ok(),
            _ => {}
        }
    }
    if OPEN.check(target.as_ref(), &headers).is_ok() {
        let named = target.as_ref().map_or_else(|| hosts[0], |target| target.as_str().as_bytes());
        assert!(is_here(named) || is_at(named, "named.example"), "{:?}", String::from_utf8_lossy(named));
        for origin in &origins {
            let is_page = page(origin).is_some_and(is_here) || is_named(origin);
            assert!(is_page, "{:?}", String::from_utf8_lossy(origin));
        }
    }
    if AllowedNames::default().check(target.as_ref(), &headers).is_err() {
        return;
    }
    assert!(OPEN.check(target.as_ref(), &headers).is_ok(), "names only let in more");
    match &target {
        Some(target) => assert!(is_here(target.as_str().as_bytes()), "{target}"),
        None => assert!(hosts.len() == 1 && is_here(hosts[0]), "{hosts:?}"),
    }
    assert!(hosts.len() <= 1 && origins.len() <= 1, "one of each: {hosts:?}, {origins:?}");
    for origin in origins {
        assert!(page(origin).is_some_and(is_here), "{:?}", String::from_utf8_lossy(origin));
    }
}

/// The page with this origin.
fn page(origin: &[u8]) -> Option<&[u8]> {
    origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"))
}

/// The default port may be given explicitly, with leading zeros.
fn is_named(origin: &[u8]) -> bool {
    let origin = origin.to_ascii_lowercase();
    let port =
        origin.strip_prefix(b"https://page.example:").map(|port| std::str::from_utf8(port).map(str::parse));
    origin == b"https://page.example" || matches!(port, Some(Ok(Ok(443_u16))))
}

/// One of three names, optionally with a port, and nothing else.
fn is_here(authority: &[u8]) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| is_at(authority, name))
}

fn is_at(authority: &[u8], name: &str) -> bool {
    match authority.to_ascii_lowercase().strip_prefix(name.as_bytes()) {
        Some([]) => true,
        Some([b':', port @ ..]) => port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}
