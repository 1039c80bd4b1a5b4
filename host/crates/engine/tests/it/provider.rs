//! Resources, prompts and completion of a well-behaved plugin without tools.

use crate::kit::{Folder, engine, failure, only, read, report, retrieve, serve, settings, state};
use serde_json::{Value, json};
use std::sync::Arc;
use toolyard_engine::{PluginState, Settings};
use toolyard_task::Catalog;
use toolyard_task::provider::{ProviderAnswer, Retrieval, RetrievalEnd};
use toolyard_task::wire::{RawJson, Reference};

async fn library(manifest: &str) -> Arc<Catalog> {
    only(&engine(&settings()), "library", manifest).await
}

fn value(json: &RawJson) -> Value {
    json.decode().expect("JSON")
}

fn page(cursor: Option<&str>) -> Retrieval {
    Retrieval::Resources { cursor: cursor.map(str::to_owned) }
}

fn prompt(name: &str, arguments: &str) -> Retrieval {
    let arguments = RawJson::parse(arguments.to_owned()).expect("JSON");
    Retrieval::Prompt { name: name.to_owned(), arguments }
}

fn complete(reference: Reference, text: &str) -> Retrieval {
    let (name, value) = ("genre".to_owned(), text.to_owned());
    Retrieval::Complete { reference, name, value, settled: RawJson::trusted("{\"mood\":\"glad\"}") }
}

#[tokio::test]
async fn r_1_pr_1_co_1_a_provider_says_what_it_has() {
    let catalog = library("[limits]\nconcurrency = 3").await;
    assert!(catalog.is_empty(), "no tools");
    let spec = catalog.providers()[0].spec();
    assert!(spec.has_resources && spec.has_prompts && spec.has_completion);
    assert_eq!((spec.plugin.as_str(), spec.concurrency), ("guest.wasm", Some(3)));
    let names: Vec<&str> = catalog.prompts().map(|prompt| prompt.name.as_str()).collect();
    assert_eq!(names, ["recommend", "unable"]);
    let (_, recommend) = catalog.prompt("recommend").expect("there");
    let arguments: Vec<(&str, bool)> =
        recommend.arguments.iter().map(|argument| (argument.name.as_str(), argument.required)).collect();
    assert_eq!(arguments, [("genre", true), ("mood", false)]);
}

#[tokio::test]
async fn r_2_n_1_resources_come_in_pages_of_the_guests_own() {
    let catalog = library("").await;
    let (mut cursor, mut seen) = (None, Vec::new());
    loop {
        let ProviderAnswer::Resources { entries, next } = retrieve(&catalog, page(cursor.as_deref())).await
        else {
            panic!("a page")
        };
        seen.extend(entries.iter().map(value));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 5);
    assert_eq!(
        seen[4],
        json!({"uri": "book:/4", "name": "Book 4", "mimeType": "text/plain", "size": 4, "annotations": {"priority": 0.5}})
    );
    let error = failure(&catalog, page(Some("9"))).await;
    assert_eq!((error.code, error.message.as_str()), (-32602, "no such page"), "the guest's own words");
}

#[tokio::test]
async fn a_failure_is_the_guests_own_or_names_what_failed() {
    let catalog = library("").await;
    assert_eq!(failure(&catalog, read("book:/forbidden")).await.message, "not this one");
    let error = failure(&catalog, prompt("unable", "{}")).await;
    assert!(error.code == -32603 && error.message.contains("prompt `unable`"), "{error}");
    // No tool is called, so none is named.
    let ProviderAnswer::Contents(Some(info)) = retrieve(&catalog, read("book:/info")).await else { panic!() };
    let text = value(&info)["contents"][0]["text"].as_str().expect("text").to_owned();
    let info: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&info["attempt"], info.get("tool")), (&json!(1), None));
}

#[tokio::test]
async fn a_prefix_is_put_before_prompts_and_taken_off_for_the_guest() {
    let catalog = library("prefix = \"city\"").await;
    assert!(catalog.prompt("recommend").is_none());
    let made = retrieve(&catalog, prompt("city_recommend", "{\"genre\":\"x\"}")).await;
    let ProviderAnswer::Prompt(result) = made else { panic!("{made:?}") };
    assert_eq!(value(&result)["messages"][0]["content"]["text"], "recommend: x");
    assert_eq!(failure(&catalog, prompt("recommend", "{}")).await.code, -32602);
    let reference = Reference::Prompt { name: "city_recommend".to_owned() };
    let completed = retrieve(&catalog, complete(reference, "x")).await;
    let ProviderAnswer::Completion(result) = completed else { panic!("{completed:?}") };
    assert_eq!(value(&result)["completion"]["values"][0], "prompt recommend");
}

#[tokio::test]
async fn prompts_of_one_name_collide_as_tools_do() {
    let folder = Folder::with(&[("b.wasm", "library"), ("a.wasm", "library")]);
    let engine = engine(&settings());
    let snapshot = folder.load(&engine).await;
    assert_eq!(state(&snapshot, "a.wasm"), &PluginState::Serving);
    let second = report(&snapshot, "b.wasm");
    assert_eq!(second.state, PluginState::Serving, "its resources are served");
    assert!(second.prompts.is_empty() && second.has_resources);
    let why = &second.left_out[0];
    assert!(why.contains("the prompt `recommend` is offered by both a.wasm and b.wasm"), "{why}");
    assert_eq!(snapshot.catalog.providers().len(), 2);
    assert_eq!(snapshot.catalog.prompts().count(), 2);
    let former = snapshot.catalog;
    folder.put("b.toml", b"prefix = \"b\"");
    let snapshot = folder.load(&engine).await;
    assert_eq!(report(&snapshot, "b.wasm").prompts, ["b_recommend", "b_unable"]);
    assert!(report(&snapshot, "b.wasm").has_resources && report(&snapshot, "b.wasm").has_completion);
    assert_eq!(snapshot.catalog.providers().len(), 2);
    assert!(!Arc::ptr_eq(&snapshot.catalog, &former), "clients get a new catalog");
}

#[tokio::test]
async fn what_a_component_offers_is_kept_with_its_code() {
    let home = tempfile::tempdir().expect("a folder");
    let settings = Settings { cache: Some(home.path().join("cache")), ..settings() };
    let folder = Folder::with(&[("library.wasm", "library")]);
    for found in [false, true] {
        let snapshot = folder.load(&engine(&settings)).await;
        assert_eq!(report(&snapshot, "library.wasm").compiled_in.is_none(), found);
        assert_eq!(report(&snapshot, "library.wasm").prompts, ["recommend", "unable"]);
        assert!(matches!(serve(&snapshot.catalog, Retrieval::Templates).await, RetrievalEnd::Done(_)));
    }
}

#[tokio::test]
async fn a_check_tells_of_resources_prompts_and_completion() {
    let folder = Folder::with(&[("library.wasm", "library"), ("add.wasm", "add")]);
    let engine = engine(&settings());
    let found = engine.check(&folder.file("library.wasm")).await.expect("a plugin");
    assert!(found.tools.is_empty() && found.has_resources && found.has_completion);
    assert_eq!(found.prompts[0].name, "recommend");
    let found = engine.check(&folder.file("add.wasm")).await.expect("a plugin");
    assert!(found.prompts.is_empty() && !found.has_resources && !found.has_completion);
}
