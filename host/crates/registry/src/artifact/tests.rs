use super::*;
use serde_json::Value;

const TEXT: &str = r#"(component
    (import "wasi:clocks/wall-clock@0.2.0" (instance $clock (type (record))))
    (import "log" (func $log))
    (type $point (record (field "x" u32)))
    (component (import "inner" (func)))
    (core module (import "a" "b" (func)))
    (export "acme:fetch/tools@1.0.0" (instance $clock))
    (export "point" (type $point)))"#;

fn artifact() -> Artifact {
    Artifact::new(wat::parse_str(TEXT).expect("a component")).expect("an artifact")
}

#[test]
fn the_configuration_lists_the_outermost_imports_and_exports_but_types() {
    let config: Value = serde_json::from_slice(&artifact().config).expect("JSON");
    assert_eq!(config["component"]["imports"], json!(["wasi:clocks/wall-clock@0.2.0", "log"]));
    assert_eq!(config["component"]["exports"], json!(["acme:fetch/tools@1.0.0"]));
    assert_eq!(config["architecture"], "wasm");
    assert_eq!(config["os"], "wasip2");
    assert_eq!(config["layerDigests"], json!([Digest::of(&artifact().component).to_string()]));
}

/// Other bytes would give equal builds another digest.
#[test]
fn equal_components_give_these_bytes() {
    let artifact = Artifact::new(b"\0asm\x0d\0\x01\0".to_vec()).expect("an artifact");
    let digest = "sha256:24eaf3439a60c96764c4f2c92a0a81b52bd4fe5d5b91f090184a0f6486b1bf29";
    assert_eq!(
        String::from_utf8_lossy(&artifact.config),
        format!(
            r#"{{"architecture":"wasm","component":{{"exports":[],"imports":[],"target":null}},"created":"1970-01-01T00:00:00Z","layerDigests":["{digest}"],"os":"wasip2"}}"#
        )
    );
    assert_eq!(
        artifact.digest().to_string(),
        "sha256:344478fe3db83b8151b3ecafe4d4f6c0bc1136d45967056864703b3ad6d9bacd"
    );
}

#[test]
fn what_is_no_component_is_refused() {
    for bytes in [&b""[..], b"hello", b"\0asm\x0d\0\x01\0\xff\xff\xff"] {
        Artifact::new(bytes.to_vec()).expect_err("refused");
    }
    let module = wat::parse_str("(module)").expect("a module");
    let error = Artifact::new(module).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the component cannot be used: the component is malformed: it is a core module; make a component \
         of it (wasm-tools component new)"
    );
}

#[test]
fn a_large_suggested_manifest_is_not_read() {
    for (text, is_read) in [("#".repeat(MAX_SUGGESTED_MANIFEST + 1), false), ("[http]".to_owned(), true)] {
        let annotations = BTreeMap::from([(SUGGESTED_MANIFEST.to_owned(), text.clone())]);
        let artifact = Artifact { annotations, ..artifact() };
        assert_eq!(artifact.suggested_manifest(), is_read.then_some(text.as_str()));
    }
}
