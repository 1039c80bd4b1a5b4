//! Resources, prompts and completion from plugins (R-*, PR-*, CO-*, N-1), and which clients are notified of
//! changes.

use crate::questions::{accepted, scripted};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use toolyard_tests::exchange::{next, next_of};
use toolyard_tests::host::{Setup, install};
use toolyard_tests::session::LATEST;
use toolyard_tests::{Host, Session, eventually, guests};

/// A host with all resources and prompts of the plugins, in pages of two.
async fn library() -> (Host, Session) {
    let components = [guests::fixture("conformance"), guests::fixture("library"), guests::fixture("script")];
    let (host, session) =
        Setup::new().with(&components).set("lists.page", "2").open_as(json!({"elicitation": {}})).await;
    (host, session)
}

/// All entries of a listing, page by page.
async fn all(session: &Session, method: &str, name: &str) -> Vec<Value> {
    let mut entries = Vec::new();
    let mut params = json!({});
    loop {
        let page = session.result(method, params).await;
        entries.extend(page[name].as_array().expect("a list").iter().cloned());
        let Some(cursor) = page.get("nextCursor") else { return entries };
        assert!(cursor.as_str().is_some_and(|cursor| !cursor.is_empty()), "N-1: {page}");
        params = json!({"cursor": cursor});
    }
}

fn texts<'a>(entries: &'a [Value], member: &str) -> Vec<&'a str> {
    entries.iter().map(|entry| entry[member].as_str().expect("a text")).collect()
}

#[tokio::test]
async fn r_1_pr_1_co_1_only_what_a_plugin_offers_is_declared_and_answered() {
    let host = Host::with_probe().await;
    let opened = Session::open_as(host.port(), LATEST, json!({})).await;
    let declared = &opened.result["capabilities"];
    for name in ["resources", "prompts", "completions"] {
        assert!(declared.get(name).is_none(), "{declared}");
    }
    for method in ["resources/list", "resources/read", "prompts/list", "prompts/get", "completion/complete"] {
        assert_eq!(opened.session.error(method, json!({})).await["code"], -32601, "{method}");
    }
    let (host, _session) = library().await;
    let opened = Session::open_as(host.port(), LATEST, json!({})).await;
    let declared = &opened.result["capabilities"];
    assert_eq!(declared["resources"], json!({"subscribe": true, "listChanged": true}));
    assert_eq!(declared["prompts"], json!({"listChanged": true}));
    assert_eq!(declared["completions"], json!({}));
}

#[tokio::test]
async fn r_2_n_1_resources_of_all_plugins_are_listed_once_each() {
    let (_host, session) = library().await;
    let entries = all(&session, "resources/list", "resources").await;
    let uris = texts(&entries, "uri");
    let distinct: BTreeSet<_> = uris.iter().collect();
    assert_eq!(distinct.len(), uris.len(), "{uris:?}");
    assert_eq!(uris.len(), 3 + 5, "{uris:?}");
    let book = entries.iter().find(|entry| entry["uri"] == "book:/3").expect("a book");
    assert_eq!(book["name"], "Book 3");
    assert_eq!(book["annotations"]["priority"], 0.5);
    for cursor in ["", "x", "AAAA"] {
        assert_eq!(session.error("resources/list", json!({"cursor": cursor})).await["code"], -32602);
    }
    // A cursor of another list is invalid here.
    let page = session.result("prompts/list", json!({})).await;
    let cursor = page["nextCursor"].as_str().expect("more prompts");
    assert_eq!(session.error("resources/list", json!({"cursor": cursor})).await["code"], -32602);
}

#[tokio::test]
async fn r_4_r_5_a_read_gives_text_or_blob_and_what_is_not_there_is_said() {
    let (_host, session) = library().await;
    let read = async |uri: &str| session.request("resources/read", json!({"uri": uri})).await;
    let text = read("book:/1").await;
    assert_eq!(text["result"]["contents"][0]["text"], "the first");
    assert_eq!(text["result"]["contents"][0]["uri"], "book:/1");
    assert_eq!(text["result"]["contents"][0]["_meta"]["shelf"], 3);
    let blob = read("book:/blob").await;
    assert_eq!(blob["result"]["contents"][0]["blob"], "AP8B", "base64");
    let missing = read("book:/99").await;
    assert_eq!(missing["error"]["code"], -32002);
    assert_eq!(missing["error"]["data"], json!({"uri": "book:/99"}));
    assert_eq!(read("book:/forbidden").await["error"]["code"], -32602, "the plugin's own word");
    for wrong in ["no scheme", "", "book:/a b", "book:/%zz"] {
        assert_eq!(read(wrong).await["error"]["code"], -32602, "{wrong:?}");
    }
    assert_eq!(session.error("resources/read", json!({})).await["code"], -32602);
}

#[tokio::test]
async fn a_plugin_that_fails_hides_nobody_elses_resources() {
    let components = [guests::fixture("bad_resources"), guests::fixture("conformance")];
    let (_host, session) = Setup::new().with(&components).open().await;
    let entries = all(&session, "resources/list", "resources").await;
    assert!(texts(&entries, "uri").contains(&"test://static-text"), "{entries:?}");
    let read = session.result("resources/read", json!({"uri": "test://static-text"})).await;
    assert!(read["contents"][0]["text"].is_string());
}

#[tokio::test]
async fn a_resource_may_ask_before_it_is_read() {
    let (_host, session) = library().await;
    let mut read = session.begin("resources/read", json!({"uri": "script:ask"})).await;
    let asked = read.message().await;
    assert_eq!(asked["params"]["message"], "May it be read?");
    session.respond(&asked, accepted()).await;
    let (answer, _) = read.answer().await;
    let text = answer["result"]["contents"][0]["text"].as_str().expect("a text");
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), json!({"read": accepted()}));
}

#[tokio::test]
async fn pr_2_to_pr_4_prompts_are_listed_made_and_their_arguments_checked() {
    let (_host, session) = library().await;
    let entries = all(&session, "prompts/list", "prompts").await;
    let names = texts(&entries, "name");
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(names.len(), 5 + 2);
    let recommend = entries.iter().find(|entry| entry["name"] == "recommend").expect("a prompt");
    assert_eq!(recommend["arguments"][0]["required"], true);
    let get = async |params: Value| session.request("prompts/get", params).await;
    let made = get(json!({"name": "recommend", "arguments": {"genre": "crime"}})).await;
    assert_eq!(made["result"]["description"], "d");
    let messages = made["result"]["messages"].as_array().expect("messages");
    assert_eq!(messages[0], json!({"role": "user", "content": {"type": "text", "text": "recommend: crime"}}));
    assert_eq!(messages[1]["role"], "assistant");
    for wrong in [
        json!({"name": "recommend"}),
        json!({"name": "recommend", "arguments": {"genre": 5}}),
        json!({"name": "nobody"}),
        json!({}),
    ] {
        assert_eq!(get(wrong.clone()).await["error"]["code"], -32602, "{wrong}");
    }
}

#[tokio::test]
async fn co_2_co_3_arguments_are_completed_and_unknown_ones_refused() {
    let (_host, session) = library().await;
    let complete = async |reference: Value, name: &str, value: &str| {
        let params = json!({
            "ref": reference, "argument": {"name": name, "value": value},
            "context": {"arguments": {"mood": "dark"}},
        });
        session.request("completion/complete", params).await
    };
    let prompt = json!({"type": "ref/prompt", "name": "recommend"});
    let template = json!({"type": "ref/resource", "uri": "book:/{n}"});
    let given = complete(prompt.clone(), "genre", "cr").await;
    assert_eq!(
        given["result"]["completion"]["values"],
        json!(["prompt recommend", "genre", "cr", r#"{"mood":"dark"}"#])
    );
    let given = complete(template.clone(), "n", "x").await;
    assert_eq!(given["result"]["completion"]["values"][0], "template book:/{n}");
    let many = complete(prompt.clone(), "genre", "150").await;
    assert_eq!(many["result"]["completion"]["values"].as_array().map(Vec::len), Some(100));
    assert_eq!(many["result"]["completion"]["hasMore"], true);
    for (reference, name) in [
        (prompt, "colour"),
        (template, "m"),
        (json!({"type": "ref/prompt", "name": "nobody"}), "genre"),
        (json!({"type": "ref/resource", "uri": "book:/{other}"}), "other"),
        (json!({"type": "ref/tool", "name": "script"}), "steps"),
    ] {
        assert_eq!(complete(reference.clone(), name, "").await["error"]["code"], -32602, "{reference}");
    }
}

#[tokio::test]
async fn r_6_an_update_goes_to_those_who_subscribed_and_a_burst_is_one() {
    let host = scripted().start().await;
    let (session, other) = (Session::open(host.port()).await, Session::open(host.port()).await);
    let (mut listening, mut others) = (session.listen().await, other.listen().await);
    for uri in ["note:/a", "note:/b"] {
        assert_eq!(session.result("resources/subscribe", json!({"uri": uri})).await, json!({}));
    }
    assert_eq!(session.result("resources/subscribe", json!({"uri": "note:/a"})).await, json!({}), "again");
    let burst: Vec<Value> = (0..100).map(|_| json!({"changed": "note:/a"})).collect();
    session.call("script", json!({"steps": burst})).await;
    let updated = next_of(&mut listening, "notifications/resources/updated").await;
    assert_eq!(updated["params"], json!({"uri": "note:/a"}));
    assert_eq!(session.result("resources/unsubscribe", json!({"uri": "note:/a"})).await, json!({}));
    session.call("script", json!({"steps": [{"changed": "note:/a"}, {"changed": "note:/c"}]})).await;
    session.call("script", json!({"steps": [{"changed": "note:/b"}]})).await;
    let updated = next_of(&mut listening, "notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "note:/b", "the burst was one, and what was left is not told");
    // The other session received nothing: its first message is a later one.
    session.call("script", json!({"steps": [{"changed": "tools"}]})).await;
    assert_eq!(next(&mut others).await.expect("open")["method"], "notifications/tools/list_changed");
    for wrong in [json!({}), json!({"uri": "not a uri"})] {
        assert_eq!(session.error("resources/subscribe", wrong).await["code"], -32602);
    }
}

#[tokio::test]
async fn r_6_subscriptions_outlive_a_restart_of_the_host_and_are_bounded() {
    let (mut host, session) = scripted().set("wire.subscriptions", "2").open().await;
    for uri in ["note:/a", "note:/b"] {
        session.result("resources/subscribe", json!({"uri": uri})).await;
    }
    let error = session.error("resources/subscribe", json!({"uri": "note:/c"})).await;
    assert_eq!(error["data"]["limit"], "wire.subscriptions");
    host.kill().await;
    let again = host.another().await;
    let session = session.at(again.port());
    let mut listening = session.listen().await;
    session.call("script", json!({"steps": [{"changed": "note:/a"}]})).await;
    let updated = next_of(&mut listening, "notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "note:/a");
}

#[tokio::test]
async fn r_7_pr_5_tl_1_lists_that_changed_are_told_once_a_burst_and_only_as_declared() {
    let host = scripted().start().await;
    let before = Session::open(host.port()).await;
    let mut listening = before.listen().await;
    let burst: Vec<Value> = (0..50).map(|_| json!({"changed": "resources"})).collect();
    before.call("script", json!({"steps": burst})).await;
    next_of(&mut listening, "notifications/resources/list_changed").await;
    // A plugin with prompts appears: the host announced no prompts to this session.
    install(&guests::fixture("conformance"), &host.plugins());
    let first = next(&mut listening).await.expect("open");
    assert_eq!(first["method"], "notifications/tools/list_changed", "the burst was one");
    eventually("the prompts to be there", || async {
        (before.request("prompts/list", json!({})).await.get("result").is_some()).then_some(())
    })
    .await;
    let after = Session::open(host.port()).await;
    let mut promised = after.listen().await;
    std::fs::remove_file(host.plugins().join("conformance.wasm")).expect("it was there");
    next_of(&mut promised, "notifications/prompts/list_changed").await;
    let mut heard = Vec::new();
    after.call("script", json!({"steps": [{"changed": "resources"}]})).await;
    loop {
        let message = next(&mut listening).await.expect("open");
        heard.push(message["method"].as_str().expect("a method").to_owned());
        let both = ["notifications/tools/list_changed", "notifications/resources/list_changed"];
        if both.iter().all(|method| heard.iter().any(|known| known == method)) {
            break;
        }
    }
    assert!(!heard.contains(&"notifications/prompts/list_changed".to_owned()), "L-6: {heard:?}");
    assert_eq!(
        after.result("prompts/list", json!({})).await["prompts"],
        json!([]),
        "an empty list, no fault"
    );
}

#[tokio::test]
async fn r_8_a_note_has_a_uri_of_its_own_scheme_and_a_link_to_it_can_be_read() {
    let setup = Setup::new().with(&[guests::plugin("notes")]);
    std::fs::create_dir(setup.plugins().join("mine")).expect("a folder");
    let (host, session) =
        setup.manifest("notes", "[fs]\n\"/notes\" = { path = \"mine\", mode = \"write\" }\n").open().await;
    let mut listening = session.listen().await;
    let result = session.call("append_note", json!({"name": "ideas", "text": "Ship it"})).await;
    let link =
        result["content"].as_array().expect("blocks").iter().find(|block| block["type"] == "resource_link");
    let uri = link.expect("a link")["uri"].as_str().expect("a URI").to_owned();
    assert!(uri.starts_with("notes:"), "no client can fetch it by itself: {uri}");
    let read = session.result("resources/read", json!({"uri": uri})).await;
    assert_eq!(read["contents"][0]["text"], "Ship it\n");
    next_of(&mut listening, "notifications/resources/list_changed").await;
    assert_eq!(std::fs::read_to_string(host.plugins().join("mine/ideas.md")).expect("the file"), "Ship it\n");
    let prompt = json!({"name": "summarise_note", "arguments": {"name": "ideas.md"}});
    let made = session.result("prompts/get", prompt).await;
    assert_eq!(made["messages"][0]["content"]["resource"]["uri"], uri);
    for outside in ["notes:///..%2Fmanifest.md", "notes:///%2Fetc%2Fpasswd", "notes:///../notes.toml"] {
        let error = session.error("resources/read", json!({"uri": outside})).await;
        assert!([-32002, -32602].map(|code| json!(code)).contains(&error["code"]), "{outside}: {error}");
    }
}
