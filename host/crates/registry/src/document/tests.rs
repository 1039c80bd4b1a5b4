use super::*;
use serde_json::json;

fn descriptor() -> serde_json::Value {
    json!({ "mediaType": "x", "digest": Digest::of(b"").to_string(), "size": 0 })
}

#[test]
fn a_document_is_a_manifest_with_a_config_or_an_index() {
    let config = |name: &str, value: serde_json::Value| {
        let mut config = descriptor();
        config[name] = value;
        json!({ "config": config })
    };
    for (document, why) in [
        (json!({ "config": descriptor(), "manifests": [] }), "it is both a manifest and an index"),
        (
            json!({ "mediaType": IMAGE_INDEX, "config": descriptor() }),
            "its media type is not one of a manifest",
        ),
        (json!({ "mediaType": IMAGE_MANIFEST, "manifests": [] }), "it is an index with another media type"),
        (json!({}), "it has no config"),
        (config("digest", json!("sha512:00")), ""),
        (config("size", json!(-1)), ""),
    ] {
        let error = Document::parse(document.to_string().as_bytes()).expect_err("refused").to_string();
        assert!(error.contains(&format!("the manifest is malformed: {why}")), "{error}");
    }
}

#[test]
fn null_is_an_absent_field() {
    let document = json!({ "config": descriptor(), "layers": null, "subject": null, "annotations": null });
    let image = Document::parse(document.to_string().as_bytes()).and_then(Document::image).expect("an image");
    assert!(image.layers.is_empty() && image.subject.is_none() && image.annotations.is_empty());
}

#[test]
fn an_index_in_an_index_is_refused() {
    let index = Document::parse(br#"{"manifests":[]}"#).expect("an index");
    assert_eq!(
        index.image().expect_err("refused").to_string(),
        "the index is malformed: its entry is an index again"
    );
}

/// The media type of the layer that is the component of such a manifest, or the error.
fn component(config: &str, artifact_type: Option<&str>, layers: &[&str]) -> Result<String, String> {
    let of = |media_type: &str| {
        let mut descriptor = descriptor();
        descriptor["mediaType"] = json!(media_type);
        descriptor
    };
    let layers: Vec<_> = layers.iter().copied().map(of).collect();
    let document = json!({ "config": of(config), "artifactType": artifact_type, "layers": layers });
    let image = Document::parse(document.to_string().as_bytes()).and_then(Document::image).expect("an image");
    image.component().map(|layer| layer.media_type.clone()).map_err(|problem| problem.to_string())
}

#[test]
fn an_artifact_of_another_kind_is_refused_as_what_it_is() {
    let wasm = &[WASM_LAYER][..];
    let policy = &["application/vnd.wassette.policy+yaml", WASM_LAYER][..];
    assert_eq!(component(WASM_CONFIG, None, policy).as_deref(), Ok(WASM_LAYER), "other layers are ignored");
    let empty = "application/vnd.oci.empty.v1+json";
    let layers = |count| format!("the manifest has {count} layers of application/wasm; expected one");
    for (config, artifact_type, layers, says) in [
        (IMAGE_CONFIG, None, &["application/vnd.oci.image.layer.v1.tar+gzip"][..], "a container image, not"),
        (HELM_CONFIG, None, wasm, "a Helm chart, not a WebAssembly component"),
        (
            empty,
            Some("application/vnd.acme.model"),
            wasm,
            "an artifact of the type application/vnd.acme.model",
        ),
        (WASM_CONFIG, None, &[WASM_LAYER, WASM_LAYER][..], &layers(2)),
        (WASM_CONFIG, None, &["text/plain"][..], &layers(0)),
    ] {
        let error = component(config, artifact_type, layers).expect_err(says);
        assert!(error.contains(says), "{error}");
    }
}

fn entries(platforms: &[Option<&str>]) -> Vec<Descriptor> {
    let entry = |platform: &Option<&str>| {
        let mut entry = descriptor();
        if let Some((architecture, os)) = platform.and_then(|platform| platform.split_once('/')) {
            entry["platform"] = json!({ "architecture": architecture, "os": os });
        }
        serde_json::from_value(entry).expect("a descriptor")
    };
    platforms.iter().map(entry).collect()
}

fn chosen(platforms: &[Option<&str>]) -> Option<String> {
    component_entry(&entries(platforms)).ok().map(Descriptor::platform)
}

#[test]
fn the_component_of_an_index_is_the_one_for_wasip2_or_the_only_one() {
    assert_eq!(chosen(&[Some("wasm/wasip1"), Some("wasm/wasip2")]).as_deref(), Some("wasm/wasip2"));
    assert_eq!(chosen(&[Some("amd64/linux"), Some("wasm/wasip1")]).as_deref(), Some("wasm/wasip1"));
    assert_eq!(chosen(&[None]).as_deref(), Some("no platform"));
    assert_eq!(chosen(&[Some("amd64/linux"), Some("unknown/unknown")]).as_deref(), Some("amd64/linux"));
    assert_eq!(chosen(&[Some("wasm/wasip2"), Some("wasm/wasip2")]), None);
    assert_eq!(chosen(&[Some("amd64/linux"), Some("arm64/linux")]), None);
    assert_eq!(chosen(&[]), None);
}

#[test]
fn an_error_shows_few_platforms_and_no_control_characters() {
    let platforms: Vec<String> = (0..100).map(|number| format!("\u{1b}[2J{number:03}/\u{202e}x")).collect();
    let platforms: Vec<_> = platforms.iter().map(|platform| Some(platform.as_str())).collect();
    let text = component_entry(&entries(&platforms)).expect_err("ambiguous").to_string();
    assert!(text.len() < 500 && escape(&text) == text, "{text:?}");
}
