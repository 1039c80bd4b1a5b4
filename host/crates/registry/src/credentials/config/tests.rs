use super::*;
use crate::credentials::Store;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

fn config(text: &str) -> DockerConfig {
    DockerConfig::parse(text.as_bytes()).expect("a configuration")
}

fn found(key: &str, host: &str) -> bool {
    let auth = STANDARD.encode("user:password");
    let text = json!({ "auths": { key: { "auth": auth } } }).to_string();
    let credential = config(&text).inline(host).expect("valid");
    credential.is_some_and(|found| found == Credential::password("user", "password"))
}

#[test]
fn a_registry_is_found_by_each_form_of_its_name() {
    let names = "ghcr.io https://ghcr.io https://ghcr.io/ https://ghcr.io/v1/ http://GHCR.io/v2/ ghcr.io:443";
    for key in names.split(' ') {
        assert!(found(key, "ghcr.io"), "{key}");
    }
    for key in ["ghcr.io:444", "https://ghcr.io.evil", "ghcr.io/acme", "evil.ghcr.io", "ghcr.io.evil"] {
        assert!(!found(key, "ghcr.io"), "{key}");
    }
    assert!(found("localhost:5000", "localhost:5000"));
    assert!(!found("localhost:5000", "localhost"));
    assert!(found("https://index.docker.io/v1/", "docker.io"), "its old name");
    assert!(!found("https://index.docker.io/v1/", "ghcr.io"));
}

#[test]
fn an_entry_may_be_a_password_a_token_or_empty_and_a_broken_one_is_named_without_its_content() {
    let error = config(r#"{"auths":{"h":{"auth":"c2VjcmV0"}}}"#).inline("h").expect_err("refused");
    assert_eq!(error, "`auths.\"h\".auth` is not a name and a password in base64");
    DockerConfig::parse(b"[1]").expect_err("not an object");
    DockerConfig::parse(b"").expect("an empty file is an empty configuration");
    let config = config(
        r#"{"auths":{"a":{"identitytoken":"x","auth":"dXNlcjo="},"b":{"registrytoken":"y"},"c":{},
            "h":{"auth":"dXNlcjphOmI"}}}"#,
    );
    let with_colon = Some(Credential::password("user", "a:b"));
    assert_eq!(config.inline("h").expect("valid"), with_colon, "an encoding without padding");
    let token = |text: &str| Zeroizing::new(text.to_owned());
    assert_eq!(config.inline("a").expect("valid"), Some(Credential::IdentityToken(token("x"))));
    assert_eq!(config.inline("b").expect("valid"), Some(Credential::AccessToken(token("y"))));
    assert_eq!(config.inline("c").expect("valid"), None);
}

#[test]
fn the_helper_of_a_registry_comes_before_the_one_for_all() {
    let config = config(r#"{"credsStore":"all","credHelpers":{"ghcr.io":"own"}}"#);
    assert_eq!(config.helper("ghcr.io").as_deref(), Some("docker-credential-own"));
    assert_eq!(config.helper("quay.io").as_deref(), Some("docker-credential-all"));
    assert_eq!(DockerConfig::default().helper("quay.io"), None);
}

#[tokio::test]
async fn files_are_searched_in_order_and_a_large_or_broken_one_is_refused_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["none.json", "docker.json", "podman.json"].map(|name| folder.path().join(name));
    std::fs::write(&files[1], r#"{"auths":{"a":{"auth":"eDox"}}}"#).expect("written");
    std::fs::write(&files[2], r#"{"auths":{"a":{"auth":"eDoy"},"b":{"auth":"eDoz"}}}"#).expect("written");
    let store = Store::new(files.to_vec());
    assert_eq!(store.look_up("a").await.expect("read"), Some(Credential::password("x", "1")));
    assert_eq!(store.look_up("b").await.expect("read"), Some(Credential::password("x", "3")));
    assert_eq!(store.look_up("c").await.expect("read"), None);
    let file = folder.path().join("config.json");
    let large = " ".repeat(usize::try_from(MAX_DOCKER_CONFIG).expect("small") + 1);
    for (text, says) in
        [(&*large, "it is larger than 1048576 bytes"), ("{", "this is not a docker configuration")]
    {
        std::fs::write(&file, text).expect("written");
        let error = Store::new(vec![file.clone()]).look_up("h").await.expect_err("refused").to_string();
        assert!(error.contains(&format!("config.json: {says}")), "{error}");
    }
}
