//! A tool in each language that says nothing about tasks may become one, so a long call of it is handed off.

use super::{collect, handed_off};
use crate::languages::{built, manifest, project};
use crate::matrix;
use serde_json::json;
use toolyard_tests::Session;
use toolyard_tests::host::{Setup, install_as};
use toolyard_tests::session::LATEST;

/// The file of each example that declares its tools.
const DECLARATIONS: [(&str, &str); 6] = [
    ("c", "src/tool.c"),
    ("go", "main.go"),
    ("javascript", "src/index.js"),
    ("python", "src/app.py"),
    ("rust", "src/lib.rs"),
    ("typescript", "src/index.ts"),
];

/// Neither the declaration of a tool nor its manifest mentions tasks, except in comments.
fn expect_silence_about_tasks(language: &str, tool: &str) {
    let found = DECLARATIONS.iter().find(|(of, _)| *of == language);
    let (_, path) = found.unwrap_or_else(|| panic!("no declaration in {language}"));
    let declaration = std::fs::read_to_string(project(language).join(path)).expect("text");
    assert!(declaration.contains(tool), "{language}: {path} declares {tool}");
    for line in declaration.lines().chain(manifest(language).lines()) {
        let code = line.trim_start();
        let is_comment = code.starts_with("//") || code.starts_with('#');
        assert!(is_comment || !code.to_lowercase().contains("task"), "{language}: {line}");
    }
}

#[tokio::test]
async fn a_tool_in_each_language_that_says_nothing_about_tasks_is_handed_off() {
    let (built, skipped) = built();
    let tested = DECLARATIONS.iter().filter(|(language, _)| matrix::is_tested(language));
    assert_eq!(built.len() + skipped.len(), tested.count());
    // Python's component takes long to compile on a machine that is busy with tests.
    let setup = Setup::new().set("plugins.compile-time", "10min").set("plugins.start-wait", "10min");
    let setup = setup.set("bridge.after", "1ms");
    let plugins = setup.plugins();
    for (row, component) in &built {
        std::fs::write(plugins.join(format!("{}.toml", row.language)), manifest(row.language))
            .expect("a manifest");
        install_as(component, &plugins, &format!("{}.wasm", row.language));
    }
    let host = setup.start().await;
    let bridged = Session::open(host.port()).await;
    let with_tasks = Session::open_as(host.port(), LATEST, json!({"tasks": {}})).await.session;
    for (row, _) in built {
        let (tool, arguments) = row.progress;
        expect_silence_about_tasks(row.language, tool);
        let result = bridged.call(tool, arguments.clone()).await;
        let handoff = &result["_meta"]["io.toolyard/task"];
        assert_eq!(handoff["status"], "working", "{}: {result}", row.language);
        let task = handed_off(&result);
        assert_eq!(handoff["taskId"], task.as_str(), "{}", row.language);
        let collected = collect(&bridged, &task).await;
        // A client with tasks has the same result without a hand-off.
        let plain = with_tasks.call(tool, arguments).await;
        assert!(plain["structuredContent"].is_object(), "{}: {plain}", row.language);
        assert_eq!(collected["structuredContent"], plain["structuredContent"], "{}", row.language);
    }
}
