//! Files that are not plugins: the host refuses each of them by name, and serves the others.

use serde_json::{Value, json};
use toolyard_tests::guests;
use toolyard_tests::host::{Setup, install};

#[tokio::test]
async fn the_commands_name_each_file_that_is_no_plugin_and_the_host_serves_the_others() {
    let setup = Setup::probe();
    let folder = setup.plugins();
    std::fs::write(folder.join("text.wasm"), "just a text").expect("a write");
    std::fs::write(folder.join("core.wasm"), wat::parse_str("(module)").expect("valid WAT"))
        .expect("a write");
    install(&guests::fixture("dup"), &folder);
    let (host, session) = setup.open().await;
    assert_eq!(session.call("echo", json!({"text": "still here"})).await["content"][0]["text"], "still here");
    let output = host.command(&["tools", "--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    let lines = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (file, says) in [
        ("text.wasm", "it is text"),
        ("core.wasm", "toolyard componentize core.wasm"),
        ("dup.wasm", "two tools are called `twin`"),
    ] {
        let refused = lines.iter().find(|line| line["plugin"] == file).expect("a line about it");
        assert!(refused["refused"].as_str().is_some_and(|why| why.contains(says)), "{refused}");
        let checked = host.command(&["check", folder.join(file).to_str().expect("plain")]).await;
        let why = String::from_utf8(checked.stderr).expect("text");
        assert!(checked.status.code() == Some(1) && why.contains(says), "{file}: {why}");
    }
}
