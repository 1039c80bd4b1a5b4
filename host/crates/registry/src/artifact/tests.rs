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
    let annotations = BTreeMap::from([("org.opencontainers.image.title".to_owned(), "fetch".to_owned())]);
    let component = wat::parse_str(TEXT).expect("a component");
    Artifact::new(component, annotations, Some("2026-11-27T12:00:00Z".parse().expect("a time")))
        .expect("an artifact")
}

#[test]
fn the_configuration_lists_the_outermost_imports_and_exports_but_types() {
    let config: Value = serde_json::from_slice(&artifact().config).expect("JSON");
    assert_eq!(config["component"]["imports"], json!(["wasi:clocks/wall-clock@0.2.0", "log"]));
    assert_eq!(config["component"]["exports"], json!(["acme:fetch/tools@1.0.0"]));
    assert_eq!(config["architecture"], "wasm");
    assert_eq!(config["os"], "wasip2");
    assert_eq!(config["created"], "2026-11-27T12:00:00Z");
    assert_eq!(config["layerDigests"], json!([Digest::of(&artifact().component).to_string()]));
}

/// Other bytes would give equal builds another digest.
#[test]
fn equal_arguments_give_these_bytes() {
    let component = b"\0asm\x0d\0\x01\0".to_vec();
    let annotations = BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]);
    let artifact = Artifact::new(component, annotations, None).expect("an artifact");
    let digest = "sha256:24eaf3439a60c96764c4f2c92a0a81b52bd4fe5d5b91f090184a0f6486b1bf29";
    assert_eq!(
        String::from_utf8_lossy(&artifact.config),
        format!(
            r#"{{"architecture":"wasm","component":{{"exports":[],"imports":[],"target":null}},"created":"1970-01-01T00:00:00Z","layerDigests":["{digest}"],"os":"wasip2"}}"#
        )
    );
    assert_eq!(
        artifact.digest().to_string(),
        "sha256:677ef5a743b3ee455a64706d6951b8eb14e98ac9e885b90be23dacb139a8f47a"
    );
}

#[test]
fn what_is_no_component_is_refused() {
    for bytes in [&b""[..], b"hello", b"\0asm\x0d\0\x01\0\xff\xff\xff"] {
        Artifact::new(bytes.to_vec(), BTreeMap::new(), None).expect_err("refused");
    }
    let module = wat::parse_str("(module)").expect("a module");
    let error = Artifact::new(module, BTreeMap::new(), None).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the component cannot be published: the component is malformed: it is a core module; make a component \
         of it (wasm-tools component new)"
    );
}

#[test]
fn a_large_suggested_manifest_is_neither_written_nor_read() {
    let annotations =
        BTreeMap::from([(SUGGESTED_MANIFEST.to_owned(), "#".repeat(MAX_SUGGESTED_MANIFEST + 1))]);
    let error = Artifact::new(artifact().component, annotations.clone(), None).expect_err("refused");
    assert!(error.to_string().ends_with("the suggested manifest is larger than 16384 bytes"), "{error}");
    assert_eq!(Artifact { annotations, ..artifact() }.suggested_manifest(), None);
    let annotations = BTreeMap::from([(SUGGESTED_MANIFEST.to_owned(), "[http]".to_owned())]);
    assert_eq!(Artifact { annotations, ..artifact() }.suggested_manifest(), Some("[http]"));
}
