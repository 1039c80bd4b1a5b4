//! The same requirements for a plugin in every language: the component that `make examples` built, in the
//! real host, over HTTP. `languages/rows.rs` has the calls for each example, and `matrix.rs` runs the cells.

mod rows;

use crate::matrix::{self, Met};
use rows::{Row, Shown, rows};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_tests::dice::Dice;
use toolyard_tests::guests::root;
use toolyard_tests::host::install_as;
use toolyard_tests::{Host, Session, Setup, until};

/// Text that careless string handling breaks: an emoji of several characters, a combining mark, right-to-left
/// text, and NUL.
const UNICODE: &str = "👩\u{200d}🚀 e\u{301} שלום \u{0} 𝄞";

const MIB: usize = 1 << 20;

/// One host with every example, each of them twice: the second copy has little memory.
struct Stage {
    host: Host,
    session: Session,
}

/// The names of the cells, in the order of the table.
const CELLS: &str = "progress | cancel while computing | memory limit | protocol error | unicode | 1 MiB argument \
    | arguments in other spellings";
/// The spellings that are tried in each language.
const SPELLINGS: u64 = 20;
/// Looks at the arguments of the copies with little memory, and lets all of them run.
const RULES: &str = "[[rules]]\neffect = \"deny\"\ntools = [\"small_*\"]\narguments = { \"/forbidden\" = \"yes\" }\n\
    [[rules]]\neffect = \"allow\"\ntools = [\"*\"]\n";

/// Runs one cell. Panics if the plugin does not meet the requirement.
async fn run(cell: &str, stage: &Stage, row: &Row) -> Met {
    match cell {
        "progress" => tells_progress(stage, row).await,
        "cancel while computing" => is_stopped_while_computing(stage, row).await,
        "memory limit" => meets_its_memory_limit(stage, row).await,
        "protocol error" => refuses_the_request(stage, row).await,
        "unicode" => stage.shows(&(row.unicode)(UNICODE)).await,
        "1 MiB argument" => stage.shows(&(row.large)(MIB)).await,
        "arguments in other spellings" => reads_what_the_rules_read(stage, row).await,
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
        until(&format!("{count} runs"), || async { self.host.runs().await == count }).await;
    }
}

fn clipped(value: &Value) -> String {
    let mut text = value.to_string();
    text.truncate(text.floor_char_boundary(600));
    text
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

async fn meets_its_memory_limit(stage: &Stage, row: &Row) {
    let (tool, arguments) = &row.memory;
    let result = stage.session.call(&format!("small_{tool}"), arguments.clone()).await;
    assert_eq!(result["isError"], true, "{}", clipped(&result));
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(text.contains("`limits.memory`"), "{}", clipped(&result));
}

async fn refuses_the_request(stage: &Stage, row: &Row) {
    let ((tool, arguments), says) = &row.senseless;
    let error = stage.session.error("tools/call", json!({"name": tool, "arguments": arguments})).await;
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains(says)), "{error}");
    assert!(error["data"].is_object(), "with data that says where: {error}");
}

/// A text as a JSON literal, in one of its many spellings.
fn spelled(text: &str, dice: &mut Dice) -> String {
    let mut units = [0; 2];
    let mut out = "\"".to_owned();
    for char in text.chars() {
        if dice.percent(40) || char.is_control() || matches!(char, '"' | '\\') {
            let units = char.encode_utf16(&mut units).iter();
            out.extend(units.map(|unit| match dice.percent(50) {
                true => format!("\\u{unit:04x}"),
                false => format!("\\u{unit:04X}"),
            }));
        } else {
            out.push(char);
        }
    }
    out + "\""
}

/// H1, K-A1: whatever the spelling, the guest gets what the rules and a person have seen. Arguments that can be read in
/// two ways are refused, as the tests of the rules show.
async fn reads_what_the_rules_read(stage: &Stage, row: &Row) {
    const MARK: &str = "\"SPELLED\"";
    let tool = format!("small_{}", (row.unicode)("").tool);
    let written = (row.unicode)("SPELLED").arguments.to_string();
    let at = written.find(MARK).expect("the text");
    let name_at = written[..at - 2].rfind('"').expect("a name");
    let (before, name, after) =
        (&written[..name_at], &written[name_at + 1..at - 2], &written[at + MARK.len()..]);
    for seed in 0..SPELLINGS {
        let dice = &mut Dice::new(seed, 59);
        let text = dice.pick(&[
            "production",
            "staging \u{1f600}",
            "a\"b\\c\n",
            "\u{e9}\u{2028}\u{202e}x",
            "one 1e2",
        ]);
        let member = format!("{}:{}", spelled(name, dice), spelled(text, dice));
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"{tool}","arguments":{before}{member}{after}}}}}"#,
            stage.session.next_id()
        );
        let answer = stage.session.post_text(body.clone()).await.response().await.expect("an answer").0;
        let shown = (row.unicode)(text);
        let got = answer["result"]["structuredContent"].pointer(shown.pointer);
        assert_eq!(got, Some(&shown.expected), "{body}: {answer}");
    }
}

/// The shipped manifest of an example, and the same with less memory.
fn manifests(language: &str, limit: &str) -> (String, String) {
    let files = std::fs::read_dir(project(language).join("plugin")).expect("a plugin folder").flatten();
    let mut paths = files.map(|file| file.path());
    let path = paths.find(|path| path.extension().is_some_and(|kind| kind == "toml")).expect("a manifest");
    let text = std::fs::read_to_string(path).expect("text");
    let line = text.lines().find(|line| line.starts_with("memory = ")).expect("a limit of memory").to_owned();
    let small = format!("prefix = \"small\"\n{}", text.replace(&line, &format!("memory = \"{limit}\"")));
    (text, small)
}

async fn stage(built: &[(Row, PathBuf)]) -> Stage {
    // Python's component takes long to compile on a machine that is busy with tests.
    let setup = Setup::new().set("plugins.compile-time", "10min").set("plugins.start-wait", "10min");
    let setup = setup.set("admin.listen", "127.0.0.1:0").config(RULES);
    let plugins = setup.plugins();
    for (row, component) in built {
        let (manifest, small) = manifests(row.language, row.limit);
        for (name, text) in [(row.language.to_owned(), manifest), (format!("{}-small", row.language), small)]
        {
            std::fs::write(plugins.join(format!("{name}.toml")), text).expect("a manifest");
            install_as(component, &plugins, &format!("{name}.wasm"));
        }
    }
    let (host, session) = setup.open().await;
    Stage { host, session }
}

pub fn project(language: &str) -> PathBuf {
    root().join("examples/plugins").join(language)
}

#[tokio::test]
async fn every_language_meets_the_same_demands() {
    let (built, skipped) = matrix::built(rows(), |row| row.language.to_owned());
    let stage = Arc::new(stage(&built).await);
    let rows = built.into_iter().map(|(row, _)| (row.language, Arc::new(row)));
    let failures = matrix::run("matrix.md", CELLS, rows, &skipped, |cell, row| {
        let stage = stage.clone();
        async move { run(cell, &stage, &row).await }
    });
    let failures = failures.await;
    assert!(failures.is_empty(), "{failures}\n{}", stage.host.log());
}
