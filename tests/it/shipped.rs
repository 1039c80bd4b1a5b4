//! Shipped plugins, as a client uses them: the real component with the manifest that ships with it.

use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use toolyard_tests::{Session, Setup, guests};

async fn failure(session: &Session, tool: &str, arguments: Value) -> String {
    let result = session.call(tool, arguments).await;
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn what_cannot_be_had_of_files_is_said_with_what_to_do() {
    let setup = Setup::new().with(&[guests::plugin("files")]);
    let manifest = guests::root().join("plugins/files/files.toml");
    std::fs::copy(manifest, setup.plugins().join("files.toml")).expect("the shipped manifest");
    std::fs::create_dir_all(setup.plugins().join("files/docs")).expect("makes");
    std::fs::write(setup.plugins().join("files/docs/plan.txt"), "x").expect("writes");
    let (host, session) = setup.open().await;
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
