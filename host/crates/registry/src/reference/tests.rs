use super::*;

fn source(text: &str) -> Source {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    text.parse::<Source>().expect_err(text).to_string()
}

#[test]
fn a_reference_has_a_host_a_repository_a_tag_and_a_digest() {
    let digest = Digest::of(b"x");
    let text = format!("oci://registry.example:5000/acme/tools/fetch:1.2@{digest}");
    let reference: Reference = text.parse().expect("a reference");
    assert_eq!(reference.host, "registry.example:5000");
    assert_eq!(reference.repository, "acme/tools/fetch");
    assert_eq!(reference.tag.as_deref(), Some("1.2"));
    assert_eq!(reference.digest, Some(digest));
    assert_eq!(reference.name(), "fetch");
    assert_eq!(reference.to_string(), text);
}

#[test]
fn the_digest_takes_precedence_over_the_tag_and_latest_is_the_default() {
    let reference = |rest: &str| -> Reference { format!("oci://h/x{rest}").parse().expect("a reference") };
    let digest = Digest::of(b"x");
    assert_eq!(reference(&format!(":1@{digest}")).target(), digest.to_string());
    assert_eq!(reference(":1").target(), "1");
    assert_eq!(reference("").target(), "latest");
}

#[test]
fn a_host_has_one_spelling() {
    for text in ["oci://GHCR.io/x", "oci://ghcr.io:443/x"] {
        assert_eq!(source(text).to_string(), "oci://ghcr.io/x");
    }
    assert_eq!(source("oci://localhost:443/x").to_string(), "oci://localhost:443/x");
    assert_eq!(source("https://Example.com:443/A.wasm").to_string(), "https://example.com/A.wasm");
}

#[test]
fn a_reference_without_a_scheme_has_a_host_that_looks_like_one() {
    for text in ["ghcr.io/acme/fetch", "localhost/x", "localhost:5000/x:1", "[::1]:5000/x", "10.0.0.1/x"] {
        assert_eq!(text.parse::<Reference>().expect(text).to_string(), format!("oci://{text}"));
    }
    for text in ["acme/fetch", "fetch", "acme/fetch:1"] {
        text.parse::<Reference>().expect_err(text);
    }
    "oci://registry/fetch".parse::<Reference>().expect("with a scheme, any host");
}

#[test]
fn parts_that_a_registry_would_refuse_are_refused() {
    let long = "a".repeat(256);
    for rest in "h h/ /x h/X h/a//b h/a..b h/-a h/a- h/a_.b h/a: h/a:.b h/a:b/c h/a@sha256:12 h/a?b h/a#b \
                 h/../x h:0/x h:99999/x h:/x u@h/x [::1/x [x]/x [::1]5/x -h/x h/a%2f"
        .split(' ')
        .chain(["", "h h/x", &format!("h/{long}"), &format!("h/a:{long}")])
    {
        format!("oci://{rest}").parse::<Reference>().expect_err(rest);
    }
}

#[test]
fn an_error_shows_the_expected_form() {
    assert_eq!(
        refusal("oci://ghcr.io/Acme"),
        "`oci://ghcr.io/Acme` is not an address of a plugin: its repository is not valid (lower-case letters, \
         digits, and . _ - between them); expected oci://HOST[:PORT]/REPO[:TAG][@sha256:…]"
    );
}

#[test]
fn paths_are_components_or_layouts_by_their_ending() {
    assert_eq!(source("./fetch.wasm"), Source::File("./fetch.wasm".into()));
    assert_eq!(source("file:///a/fetch.wasm"), Source::File("/a/fetch.wasm".into()));
    assert_eq!(source("file:////a/fetch.wasm"), Source::File("/a/fetch.wasm".into()));
    assert!(refusal("file://host/fetch.wasm").contains("a file has no host"));
    assert_eq!(source("fetch.tar"), Source::Layout("fetch.tar".into()));
    assert_eq!(source("file:fetch.TAR"), Source::Layout("fetch.TAR".into()));
}

#[test]
fn the_text_of_a_source_gives_the_source() {
    for text in ["oci://h/x:1", "file:./fetch.wasm", "file:/a/f.tar", "https://example.com/a.wasm?b=c"] {
        assert_eq!(source(text).to_string(), text);
        assert_eq!(source(&source(text).to_string()), source(text));
    }
}

#[test]
fn a_web_server_is_reached_by_https_unless_it_is_this_machine() {
    assert!(matches!(source("http://localhost:8000/a.wasm"), Source::Https(_)));
    assert!(refusal("http://example.com/a.wasm").ends_with("http is not encrypted; use https"));
    assert!(refusal("ftp://example.com/a.wasm").ends_with("use oci://, https://, or a path"));
    assert!(refusal("https://user:secret@example.com/a.wasm").contains("contains a credential"));
    assert!(refusal("").ends_with("it is empty"));
}

#[test]
fn this_machine_has_these_names() {
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.9.9.9:80", "[::1]:5000", "[::ffff:127.0.0.1]"]
    {
        assert!(is_loopback(host), "{host}");
    }
    for host in ["localhost.example", "127.0.0.1.example", "10.0.0.1", "[::2]", "0.0.0.0", "user@localhost"] {
        assert!(!is_loopback(host), "{host}");
    }
}
