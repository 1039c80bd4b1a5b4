//! Shipped plugins, as a client uses them: the real component with the manifest that ships with it, and `fetch` against
//! a real site.

use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use toolyard_tests::{Host, Session, Setup, Site, guests, text};

/// The tool fails, and says this.
async fn fails(session: &Session, tool: &str, arguments: Value, says: &str) {
    let result = session.call(tool, arguments).await;
    assert!(result["isError"] == true && text(&result).contains(says), "{says}: {result}");
}

/// The setup with a shipped plugin, its manifest and the folder that this grants.
fn shipped(setup: Setup, name: &str) -> Setup {
    let manifest = guests::root().join(format!("plugins/{name}/{name}.toml"));
    std::fs::copy(manifest, setup.plugins().join(format!("{name}.toml"))).expect("the shipped manifest");
    std::fs::create_dir(setup.plugins().join(name)).expect("makes");
    setup.with(&[guests::plugin(name)])
}

#[tokio::test]
async fn what_cannot_be_had_of_files_is_said_with_what_to_do() {
    let setup = shipped(Setup::new(), "files");
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
        fails(&session, "read_file", json!({"path": path}), says).await;
    }
    let listed = session.call("list_files", json!({"glob": "link*"})).await;
    assert_eq!(listed["structuredContent"]["entries"][0]["kind"], "link");
    fails(&session, "list_files", json!({"path": "docs/plan.txt"}), "is a file").await;
    fails(&session, "search_files", json!({"regex": "("}), "search for text by `query`").await;
}

/// A client without tasks gives the whole list to its model, which pays for it in each conversation.
#[tokio::test]
async fn half_of_the_shipped_tools_have_entries_of_at_most_800_bytes() {
    let setup = Setup::new().with(&["csv", "fetch", "jq"].map(guests::plugin));
    let setup = ["files", "notes"].into_iter().fold(setup, shipped);
    let (_host, session) = setup.set("bridge.enabled", "true").open().await;
    let listed = session.result("tools/list", json!({})).await;
    let tools = listed["tools"].as_array().expect("tools");
    let is_of_the_host = |tool: &&Value| tool["name"].as_str().is_some_and(|name| name.starts_with("task_"));
    let own = tools.iter().filter(|tool| !is_of_the_host(tool));
    let mut sizes: Vec<_> = own.map(|tool| tool.to_string().len()).collect();
    sizes.sort_unstable();
    assert!(sizes.len() == 9 && sizes[4] <= 800, "{sizes:?}");
}

struct Web {
    site: Site,
    _host: Host,
    session: Session,
}

impl Web {
    /// With the grant of this site alone.
    async fn granted() -> Self {
        let site = Site::start().await;
        let manifest = format!("[http]\nallow = [\"localhost:{}\"]", site.port());
        let setup = Setup::new().with(&[guests::plugin("fetch")]).manifest("fetch", &manifest);
        let (host, session) = setup.open().await;
        Self { site, _host: host, session }
    }

    async fn fetch(&self, path: &str, more: Value) -> Value {
        let mut arguments = json!({ "url": self.site.url(path) });
        arguments.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        self.session.call("fetch", arguments).await
    }
}

#[tokio::test]
async fn redirects_are_followed_as_far_as_they_are_granted() {
    let web = Web::granted().await;
    let result = web.fetch("/redirect?/redirect?/json", json!({})).await;
    assert_eq!(result["structuredContent"]["finalUrl"], web.site.url("/json"), "{result}");
    for to in ["http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:1/", "http://example.com/"] {
        let result = web.fetch(&format!("/redirect?{to}"), json!({})).await;
        assert!(result["isError"] == true && text(&result).contains("`[http] allow`"), "{result}");
        assert!(result["content"][1]["text"].to_string().contains("fetch.toml"), "the host's word: {result}");
    }
    let result = web.fetch("/redirect?file:///etc/passwd", json!({})).await;
    assert!(result["isError"] == true && text(&result).contains("nowhere"), "{result}");
}

#[tokio::test]
async fn it_tells_how_far_it_is_and_gives_up_in_its_time() {
    let web = Web::granted().await;
    let params = json!({"name": "fetch", "arguments": {"url": web.site.url("/bytes?300000")},
        "_meta": {"progressToken": 1}});
    let (_, notices) = web.session.request_and_notices("tools/call", params).await;
    let progress = notices.iter().find(|notice| notice["method"] == "notifications/progress");
    assert_eq!(progress.expect("progress")["params"]["total"], 300_000.0, "{notices:?}");
    for path in ["/silent", "/stalled"] {
        let result = web.fetch(path, json!({ "timeoutMs": 200 })).await;
        assert!(result["isError"] == true && text(&result).contains("`timeoutMs`"), "{result}");
    }
}
