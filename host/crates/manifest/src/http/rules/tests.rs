use super::*;
use proptest::prelude::*;

fn rule(text: &str) -> Rule {
    let written = Written::parse(text).expect(text);
    Rule { written, methods: Vec::new(), private: false, by: GrantedBy::Operator }
}

fn target(uri: &str) -> Target {
    Target::of(&uri.parse().expect(uri)).expect(uri)
}

#[test]
fn an_entry_covers_what_it_says_and_nothing_else() {
    for (entry, covered, others) in [
        (
            "api.example.com",
            "https://api.example.com http://api.example.com/x https://API.Example.com.:443",
            "https://api.example.com:8443 http://api.example.com:443 https://example.com \
             https://x.api.example.com https://api.example.com.evil.net https://xapi.example.com",
        ),
        ("localhost:81", "http://localhost:81 https://localhost:81", "http://localhost http://127.0.0.1:81"),
        ("https://a.example", "https://a.example", "http://a.example http://a.example:443"),
        (
            "*.example.com",
            "https://a.example.com https://a.b.example.com",
            "https://example.com https://badexample.com https://.example.com.net https://[::1]",
        ),
        ("127.0.0.1:8080", "http://127.0.0.1:8080 http://[::ffff:127.0.0.1]:8080", "http://127.0.0.2:8080"),
        ("[::1]:8080", "http://[::1]:8080 http://[0:0:0:0:0:0:0:1]:8080", "http://[::1]"),
        ("*", "https://example.com http://1.1.1.1", "https://example.com:8443"),
    ] {
        let rule = rule(entry);
        for (uris, is_covered) in [(covered, true), (others, false)] {
            for uri in uris.split(' ') {
                let parsed: Uri = uri.parse().expect(uri);
                let is_about = Target::of(&parsed).is_ok_and(|target| rule.is_about(&target));
                assert_eq!(is_about, is_covered, "{entry} {uri}");
            }
        }
    }
}

#[test]
fn entries_that_mean_nothing_are_refused_with_the_reason() {
    let names = ["", "https://", "a.*.example.com", "example..com", "ex ample.com"];
    let ports = ["example.com:0", "example.com:99999", "example.com:+80", "example.com:"];
    let numbers = ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "1.2.3.4.5"];
    for (entries, says) in [
        (&names[..], "not the name of a host"),
        (&ports, "from 1 to 65535"),
        (&numbers, "is a number"),
        (&["ftp://example.com"], "neither `http` nor `https`"),
        (&["example.com/path", "user@example.com"], "paths and users"),
        (&["::1", "[::1"], "in brackets"),
        (&["bücher.example"], "xn--"),
        (&["*example.com"], "whole labels"),
    ] {
        for entry in entries {
            let what = Written::parse(entry).expect_err(entry);
            assert!(what.contains(says), "{entry}: {what}");
        }
    }
}

#[test]
fn a_uri_that_hides_its_host_has_no_target() {
    for uri in "http://u:p@a.example/ http://u@127.0.0.1 http://2130706433/ http://127.1/ /x".split(' ') {
        let parsed: Uri = uri.parse().expect(uri);
        assert!(Target::of(&parsed).is_err(), "{uri}");
    }
    assert_eq!(target("http://EXAMPLE.com:80/x?y").to_string(), "http://example.com");
    assert_eq!(target("https://[::1]:8443").to_string(), "https://[::1]:8443");
    assert_eq!(target("http://example.com:443").authority(), "example.com:443");
}

proptest! {
    /// Any text is either read or refused, and a text that is read covers no host other than those
    /// it names.
    #[test]
    fn whatever_is_written_is_read_or_refused(text in "\\PC{0,40}", host in "[a-z0-9.:\\[\\]*-]{0,30}") {
        for text in [&text, &host] {
            let Ok(written) = Written::parse(text) else { continue };
            let stranger = Host::Name("stranger.example".to_owned());
            prop_assert!(matches!(written.hosts, Hosts::Any) || !written.hosts.has(&stranger), "{text}");
        }
    }
}
