use super::*;
use crate::credentials::Store;
use crate::settings::Registry;
use std::collections::BTreeMap;

fn settings() -> Settings {
    let plain = Registry { ca: None, plain_http: true };
    let registries = BTreeMap::from([("plain.example".to_owned(), plain)]);
    Settings { registries, ..Settings::new(1, Store::new(Vec::new())) }
}

fn went(from: &str, location: &str) -> Result<String, String> {
    let from: Uri = from.parse().expect("an address");
    follow(&from, location, &settings()).map(|uri| uri.to_string()).map_err(|problem| problem.to_string())
}

#[test]
fn a_redirect_loses_no_encryption_and_leads_from_elsewhere_to_no_server_of_this_machine() {
    for (from, to) in [
        ("https://a.example/x", "https://b.example/y"),
        ("http://127.0.0.1/x", "https://b.example/y"),
        ("https://127.0.0.1:1/x", "http://localhost:2/y"),
        ("http://127.0.0.1/x", "http://127.0.0.1:9/y"),
        // The setting allows it.
        ("http://plain.example/x", "http://plain.example/y"),
    ] {
        assert_eq!(went(from, to).as_deref(), Ok(to), "{from}");
    }
    let (a, plain) = ("https://a.example/x", "http://plain.example/x");
    let elsewhere = "a server elsewhere must not use this machine";
    for (from, to, why) in [
        (a, "http://a.example/y", "https never becomes http"),
        (a, "http://plain.example/y", "https never becomes http"),
        (plain, "http://other.example/y", ""),
        (a, "https://localhost/y", elsewhere),
        (a, "https://127.0.0.1:8443/y", elsewhere),
        (a, "https://[::1]/y", elsewhere),
        (a, "ftp://b.example/y", ""),
        (a, "https://user:secret@b.example/y", ""),
        (a, "https:///y", ""),
        (a, "https://a b/", ""),
    ] {
        let text = went(from, to).expect_err(to);
        assert!(text.ends_with(why), "{text}");
    }
}

#[test]
fn a_location_may_be_relative() {
    let base: Uri = "https://a.example:1/b/c?d=e".parse().expect("an address");
    for (location, resolved) in [
        ("/x", "https://a.example:1/x"),
        ("x", "https://a.example:1/b/x"),
        ("?x=y", "https://a.example:1/b/c?x=y"),
        ("//b.example/x", "https://b.example/x"),
        ("/x?to=https://b.example/", "https://a.example:1/x?to=https://b.example/"),
    ] {
        assert_eq!(resolve(&base, location).map(|uri| uri.to_string()).as_deref(), Some(resolved));
    }
}

#[test]
fn an_origin_is_scheme_host_and_port() {
    let same = |one: &str, other: &str| {
        is_same_origin(&one.parse().expect("an address"), &other.parse().expect("an address"))
    };
    assert!(same("https://a.example/x", "https://A.example:443/y"));
    assert!(!same("https://a.example/x", "https://a.example:444/x"));
    assert!(!same("https://a.example/x", "http://a.example:443/x"));
    assert!(!same("https://a.example/x", "https://a.example.evil/x"));
}
