//! Shipped plugins, as a client uses them: the real component with the manifest that ships with it.

use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use toolyard_tests::host::Setup;
use toolyard_tests::{Host, Session, guests};

/// A host with the plugin `files` over a folder with these files.
async fn files(files: &[(&str, &[u8])]) -> (Host, Session) {
    let setup = Setup::new().with(&[guests::plugin("files")]);
    let manifest = guests::root().join("plugins/files/files.toml");
    std::fs::copy(manifest, setup.plugins().join("files.toml")).expect("the shipped manifest");
    let folder = setup.plugins().join("files");
    std::fs::create_dir(&folder).expect("makes");
    for (name, bytes) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("makes");
        std::fs::write(path, bytes).expect("writes");
    }
    setup.open().await
}

async fn failure(session: &Session, tool: &str, arguments: Value) -> String {
    let result = session.call(tool, arguments).await;
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn what_cannot_be_had_of_files_is_said_with_what_to_do() {
    let (host, session) = files(&[("docs/plan.txt", b"x")]).await;
    std::fs::write(host.plugins().join("outside.txt"), "not granted").expect("writes");
    symlink("../outside.txt", host.plugins().join("files/link.txt")).expect("links");
    for (path, says) in [
        ("none.txt", "There is no none.txt; `list_files` shows what there is."),
        ("docs", "docs is a folder; `list_files` shows what is in it."),
        ("../outside.txt", "leads upwards"),
        ("link.txt", "leads out of the granted folder"),
    ] {
        let told = failure(&session, "read_file", json!({"path": path})).await;
        assert!(told.contains(says), "{path}: {told}");
    }
    let listed = session.call("list_files", json!({"glob": "link*"})).await;
    assert_eq!(listed["structuredContent"]["entries"][0]["kind"], "link");
    let told = failure(&session, "list_files", json!({"path": "docs/plan.txt"})).await;
    assert!(told.contains("is a file"), "{told}");
    let told = failure(&session, "search_files", json!({"regex": "("})).await;
    assert!(told.contains("search for text by `query`"), "{told}");
}

#[tokio::test]
async fn files_are_searched_as_a_task_that_tells_its_progress() {
    let named: Vec<String> = (0..100).map(|n| format!("many/{n:03}.txt")).collect();
    let mut all: Vec<(&str, &[u8])> = named.iter().map(|name| (name.as_str(), &b"nothing\n"[..])).collect();
    all.push(("last.txt", b"first\nthe Needle is here\n"));
    let (_host, session) = files(&all).await;
    let arguments = json!({"query": "needle"});
    let params = json!({"name": "search_files", "arguments": arguments, "_meta": {"progressToken": "p"}});
    let mut listening = session.listen().await;
    let mut as_task = params.clone();
    as_task["task"] = json!({});
    let created = session.result("tools/call", as_task).await;
    let id = created["task"]["taskId"].as_str().expect("a task").to_owned();
    session.until(&id, "completed").await;
    let result = session.result("tasks/result", json!({"taskId": id})).await;
    let found = json!([{"path": "last.txt", "line": 2, "text": "the Needle is here"}]);
    assert_eq!(result["structuredContent"]["matches"], found);
    assert_eq!(result["structuredContent"]["searched"], 101);
    let progress = loop {
        let message = toolyard_tests::exchange::next(&mut listening).await.expect("progress");
        if message["method"] == "notifications/progress" {
            break message;
        }
    };
    assert_eq!(
        (&progress["params"]["progressToken"], &progress["params"]["total"]),
        (&json!("p"), &json!(101.0))
    );
}

/// A client without tasks gives the whole list to its model, which pays for it in each conversation.
#[tokio::test]
async fn half_of_the_shipped_tools_have_entries_of_at_most_800_bytes() {
    let setup = Setup::new().with(&["csv", "fetch", "files", "jq", "notes"].map(guests::plugin));
    for name in ["files", "notes"] {
        let manifest = guests::root().join(format!("plugins/{name}/{name}.toml"));
        std::fs::copy(manifest, setup.plugins().join(format!("{name}.toml"))).expect("the shipped manifest");
        std::fs::create_dir(setup.plugins().join(name)).expect("makes");
    }
    let (_host, session) = setup.set("bridge.enabled", "true").open().await;
    let listed = session.result("tools/list", json!({})).await;
    let tools = listed["tools"].as_array().expect("tools");
    let is_of_the_host = |tool: &&Value| tool["name"].as_str().is_some_and(|name| name.starts_with("task_"));
    let own = tools.iter().filter(|tool| !is_of_the_host(tool));
    let mut sizes: Vec<_> = own.map(|tool| tool.to_string().len()).collect();
    sizes.sort_unstable();
    assert!(sizes.len() == 9 && sizes[4] <= 800, "{sizes:?}");
}
