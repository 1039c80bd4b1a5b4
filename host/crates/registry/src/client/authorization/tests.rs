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
fn a_token_server_is_used_if_it_and_the_registry_that_names_it_are_safe() {
    for (api, named) in [
        (PUBLIC, "https://auth.example/token"),
        // The registry is this machine, or the token server itself.
        (HERE, "https://auth.example/token"),
        (PLAIN, "https://plain.example/token"),
        // Both are this machine, or the setting allows it.
        (HERE, "http://localhost:5001/token"),
        (PLAIN, "http://plain.example/token"),
    ] {
        realm(api, named).expect(named);
    }
    let plain = "the connection to its token server is not encrypted";
    for (api, named, why) in [
        (
            PLAIN,
            "https://auth.example/token",
            "without TLS, anyone on the way could name another token server",
        ),
        (PUBLIC, "http://registry.example/token", plain),
        (PUBLIC, "http://auth.example/token", plain),
        (PLAIN, "http://auth.example/token", plain),
        (HERE, "http://auth.example/token", plain),
        (PUBLIC, "http://127.0.0.1/token", "its token server is said to be this machine"),
    ] {
        let text = realm(api, named).expect_err(named);
        assert!(text.ends_with(why), "{text}");
    }
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
