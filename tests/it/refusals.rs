//! Files that are not plugins: each refusal has its reason, and harms no other plugin.

use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use toolyard_tests::host::{Setup, install_as};
use toolyard_tests::{Session, guests};

struct Case {
    file: &'static str,
    says: &'static [&'static str],
}

fn fixtures() -> Vec<(&'static str, &'static [&'static str])> {
    vec![
        ("bad_name", &["bad name!"]),
        ("bad_schema", &["schema"]),
        ("schema_not_object", &["object"]),
        ("list_trap", &["list-tools"]),
        ("list_spin", &["list-tools"]),
        ("dup", &["twin"]),
    ]
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("valid WAT")
}

#[tokio::test]
async fn every_file_that_is_no_plugin_is_refused_by_name_with_what_is_wrong() {
    let setup = Setup::new().with(&[guests::plugin("probe")]);
    let folder = setup.plugins();
    let mut cases = Vec::new();
    let mut write = |file: &'static str, bytes: &[u8], says: &'static [&'static str]| {
        std::fs::write(folder.join(file), bytes).expect("a write");
        cases.push(Case { file, says });
    };
    write("text.wasm", b"just a text", &["not", "WebAssembly"]);
    write("empty.wasm", b"", &["empty"]);
    let core = component("(module)");
    write("core.wasm", &core, &["core module", "toolyard componentize core.wasm"]);
    let whole = std::fs::read(guests::fixture("add")).expect("a component");
    write("truncated.wasm", &whole[..whole.len() / 2], &[]);
    write("header.wasm", &whole[..8], &[]);
    write("nothing.wasm", &component("(component)"), &["toolyard:plugin"]);
    write(
        "other_export.wasm",
        &component(r#"(component (component $c) (export "x:y/tools@0.1.0" (component $c)))"#),
        &["neither functions nor", "toolyard:plugin", "x:y/tools@0.1.0"],
    );
    let foreign = r#"(component (import "no:such/thing@1.0.0" (instance (export "f" (func)))))"#;
    write("import.wasm", &component(foreign), &[]);
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle..middle + 64].fill(0xff);
    write("flipped.wasm", &flipped, &[]);
    let mut appended = whole.clone();
    appended.extend_from_slice(b"and more");
    write("appended.wasm", &appended, &[]);
    for (name, says) in fixtures() {
        let file: &'static str = Box::leak(format!("{name}.wasm").into_boxed_str());
        install_as(&guests::fixture(name), &folder, file);
        cases.push(Case { file, says });
    }
    std::fs::create_dir(folder.join("folder.wasm")).expect("a folder");
    cases.push(Case { file: "folder.wasm", says: &["not a regular file"] });
    symlink(guests::plugin("csv"), folder.join("link.wasm")).expect("a link");
    cases.push(Case { file: "link.wasm", says: &["symbolic link"] });

    let host = setup.start().await;
    let session = Session::open(host.port()).await;
    assert_eq!(session.call("echo", json!({"text": "still here"})).await["content"][0]["text"], "still here");
    let listed = session.result("tools/list", json!({})).await;
    assert_eq!(listed["tools"].as_array().expect("tools").len(), 12, "only the probe's");

    let output = host.command(&["tools", "--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for Case { file, says } in cases {
        let refused = lines.iter().find(|line| line["plugin"] == file && line["refused"].is_string());
        let refused = refused.unwrap_or_else(|| panic!("{file} is not among {lines:#?}"));
        let why = refused["refused"].as_str().expect("text");
        for phrase in says {
            assert!(why.to_lowercase().contains(&phrase.to_lowercase()), "{file}: {why}");
        }
        println!("{file}: {why}");
        // `check` gives the same reason for the single file.
        let path: PathBuf = host.plugins().join(file);
        let checked = host.command(&["check", path.to_str().expect("plain")]).await;
        assert_eq!(checked.status.code(), Some(1), "{file}");
        assert!(!checked.stderr.is_empty(), "{file}");
    }
}
