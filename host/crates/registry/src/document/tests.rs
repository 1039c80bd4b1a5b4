use super::*;
use serde_json::json;

fn error(document: serde_json::Value) -> String {
    Document::parse(document.to_string().as_bytes()).expect_err("refused").to_string()
}

fn descriptor() -> serde_json::Value {
    json!({ "mediaType": "x", "digest": Digest::of(b"").to_string(), "size": 0 })
}

#[test]
fn a_document_is_either_a_manifest_or_an_index() {
    let both = json!({ "config": descriptor(), "layers": [], "manifests": [] });
    assert_eq!(error(both), "the manifest is malformed: it is both a manifest and an index");
}

#[test]
fn the_media_type_must_fit_the_fields() {
    let index = json!({ "mediaType": IMAGE_INDEX, "config": descriptor(), "layers": [] });
    assert_eq!(error(index), "the manifest is malformed: its media type is not one of a manifest");
    let manifest = json!({ "mediaType": IMAGE_MANIFEST, "manifests": [] });
    assert_eq!(error(manifest), "the manifest is malformed: it is an index with another media type");
}

#[test]
fn a_manifest_needs_a_config_and_digests_of_sha256() {
    assert_eq!(error(json!({})), "the manifest is malformed: it has no config");
    let mut config = descriptor();
    config["digest"] = json!("sha512:00");
    assert!(error(json!({ "config": config })).contains("the manifest is malformed: "));
    let mut config = descriptor();
    config["size"] = json!(-1);
    assert!(error(json!({ "config": config })).contains("the manifest is malformed: "));
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
    assert!(text.len() < 500 && text.chars().all(is_safe), "{text:?}");
}
