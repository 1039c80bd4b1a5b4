//! The same requirements for a plugin in every language: the component that `make examples` built, in the
//! real host, over HTTP. `languages/rows.rs` has the calls for each example, and `matrix.rs` runs the cells.

mod rows;

use crate::matrix::{self, Met};
use rows::{Row, Shown, rows};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_tests::guests::root;
use toolyard_tests::host::{Setup, install_as};
use toolyard_tests::session::LATEST;
use toolyard_tests::{Host, Session, eventually};

/// Text that careless string handling breaks: an emoji of several characters, a combining mark, right-to-left
/// text, and NUL.
const UNICODE: &str = "👩\u{200d}🚀 e\u{301} שלום \u{0} 𝄞";

const MIB: usize = 1 << 20;

/// One host with every example, each of them twice: the second copy has little memory.
struct Stage {
    host: Host,
    session: Session,
    /// The listed tools, by name.
    listed: BTreeMap<String, Value>,
}

/// The names of the cells, in the order of the table.
const CELLS: &str = "list | call | progress | ask | cancel while computing | cancel while asking | memory limit \
    | tool error | protocol error | unicode | 1 MiB argument | structured output";

/// Runs one cell. Panics if the plugin does not meet the requirement.
async fn run(cell: &str, stage: &Stage, row: &Row) -> Met {
    match cell {
        "list" => is_listed(stage, row),
        "call" => stage.shows(&row.call).await,
        "progress" => tells_progress(stage, row).await,
        "ask" => asks(stage, row).await,
        "cancel while computing" => is_stopped_while_computing(stage, row).await,
        "cancel while asking" => is_stopped_while_asking(stage, row).await,
        "memory limit" => meets_its_memory_limit(stage, row).await,
        "tool error" => fails_with_help(stage, row).await,
        "protocol error" => refuses_the_request(stage, row).await,
        "unicode" => stage.shows(&(row.unicode)(UNICODE)).await,
        "1 MiB argument" => stage.shows(&(row.large)(MIB)).await,
        "structured output" => fits_its_schema(stage, row).await,
        other => panic!("there is no cell {other}"),
    }
    Ok(())
}

impl Stage {
    async fn shows(&self, shown: &Shown) {
        let result = self.session.call(shown.tool, shown.arguments.clone()).await;
        assert_eq!(result["isError"], false, "{}", clipped(&result));
        let structured = &result["structuredContent"];
        assert_eq!(structured.pointer(shown.pointer), Some(&shown.expected), "{}", clipped(structured));
    }

    async fn until_runs(&self, count: u32) {
        eventually(&format!("{count} runs"), || async { (self.host.runs().await == count).then_some(()) })
            .await;
    }
}

fn clipped(value: &Value) -> String {
    let mut text = value.to_string();
    text.truncate(text.floor_char_boundary(600));
    text
}

fn is_listed(stage: &Stage, row: &Row) {
    let tool = &stage.listed[row.call.tool];
    assert!(tool["description"].as_str().is_some_and(|text| text.len() > 20), "{tool}");
    assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
    assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
    assert_eq!(tool["execution"]["taskSupport"], "optional", "{tool}");
    assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
}

async fn tells_progress(stage: &Stage, row: &Row) {
    let (tool, arguments) = &row.progress;
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
    let (answer, notices) = stage.session.request_and_notices("tools/call", params).await;
    assert_eq!(answer["result"]["isError"], false, "{}", clipped(&answer));
    let told = notices.iter().filter(|notice| notice["method"] == "notifications/progress");
    let told: Vec<f64> = told.filter_map(|notice| notice["params"]["progress"].as_f64()).collect();
    assert!(told.len() >= 2 && told.is_sorted_by(|one, next| one < next), "{told:?}");
}

async fn asks(stage: &Stage, row: &Row) {
    let (shown, content) = &row.ask;
    let params = json!({"name": shown.tool, "arguments": shown.arguments});
    let mut call = stage.session.begin("tools/call", params).await;
    let asked = call.next_of("elicitation/create").await;
    stage.session.respond(&asked, json!({"action": "accept", "content": content})).await;
    let (answer, _) = call.answer().await;
    let structured = &answer["result"]["structuredContent"];
    assert_eq!(structured.pointer(shown.pointer), Some(&shown.expected), "{}", clipped(&answer));
    // A decline is an answer too: the tool reports it, and does not crash.
    let mut call =
        stage.session.begin("tools/call", json!({"name": shown.tool, "arguments": shown.arguments})).await;
    let asked = call.next_of("elicitation/create").await;
    stage.session.respond(&asked, json!({"action": "decline"})).await;
    let (answer, _) = call.answer().await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(!text.contains("trapped") && !text.is_empty(), "{}", clipped(&answer));
}

async fn is_stopped_while_computing(stage: &Stage, row: &Row) {
    let (tool, arguments) = &row.endless;
    let call = stage.session.begin("tools/call", json!({"name": tool, "arguments": arguments})).await;
    stage.until_runs(1).await;
    stage.session.notify("notifications/cancelled", json!({"requestId": call.id})).await;
    // C-1: no response, even if the guest checks whether it is being stopped, and reports that.
    let rest = call.rest().await;
    let is_answer = |message: &Value| message.get("method").is_none();
    assert!(!rest.iter().any(is_answer), "it is answered: {rest:?}");
    stage.until_runs(0).await;
    let task = stage.session.create(tool, arguments.clone()).await;
    stage.until_runs(1).await;
    let cancelled = stage.session.result("tasks/cancel", json!({"taskId": task})).await;
    assert_eq!(cancelled["status"], "cancelled");
    stage.until_runs(0).await;
}

async fn is_stopped_while_asking(stage: &Stage, row: &Row) {
    let (shown, _) = &row.ask;
    let task = stage.session.create(shown.tool, shown.arguments.clone()).await;
    stage.session.until(&task, "input_required").await;
    stage.session.result("tasks/cancel", json!({"taskId": task})).await;
    stage.session.until(&task, "cancelled").await;
    stage.until_runs(0).await;
}

async fn meets_its_memory_limit(stage: &Stage, row: &Row) {
    let (tool, arguments) = &row.memory;
    let result = stage.session.call(&format!("small_{tool}"), arguments.clone()).await;
    assert_eq!(result["isError"], true, "{}", clipped(&result));
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(text.contains("`limits.memory`"), "{}", clipped(&result));
}

async fn fails_with_help(stage: &Stage, row: &Row) {
    let ((tool, arguments), says) = &row.mistake;
    let result = stage.session.call(tool, arguments.clone()).await;
    assert_eq!(result["isError"], true, "{}", clipped(&result));
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(text.contains(says), "{}", clipped(&result));
}

async fn refuses_the_request(stage: &Stage, row: &Row) {
    let ((tool, arguments), says) = &row.senseless;
    let error = stage.session.error("tools/call", json!({"name": tool, "arguments": arguments})).await;
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains(says)), "{error}");
    assert!(error["data"].is_object(), "with data that says where: {error}");
}

async fn fits_its_schema(stage: &Stage, row: &Row) {
    for shown in [&row.call, &(row.unicode)(UNICODE), &(row.large)(MIB)] {
        let tool = &stage.listed[shown.tool];
        let validator = jsonschema::draft202012::new(&tool["outputSchema"]).expect("a JSON Schema");
        let result = stage.session.call(shown.tool, shown.arguments.clone()).await;
        let structured = &result["structuredContent"];
        let problems: Vec<String> =
            validator.iter_errors(structured).map(|error| clip(error.to_string())).collect();
        assert!(problems.is_empty() && structured.is_object(), "{problems:?}: {}", clipped(structured));
    }
}

fn clip(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(200));
    text
}

/// The shipped manifest of an example.
pub fn manifest(language: &str) -> String {
    let found = std::fs::read_dir(project(language).join("plugin")).expect("a plugin folder");
    let path = found
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|kind| kind == "toml"))
        .expect("a manifest");
    std::fs::read_to_string(path).expect("text")
}

/// The shipped manifest of an example, and the same with less memory.
fn manifests(language: &str, limit: &str) -> (String, String) {
    let text = manifest(language);
    let line = text.lines().find(|line| line.starts_with("memory = ")).expect("a limit of memory").to_owned();
    let small = format!("prefix = \"small\"\n{}", text.replace(&line, &format!("memory = \"{limit}\"")));
    (text, small)
}

async fn stage(built: &[(Row, PathBuf)]) -> Stage {
    // Python's component takes long to compile on a machine that is busy with tests.
    let setup = Setup::new().set("plugins.compile-time", "10min").set("plugins.start-wait", "10min");
    let setup = setup.set("admin.listen", "127.0.0.1:0");
    let plugins = setup.plugins();
    for (row, component) in built {
        let (manifest, small) = manifests(row.language, row.limit);
        for (name, text) in [(row.language.to_owned(), manifest), (format!("{}-small", row.language), small)]
        {
            std::fs::write(plugins.join(format!("{name}.toml")), text).expect("a manifest");
            install_as(component, &plugins, &format!("{name}.wasm"));
        }
    }
    let host = setup.start().await;
    let everything = json!({"elicitation": {"form": {}}});
    let session = Session::open_as(host.port(), LATEST, everything).await.session;
    let tools = session.result("tools/list", json!({})).await["tools"].take();
    let tools = tools.as_array().expect("tools").iter();
    let listed =
        tools.map(|tool| (tool["name"].as_str().expect("a name").to_owned(), tool.clone())).collect();
    Stage { host, session, listed }
}

pub fn project(language: &str) -> PathBuf {
    root().join("examples/plugins").join(language)
}

/// The languages that were built, and the reasons why others were not.
pub fn built() -> (Vec<(Row, PathBuf)>, BTreeMap<String, String>) {
    let rows = rows();
    for Row { language, .. } in &rows {
        assert!(
            project(language).join("project.toml").exists(),
            "examples/plugins has no project in {language}"
        );
    }
    matrix::built(rows, |row| row.language.to_owned())
}

#[tokio::test]
async fn every_language_meets_the_same_demands() {
    let (built, skipped) = built();
    let stage = Arc::new(stage(&built).await);
    let rows = built.into_iter().map(|(row, _)| (row.language, Arc::new(row)));
    let failures = matrix::run("matrix.md", CELLS, rows, &skipped, |cell, row| {
        let stage = stage.clone();
        async move { run(cell, &stage, &row).await }
    });
    let failures = failures.await;
    assert!(failures.is_empty(), "{failures}\n{}", stage.host.log());
}
