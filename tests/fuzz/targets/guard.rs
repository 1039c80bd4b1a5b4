//! `Host` and `Origin`: whoever is let in named this machine, whatever else was said.

#![no_main]

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use toolyard_transport::http::guard::check;

// Each line is a header, told by its first letter; `a` is the request's own target.
fuzz_target!(|data: &[u8]| {
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
    if check(target.as_ref(), &headers).is_err() {
        return;
    }
    match &target {
        Some(target) => assert!(is_here(target.as_str().as_bytes()), "{target}"),
        None => assert!(hosts.len() == 1 && is_here(hosts[0]), "{hosts:?}"),
    }
    assert!(hosts.len() <= 1 && origins.len() <= 1, "one of each: {hosts:?}, {origins:?}");
    for origin in origins {
        let page = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        assert!(page.is_some_and(is_here), "{:?}", String::from_utf8_lossy(origin));
    }
});

/// One of three names, perhaps with a port, and not a byte more.
fn is_here(authority: &[u8]) -> bool {
    let lower = authority.to_ascii_lowercase();
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| match lower.strip_prefix(name.as_bytes()) {
        Some([]) => true,
        Some([b':', port @ ..]) => port.iter().all(u8::is_ascii_digit),
        _ => false,
    })
}
