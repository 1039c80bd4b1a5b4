use super::*;

fn bearer(realm: &str, service: Option<&str>) -> Challenge {
    Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) }
}

#[test]
fn a_token_server_is_named_by_realm_and_service() {
    let header = r#"Bearer realm="https://ghcr.io/token",service="ghcr.io",scope="repository:a/b:pull""#;
    assert_eq!(parse(header), [bearer("https://ghcr.io/token", Some("ghcr.io"))]);
}

#[test]
fn a_header_may_have_several_challenges() {
    let header = r#"Negotiate, Basic realm="a, b", bearer service=s , realm = "x\"y""#;
    assert_eq!(parse(header), [Challenge::Basic, bearer("x\"y", Some("s"))]);
}

#[test]
fn a_bearer_challenge_without_a_realm_is_skipped() {
    for header in [r#"Bearer service="x""#, "", "=", "\""] {
        assert_eq!(parse(header), [], "{header}");
    }
}
