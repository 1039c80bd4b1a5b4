//! The shipped plugin `notes` with a folder of its own.

use crate::kit::{
    Folder, Recorder, call, engine, error, failure, guest, ok, read, retrieve, run, settings, state, tool,
};
use serde_json::{Value, json};
use std::sync::Arc;
use toolyard_engine::PluginState;
use toolyard_task::provider::{ProviderAnswer, Retrieval};
use toolyard_task::tool::{OfferChange, Report};
use toolyard_task::wire::{RawJson, Reference};
use toolyard_task::{Catalog, RunEnd};

/// Loads the plugin with its shipped manifest.
async fn notes(notes: &[(&str, &[u8])]) -> (Folder, Arc<Catalog>) {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../plugins/notes/notes.toml");
    let folder = Folder::new();
    folder.put("notes.wasm", &guest("notes"));
    folder.put("notes.toml", &std::fs::read(manifest).expect("shipped"));
    std::fs::create_dir(folder.file("notes")).expect("makes");
    for (name, bytes) in notes {
        folder.put(&format!("notes/{name}"), bytes);
    }
    let snapshot = folder.load(&engine(&settings())).await;
    assert_eq!(state(&snapshot, "notes.wasm"), &PluginState::Serving);
    (folder, snapshot.catalog)
}

fn structured(end: &RunEnd) -> Value {
    match end {
        RunEnd::Result { is_error: false, result, .. } => {
            result.decode::<Value>().expect("JSON")["structuredContent"].clone()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn notes_are_searched_read_and_appended_to() {
    let (folder, catalog) =
        notes(&[("shop.md", b"# Shop\nmilk and bread\n"), ("caf\u{e9}.md", b"\xe9 bread")]).await;
    let found = structured(&call(&catalog, "search_notes", "{\"query\":\"BREAD\"}").await);
    assert_eq!(
        found["matches"],
        json!([
            {"name": "caf\u{e9}.md", "uri": "notes:///caf%C3%A9.md", "line": 1, "text": "\u{fffd} bread"},
            {"name": "shop.md", "uri": "notes:///shop.md", "line": 2, "text": "milk and bread"},
        ])
    );
    assert_eq!(ok(&call(&catalog, "read_note", "{\"name\":\"shop\"}").await), "# Shop\nmilk and bread\n");
    for name in ["none", "../notes", ".hidden", "a/b"] {
        error(&call(&catalog, "read_note", &json!({ "name": name }).to_string()).await);
    }

    for (created, expected) in [(true, "tea\n"), (false, "tea\ntea\n")] {
        let recorder = Arc::new(Recorder::default());
        let arguments = "{\"name\":\"new\",\"text\":\"tea\"}";
        let end = run(tool(&catalog, "append_note"), arguments, recorder.clone()).await;
        assert_eq!(structured(&end)["created"], created);
        let changed = Report::Changed(OfferChange::Resource("notes:///new.md".to_owned()));
        let mut told = vec![Report::Changed(OfferChange::Resources), changed];
        let told = told.split_off(usize::from(!created));
        assert_eq!(*recorder.reports.lock().expect("free"), told);
        assert_eq!(std::fs::read_to_string(folder.file("notes/new.md")).expect("written"), expected);
    }
}

#[tokio::test]
async fn r_2_r_3_r_4_each_note_is_a_resource() {
    let many: Vec<String> = (0..150).map(|n| format!("{n:03}.md")).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b"text"[..])).collect();
    let (folder, catalog) = notes(&many).await;
    folder.put("notes/bytes.md", b"\xff");
    let (mut cursor, mut uris) = (None, Vec::new());
    loop {
        let page = retrieve(&catalog, Retrieval::Resources { cursor: cursor.take() }).await;
        let ProviderAnswer::Resources { entries, next } = page else { panic!("{page:?}") };
        for entry in &entries {
            let entry: Value = entry.decode().expect("JSON");
            assert_eq!(entry["mimeType"], "text/markdown");
            assert!(entry["size"].is_u64() && entry["annotations"]["lastModified"].is_string(), "{entry}");
            uris.push(entry["uri"].as_str().expect("text").to_owned());
        }
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(uris.len(), 151);
    assert!(uris.is_sorted());
    let contents = async |uri: &str| match retrieve(&catalog, read(uri)).await {
        ProviderAnswer::Contents(contents) => contents.map(|json| json.decode::<Value>().expect("JSON")),
        other => panic!("{other:?}"),
    };
    assert_eq!(contents("notes:///007.md").await.expect("there")["contents"][0]["text"], "text");
    assert_eq!(contents("notes:///bytes.md").await.expect("there")["contents"][0]["blob"], "/w==");
    for uri in ["notes:///none.md", "notes:///..%2Fnotes.toml", "file:///etc/passwd"] {
        assert_eq!(contents(uri).await, None, "{uri}");
    }
    match retrieve(&catalog, Retrieval::Templates).await {
        ProviderAnswer::Templates(list) => assert_eq!(list[0].0, "notes:///{name}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn pr_3_co_2_a_note_is_summarised_and_its_name_completed() {
    let (_folder, catalog) = notes(&[("shop.md", b"# Shop"), ("Show.md", b""), ("tea.md", b"")]).await;
    let prompt = |name: &str| Retrieval::Prompt {
        name: "summarise_note".to_owned(),
        arguments: RawJson::of(&json!({ "name": name })),
    };
    match retrieve(&catalog, prompt("shop.md")).await {
        ProviderAnswer::Prompt(result) => {
            let result: Value = result.decode().expect("JSON");
            assert_eq!(
                result["messages"][0]["content"],
                json!({"type": "resource", "resource":
                    {"uri": "notes:///shop.md", "mimeType": "text/markdown", "text": "# Shop"}})
            );
            assert_eq!(result["messages"][1]["content"]["type"], "text");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(failure(&catalog, prompt("none")).await.code, -32602);
    let complete = |reference, name: &str| Retrieval::Complete {
        reference,
        name: name.to_owned(),
        value: "sho".to_owned(),
        settled: RawJson::empty_object(),
    };
    let of_prompt = Reference::Prompt { name: "summarise_note".to_owned() };
    let of_template = Reference::Template { uri: "notes:///{name}".to_owned() };
    for reference in [of_prompt.clone(), of_template] {
        match retrieve(&catalog, complete(reference, "name")).await {
            ProviderAnswer::Completion(result) => assert_eq!(
                result.decode::<Value>().expect("JSON")["completion"],
                json!({"values": ["shop.md", "Show.md"], "total": 2, "hasMore": false})
            ),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(failure(&catalog, complete(of_prompt, "other")).await.code, -32602);
}
