//! The pages of the console beyond tasks: permissions, clients, hosts, plugins, the audit log.

use super::{Sender, audit_entries, refuses_what_no_page_sent};
use crate::permissions::{ASK, allowed, call_saying, files, unasked};
use crate::questions::everything;
use serde_json::json;
use toolyard_tests::{LATEST, Setup, eventually};

/// The first action on a page whose path begins like this.
fn action(page: &str, begin: &str) -> String {
    let (_, rest) = page.split_once(&format!("action=\"{begin}")).expect("a form");
    format!("{begin}{}", rest.split('"').next().expect("the end of a path"))
}

#[tokio::test]
async fn a_person_revokes_permissions_one_by_one_and_all_of_a_plugin_or_a_principal() {
    let host = files(ASK).principals(&["alice", "bob"]).set("console.listen", "127.0.0.1:0").start().await;
    let alice = host.session_as("alice", everything()).await;
    let bob = host.session_as("bob", everything()).await;
    let ada = Sender::logged_in(&host).await;
    let (_, none) = ada.get("/permissions").await;
    assert!(none.contains("No permission is kept yet"), "{none}");
    assert!(none.contains("as /data"), "what the manifest leaves to the person: {none}");
    allowed(&call_saying(&alice, "always").await);
    call_saying(&bob, "never").await;
    let (_, page) = ada.get("/permissions").await;
    for text in ["token:alice", "token:bob", "files.wasm", "deny"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    // One: the first is of alice.
    let one = action(&page, "/permissions/");
    allowed(&unasked(&alice).await);
    assert_eq!(ada.act("/permissions", &one, "").await.status, 303);
    allowed(&call_saying(&alice, "always").await);
    // All of a principal: the permission of the other stays.
    let (of_bob, all_of_bob) =
        ("/permissions?principal=token%3Abob", "/permissions/principal/token%3Abob/revoke");
    let (_, page) = ada.get(of_bob).await;
    assert!(page.contains("1 permission of the principal") && !page.contains("token:alice"), "{page}");
    ada.act(of_bob, all_of_bob, "").await;
    allowed(&unasked(&alice).await);
    allowed(&call_saying(&bob, "always").await);
    // All of a plugin.
    let (of_plugin, all_of_plugin) =
        ("/permissions?plugin=files.wasm", "/permissions/plugin/files.wasm/revoke");
    ada.act(of_plugin, all_of_plugin, "").await;
    assert!(ada.get("/permissions").await.1.contains("No permission is kept yet"));
    let revoked = eventually("the entries", || async {
        let entries = audit_entries(&host, "permission.revoked");
        (entries.len() == 4).then_some(entries)
    })
    .await;
    assert!(revoked.iter().all(|entry| entry["principal"] == "operator" && entry["console"].is_string()));
}

#[tokio::test]
async fn a_person_ends_the_session_of_a_client() {
    let (host, session) =
        Setup::probe().set("console.listen", "127.0.0.1:0").open_as(json!({"elicitation": {}})).await;
    let (ada, eve) = (Sender::logged_in(&host).await, Sender::logged_in(&host).await);
    let (_, page) = ada.get("/clients").await;
    assert!(page.contains("can be asked by form") && page.contains(LATEST), "{page}");
    assert!(!page.contains(session.id()), "the id of a session is a credential");
    let end = action(&page, "/clients/");
    refuses_what_no_page_sent(&ada, &eve, &end, "/clients", "").await;
    session.call("echo", json!({"text": "still open"})).await;
    assert_eq!(ada.act("/clients", &end, "").await.status, 303);
    let call = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/list", "params": {}});
    assert_eq!(session.post(&call).await.status, 404, "the session has ended");
    let (_, page) = ada.get("/clients").await;
    assert!(page.contains("No client has a session"), "{page}");
    let ended = eventually("the entry", || async { audit_entries(&host, "session.ended").pop() }).await;
    assert_eq!(ended["principal"], "operator");
    assert!(ended["console"].is_string() && ended["session"].is_string(), "{ended}");
}

#[tokio::test]
async fn a_plugin_shows_what_it_may_reach_and_other_names_are_no_page() {
    let manifest = "[env]\nLANG = \"C\"\n[http]\nallow = [\"api.example.com\"]\n";
    let setup = Setup::probe().manifest("probe", manifest).set("console.listen", "127.0.0.1:0");
    let (host, _session) = setup.open_as(json!({})).await;
    let ada = Sender::logged_in(&host).await;
    let (_, tools) = ada.get("/tools").await;
    assert!(tools.contains("href=\"/tools/probe.wasm\""), "{tools}");
    let (status, page) = ada.get("/tools/probe.wasm").await;
    assert_eq!(status, 200);
    let parts =
        "environment: LANG|requests to api.example.com|[http]: nothing in it|enabled = false|The tool says:";
    for part in parts.split('|') {
        assert!(page.contains(part), "{part}: {page}");
    }
    for other in ["none.wasm", "..%2Fprobe.wasm", "probe.toml", "%00", ""] {
        assert_eq!(ada.get(&format!("/tools/{other}")).await.0, 404, "{other}");
    }
    let (_, hosts) = ada.get("/hosts").await;
    assert!(hosts.contains("No other host shares this store"), "{hosts}");
}

/// The browser shows the forms and the results.
#[tokio::test]
async fn a_tool_is_tried_plainly_and_as_a_task_under_the_rules() {
    let rules = "[[rules]]\nname = \"no traps\"\neffect = \"deny\"\ntools = [\"trap\"]\n\n[[rules]]\nname = \"rest\"\neffect = \"allow\"\ntools = [\"*\"]\n";
    let setup = Setup::probe().config(rules).set("console.listen", "127.0.0.1:0");
    let (host, _session) = setup.open_as(json!({})).await;
    let (ada, eve) = (Sender::logged_in(&host).await, Sender::logged_in(&host).await);
    refuses_what_no_page_sent(&ada, &eve, "/try/echo", "/try/echo", "&f.text=x&how=plain").await;
    let send = async |tool: &str, fields: &str| {
        let action = format!("/try/{tool}");
        let answer = ada.act(&action, &action, fields).await;
        let (status, location) = (answer.status.as_u16(), answer.header("location").to_owned());
        (status, location, answer.text().await)
    };
    // The rules of the user of this machine apply.
    let (status, _, page) = send("trap", "how=plain").await;
    assert!(status == 200 && page.contains("Unknown tool"), "{page}");
    let (status, task, _) = send("ask", "f.question=Name%3F&how=task").await;
    assert!(status == 303 && task.starts_with("/tasks/"), "{task}");
    let created = eventually("the entry", || async { audit_entries(&host, "task.created").pop() }).await;
    assert_eq!(created["principal"], "local");
    assert!(created["console"].is_string(), "{created}");
}
