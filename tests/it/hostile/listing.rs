//! Plugins whose resources delay or deceive clients that list and read resources. The honest plugin `library`
//! runs beside them, and every client must get the books of `library`.

use super::stage::Stage;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolyard_tests::host::install_bytes;
use toolyard_tests::{Session, Setup, eventually, guests};

/// The time that one plugin may take for a list.
const LIST_TIME: Duration = Duration::from_secs(2);
/// A list takes at most twice that; a slow machine adds to it.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn listing() {
    let setup = Setup::new().with(&[guests::fixture("library")]);
    // Their names sort before and after the honest plugin.
    let names = ["a_sleeps", "a_spins", "a_empty", "a_repeats", "a_impostor", "z_claims"];
    for (name, choice) in names.into_iter().zip(0..).chain([("z_sleeps", 0)]) {
        install_bytes(setup.plugins(), &format!("{name}.wasm"), &guests::hostile_resources(choice));
    }
    // A plugin that comes first by name and answers every URI.
    let setup = setup
        .manifest("a_impostor", "[limits]\nstdio = \"1MiB\"\n")
        .manifest("library", "[resources]\nuris = [\"book:/*\"]\n");
    let stage = Stage::open(setup).await;
    attacks!(stage;
        sleep_in_a_list_of_resources, empty_pages_for_ever, repeat_a_cursor, answer_for_another_plugin, claim_another_plugins_resources, sleep_in_a_completion,
        hang_up_on_lists_that_spin,
    );
    stage.at_rest().await;
}

/// If a manifest claims URIs, they belong to its plugin, even if another plugin lists them first.
#[tokio::test]
async fn a_manifest_gives_uris_to_its_plugin_and_bounds_it() {
    let setup = Setup::new().with(&[guests::fixture("library")]);
    for (name, choice) in [("a_claims", 5), ("a_impostor", 4), ("b_claims", 5)] {
        install_bytes(setup.plugins(), &format!("{name}.wasm"), &guests::hostile_resources(choice));
    }
    let (host, session) = setup
        .manifest("library", "[resources]\nuris = [\"book:/*\"]\n")
        .manifest("b_claims", "[resources]\nuris = [\"other:*\"]\n")
        .open()
        .await;
    // Before the first listing.
    let error = session.error("resources/read", json!({"uri": "BOOK:/1"})).await;
    assert_eq!(error["code"], -32002, "the plugin does not know this spelling, and no other is asked");
    let read = session.result("resources/read", json!({"uri": "book:/1"})).await;
    assert_eq!(read["contents"][0]["text"], "the first");
    let page = session.result("resources/list", json!({})).await;
    let entries = page["resources"].as_array().expect("a list");
    assert!(!entries.is_empty() && entries.iter().all(|entry| entry["name"] != "impostor"), "{page}");
    let templates = session.result("resources/templates/list", json!({})).await;
    let all = templates["resourceTemplates"].as_array().expect("a list").iter();
    let mine: Vec<&Value> = all.filter(|entry| entry["uriTemplate"] == "book:/{n}").collect();
    assert!(mine.len() == 1 && mine[0]["name"] == "book", "{templates}");
    assert!(!host.log().contains("learns of book:/"), "no other plugin learns what is read");
    // The URIs in its manifest reach no other plugin, and this plugin answers for no other URIs.
    let read = session.result("resources/read", json!({"uri": "other:1"})).await;
    assert_eq!(read["contents"][0]["text"], "the impostor's");
    host.logs("learns of other:1").await;
}

/// All resources that a new client receives, and the time of the longest page.
async fn list(stage: &Stage) -> (Vec<Value>, Duration) {
    let session = Session::open(stage.host.port()).await;
    let (mut entries, mut longest, mut params) = (Vec::new(), Duration::ZERO, json!({}));
    loop {
        let begun = Instant::now();
        let page = session.result("resources/list", params).await;
        longest = longest.max(begun.elapsed());
        entries.extend(page["resources"].as_array().expect("a list").iter().cloned());
        let Some(cursor) = page.get("nextCursor") else { return (entries, longest) };
        params = json!({"cursor": cursor});
    }
}

/// Lists as a new client. All books are there soon, each once, and the log says why this plugin is missing.
async fn left_out(stage: &Stage, plugin: &str, why: &str) {
    let before = stage.host.log().len();
    let (entries, longest) = list(stage).await;
    let is_book = |entry: &&Value| entry["uri"].as_str().is_some_and(|uri| uri.starts_with("book:"));
    let names: Vec<_> = entries.iter().filter(is_book).filter_map(|book| book["name"].as_str()).collect();
    assert_eq!(names, ["Book 0", "Book 1", "Book 2", "Book 3", "Book 4"]);
    assert!(longest < SOON, "a page took {longest:?}");
    let log = stage.host.log();
    let said = log[before..].lines().find(|line| line.contains(plugin) && line.contains(why));
    assert!(said.is_some(), "{plugin} should be left out because {why}: {}", &log[before..]);
    eprintln!("{plugin}: left out ({why}); the longest page took {longest:?}");
}

async fn sleep_in_a_list_of_resources(stage: &Stage) {
    left_out(stage, "a_sleeps.wasm", "it took longer than 2s").await;
    let session = Session::open(stage.host.port()).await;
    let templates = session.result("resources/templates/list", json!({})).await;
    let all = templates["resourceTemplates"].as_array().expect("a list");
    assert!(all.iter().any(|template| template["name"] == "book"), "{templates}");
}

async fn empty_pages_for_ever(stage: &Stage) {
    left_out(stage, "a_empty.wasm", "pages without entries and without an end").await;
}

async fn repeat_a_cursor(stage: &Stage) {
    left_out(stage, "a_repeats.wasm", "its cursor repeats").await;
}

/// Plugins that come first by name neither answer for other plugins nor learn which resources clients read.
async fn answer_for_another_plugin(stage: &Stage) {
    let session = Session::open(stage.host.port()).await;
    for _ in 0..3 {
        let begun = Instant::now();
        let read = session.result("resources/read", json!({"uri": "book:/1"})).await;
        assert_eq!(read["contents"][0]["text"], "the first");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
    // No plugin lists this URI.
    let read = session.result("resources/read", json!({"uri": "book:/blob"})).await;
    assert_eq!(read["contents"][0]["blob"], "AP8B");
    assert_eq!(session.error("resources/read", json!({"uri": "book:/99"})).await["code"], -32002);
    assert!(!stage.host.log().contains("learns of book:/"), "no other plugin learns what is read");
}

async fn claim_another_plugins_resources(stage: &Stage) {
    left_out(stage, "z_claims.wasm", "event=\"resources.uris_left_out\"").await;
    let session = Session::open(stage.host.port()).await;
    let read = session.result("resources/read", json!({"uri": "book:/1"})).await;
    assert_eq!(read["contents"][0]["text"], "the first");
}

async fn sleep_in_a_completion(stage: &Stage) {
    let session = Session::open(stage.host.port()).await;
    let params = json!({"ref": {"type": "ref/resource", "uri": "book:/{n}"},
        "argument": {"name": "n", "value": "x"}});
    let begun = Instant::now();
    let completion = session.result("completion/complete", params).await;
    assert_eq!(completion["completion"]["values"][0], "template book:/{n}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

/// If clients ask and hang up, the host stops the work for them.
async fn hang_up_on_lists_that_spin(stage: &Stage) {
    for _ in 0..10 {
        let session = Session::open(stage.host.port()).await;
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {}});
        drop(tokio::time::timeout(LIST_TIME / 5, session.post(&message)).await);
    }
    let mut last: Option<(Instant, u64)> = None;
    eventually("the host to compute nothing any more", || {
        let now = (Instant::now(), stage.host.usage().ticks);
        let (then, before) = *last.get_or_insert(now);
        if then.elapsed() < Duration::from_secs(1) {
            return std::future::ready(None);
        }
        last = Some(now);
        // The honest client continues to call meanwhile.
        std::future::ready((now.1 - before < 60).then_some(()))
    })
    .await;
}
