//! Providers that misbehave. Each fails only its own request, with a sentence that says how.

use crate::kit::{BOUND, Folder, Recorder, engine, eventually, failure, only, read, retrieve, settings, why};
use std::sync::Arc;
use toolyard_task::provider::{ProviderAnswer, Retrieval, RetrievalEnd};

fn page(cursor: &str) -> Retrieval {
    Retrieval::Resources { cursor: Some(cursor.to_owned()) }
}

#[tokio::test]
async fn r_2_r_3_a_wrong_entry_fails_the_listing_and_is_named() {
    let catalog = only(&engine(&settings()), "bad_resources", "[limits]\noutput = \"512KiB\"").await;
    for (cursor, says) in [
        ("uri", "the entry 1 (`not a uri`): its `uri` is not an absolute URI"),
        ("large", "output limit of 512.0 KiB (`limits.output`)"),
    ] {
        let error = failure(&catalog, page(cursor)).await;
        assert_eq!(error.code, -32603, "{cursor}");
        assert!(error.message.starts_with("The list of resources of `guest.wasm` "), "{error}");
        assert!(error.message.contains(says), "{error}");
    }
    let error = failure(&catalog, Retrieval::Templates).await;
    assert!(error.message.contains("the template 0 (`a:{unclosed`)"), "{error}");
    let error = failure(&catalog, page("error")).await;
    assert_eq!((error.code, error.data.expect("data").as_str()), (-5, "7"), "its own error passes");
}

#[tokio::test]
async fn r_4_what_is_read_is_limited_as_a_tool_is() {
    let limits = "[limits]\noutput = \"512KiB\"\ncpu = \"50ms\"";
    let catalog = only(&engine(&settings()), "bad_resources", limits).await;
    for (uri, says) in [
        ("a:trap", "The resource `a:trap` trapped: wasm `unreachable` instruction executed"),
        ("a:spin", "The resource `a:spin` was stopped: processor time limit of 50ms reached (`limits.cpu`)"),
        ("a:grow", "memory limit of 64.0 MiB reached (`limits.memory`)"),
        ("a:large", "The resource `a:large` gave a result above the output limit of 512.0 KiB"),
    ] {
        let error = failure(&catalog, read(uri)).await;
        assert_eq!(error.code, -32603, "{uri}");
        assert!(error.message.contains(says), "{error}");
    }
    assert_eq!(
        retrieve(&catalog, read("a:none")).await,
        ProviderAnswer::Contents(None),
        "the provider still works"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_computes_for_ever_is_stopped_at_once() {
    let engine = engine(&settings());
    let catalog = only(&engine, "bad_resources", "").await;
    let provider = catalog.providers()[0].clone();
    let recorder = Arc::new(Recorder::default());
    let running = tokio::spawn(provider.clone().serve(
        read("a:spin"),
        provider.reserve().expect("reserved"),
        recorder.clone(),
    ));
    eventually("it runs", || (engine.running() == 1).then_some(())).await;
    recorder.stop();
    provider.interrupt();
    let ended = tokio::time::timeout(BOUND, running).await.expect("in time").expect("no panic");
    assert_eq!(ended, RetrievalEnd::Stopped);
    assert_eq!(engine.running(), 0);
}

#[tokio::test]
async fn functions_of_other_types_are_refused_when_they_are_loaded() {
    let folder = Folder::new();
    // A `complete` function without parameters.
    let component = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $c (export "complete" (func $f)))
        (export "toolyard:plugin/completion@0.1.0" (instance $c)))"#;
    folder.put("types.wasm", &wat::parse_str(component).expect("parses"));
    let why = why(&folder.load(&engine(&settings())).await, "types.wasm");
    assert!(why.contains("types.wasm: does not fit the contract: "), "{why}");
}
