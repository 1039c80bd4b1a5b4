//! Secrets reach the plugins that they are meant for, and appear in no output of the host.

use serde_json::{Value, json};
use std::path::Path;
use toolyard_tests::{Host, Session, Setup, Site, eventually, text, until};

const SECRET: &str = "sk-\"quoted\"/Zürich+42";

/// Every encoding in which the secret could appear.
fn forms() -> Vec<String> {
    use base64::Engine as _;
    let json = Value::from(SECRET).to_string();
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let base64 = base64::engine::general_purpose::STANDARD_NO_PAD.encode(SECRET);
    let plain = [SECRET, &json[1..json.len() - 1], "Zürich+42", "sk-\"quo"].map(str::to_owned);
    plain.into_iter().chain([hex, base64]).collect()
}

fn assert_clean(what: &str, bytes: &[u8]) {
    for form in forms() {
        let found = bytes.windows(form.len()).any(|window| window == form.as_bytes());
        assert!(!found, "{form} appears in {what}");
    }
}

pub fn every_file(folder: &Path, look: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            every_file(&path, look);
        } else if path.is_file() {
            look(&path, &std::fs::read(&path).expect("readable"));
        }
    }
}

async fn start(manifest: &str) -> (Host, Session) {
    let setup = Setup::fixture("net_try", manifest);
    std::fs::write(setup.plugins().join("api.key"), format!("{SECRET}\n")).expect("writes");
    setup.open().await
}

async fn length(session: &Session) -> String {
    text(&session.call("leak", json!({ "how": "length" })).await).to_owned()
}

#[tokio::test]
async fn a_secret_leaves_the_host_in_nothing_that_it_says() {
    let (host, session) = start("[secrets]\nAPI_KEY = { file = \"./api.key\" }").await;
    assert_eq!(length(&session).await, SECRET.len().to_string(), "the guest has it, without the newline");
    for how in "text structured error rpc trap print progress status log ask changed encoded".split(' ') {
        let params = json!({"name": "leak", "arguments": {"how": how}, "_meta": {"progressToken": how}});
        let (answer, notices) = session.request_and_notices("tools/call", params).await;
        assert_clean(how, answer.to_string().as_bytes());
        assert_clean(how, format!("{notices:?}").as_bytes());
        if ["text", "structured", "rpc", "encoded"].contains(&how) {
            assert!(answer.to_string().contains("[secret API_KEY]"), "{how}: {answer}");
        }
        let id = session.create("leak", json!({ "how": how })).await;
        let task = eventually("the task to end", || async {
            let task = session.task(&id).await;
            (task["status"] == "completed" || task["status"] == "failed").then_some(task)
        })
        .await;
        assert_clean(how, task.to_string().as_bytes());
        let end = session.request("tasks/result", json!({ "taskId": id })).await;
        assert_clean(how, end.to_string().as_bytes());
    }
    host.logs("[secret API_KEY]").await;
    assert_clean("the log", host.log().as_bytes());
    let mut files = 0;
    every_file(&host.data(), &mut |path, bytes| {
        files += 1;
        assert_clean(&path.display().to_string(), bytes);
    });
    assert!(files > 0);
}

#[tokio::test]
async fn an_injected_secret_reaches_its_host_and_never_the_guest() {
    let site = Site::start().await;
    let manifest = format!(
        "[http]\nallow = [\"localhost:{port}\", \"127.0.0.1:{port}\"]\n\
         [http.inject.\"localhost:{port}\"]\nAuthorization = \"Bearer {{API_KEY}}\"\n\
         [secrets]\nAPI_KEY = {{ file = \"./plain.key\" }}\n",
        port = site.port()
    );
    let setup = Setup::fixture("net_try", &manifest);
    std::fs::write(setup.plugins().join("plain.key"), "plain-secret-value").expect("writes");
    let (_host, session) = setup.open().await;
    assert_eq!(length(&session).await, "there is none".len().to_string(), "the guest does not have it");

    let own = json!([["authorization", "the guest's"]]);
    let result = session.call("request", json!({ "url": site.url("/echo"), "headers": own })).await;
    assert_eq!(result["isError"], false, "the guest saw only its own headers: {result}");
    let head = site.seen().remove(0);
    assert!(head.contains("authorization: Bearer plain-secret-value"), "{head}");
    assert!(!head.contains("the guest's"), "{head}");
    let result = result.to_string();
    assert!(result.contains("Bearer [secret API_KEY]"), "what the server echoes is not said: {result}");

    let elsewhere = format!("http://127.0.0.1:{}/echo", site.port());
    session.call("request", json!({ "url": elsewhere })).await;
    assert!(!site.seen().remove(1).contains("authorization"));
}

#[tokio::test]
async fn a_new_value_counts_at_sighup_and_when_the_manifest_is_touched_and_a_failure_keeps_what_serves() {
    for source in ["{ file = \"./api.key\" }", "{ command = \"vault\" }"] {
        let manifest = format!("[secrets]\nAPI_KEY = {source}");
        let setup = Setup::fixture("net_try", &manifest);
        let file = setup.plugins().join("api.key");
        std::fs::write(&file, "a first value\n").expect("writes");
        let command = format!("[secret-commands]\nvault = [\"cat\", {:?}]\n", file.display().to_string());
        let (host, session) = setup.config(&command).open().await;
        assert_eq!(length(&session).await, "13", "{source}");
        std::fs::write(&file, "a second value\n").expect("writes");
        host.signal(rustix::process::Signal::HUP);
        until("the second value", || async { length(&session).await == "14" }).await;
        std::fs::write(&file, "the third value\n").expect("writes");
        std::fs::write(host.plugins().join("net_try.toml"), &manifest).expect("writes");
        until("the third value", || async { length(&session).await == "15" }).await;
        let result = session.call("leak", json!({ "how": "text" })).await;
        assert_eq!(result["content"][0]["text"], "[secret API_KEY]");
        std::fs::remove_file(&file).expect("removes");
        host.signal(rustix::process::Signal::HUP);
        host.logs("plugin.previous_kept").await;
        assert_eq!(length(&session).await, "15", "{source}");
    }
}
