use super::*;

fn realm(api: &str, realm: &str) -> Result<String, String> {
    let api: Uri = api.parse().expect("an address");
    let checked = checked_realm("registry", &api, realm);
    checked.map(|uri| uri.to_string()).map_err(|problem| problem.to_string())
}

const PUBLIC: &str = "https://registry.example/v2/";
const PLAIN: &str = "http://plain.example/v2/";
const HERE: &str = "http://127.0.0.1:5000/v2/";

#[test]
fn a_token_server_with_tls_is_used_if_the_registry_named_it_safely() {
    realm(PUBLIC, "https://auth.example/token").expect("both have TLS");
    realm(HERE, "https://auth.example/token").expect("the registry is this machine");
    let text = realm(PLAIN, "https://auth.example/token").expect_err("anyone could have named it");
    assert!(text.ends_with("without TLS, anyone on the way could name another token server"), "{text}");
    realm(PLAIN, "https://plain.example/token").expect("it is the registry itself");
}

#[test]
fn a_token_server_without_tls_is_used_on_this_machine_or_with_the_setting_alone() {
    realm(HERE, "http://localhost:5001/token").expect("both are this machine");
    realm(PLAIN, "http://plain.example/token").expect("the setting allows it");
    for (api, other) in [
        (PUBLIC, "http://registry.example/token"),
        (PUBLIC, "http://auth.example/token"),
        (PLAIN, "http://auth.example/token"),
        (HERE, "http://auth.example/token"),
    ] {
        let text = realm(api, other).expect_err(other);
        assert!(text.ends_with("the connection to its token server is not encrypted"), "{text}");
    }
}

#[test]
fn a_registry_elsewhere_cannot_name_this_machine() {
    let text = realm(PUBLIC, "http://127.0.0.1/token").expect_err("refused");
    assert!(text.ends_with("its token server is said to be this machine"), "{text}");
}

#[test]
fn a_realm_that_is_not_an_address_is_refused() {
    for other in ["", "token", "/token", "https://user@auth.example/", "ftp://auth.example/"] {
        realm(PUBLIC, other).expect_err(other);
    }
}

#[test]
fn the_query_of_a_realm_is_kept() {
    let realm = Uri::from_static("https://auth.example/token?a=b");
    assert_eq!(with_query(&realm, "c=d").expect("an address").query(), Some("a=b&c=d"));
}
