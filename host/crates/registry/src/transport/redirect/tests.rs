use super::*;
use crate::Registry;
use crate::credentials::Store;
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
fn https_leads_to_https() {
    assert_eq!(went("https://a.example/x", "https://b.example/y").as_deref(), Ok("https://b.example/y"));
    assert_eq!(went("http://127.0.0.1/x", "https://b.example/y").as_deref(), Ok("https://b.example/y"));
}

#[test]
fn https_never_becomes_http() {
    for target in ["http://a.example/y", "http://plain.example/y"] {
        assert!(went("https://a.example/x", target).expect_err(target).ends_with("https never becomes http"));
    }
    went("https://127.0.0.1:1/x", "http://localhost:2/y").expect("both are this machine");
}

#[test]
fn http_leads_to_http_only_where_the_settings_allow_it() {
    went("http://127.0.0.1/x", "http://127.0.0.1:9/y").expect("both are this machine");
    went("http://plain.example/x", "http://plain.example/y").expect("the setting allows it");
    went("http://plain.example/x", "http://other.example/y").expect_err("no setting allows it");
}

#[test]
fn a_server_elsewhere_cannot_use_this_machine() {
    for target in ["https://localhost/y", "https://127.0.0.1:8443/y", "https://[::1]/y"] {
        let text = went("https://a.example/x", target).expect_err(target);
        assert!(text.ends_with("a server elsewhere must not use this machine"), "{text}");
    }
}

#[test]
fn other_schemes_and_credentials_are_refused() {
    for target in ["ftp://b.example/y", "https://user:secret@b.example/y", "https:///y", "https://a b/"] {
        went("https://a.example/x", target).expect_err(target);
    }
}

#[test]
fn an_error_does_not_show_the_query() {
    let text = went("https://a.example/x", "http://b.example/y?token=secret").expect_err("refused");
    assert!(text.contains("http://b.example/y") && !text.contains("secret"), "{text}");
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
