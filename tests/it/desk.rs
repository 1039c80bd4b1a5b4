//! The tasks that most tools have, in every language: the projects `desk-*` that `make examples` built, in the
//! real host, with a service behind them. `matrix.rs` runs the cells.
//!
//! Together the cells are the path of a newcomer, who adds the tools of `desk-*` to the files of `toolyard new`, to
//! which each `desk-*` has links. `toolyard build` makes it a component; `toolyard test` passes its cases; and the host
//! serves it: a tool with an injected key, one with an image and one with a form.

use crate::languages::project;
use crate::matrix::{self, Met};
use base64::Engine as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_tests::guests::{binary, root};
use toolyard_tests::host::install_as;
use toolyard_tests::{Host, Session, Setup, Site, eventually};

const LANGUAGES: [&str; 6] = ["rust", "c", "javascript", "typescript", "python", "go"];
/// The endings of the names of a project's copies.
const COPIES: [&str; 3] = ["", "-refused", "-resumes"];
const KEY: &str = "demo-key-1234";

/// The names of the cells, in the order of the table.
const CELLS: &str = "HTTP with an injected secret | HTTP refused | an error of the service \
    | two requests at once | image | files and a form \
    | structured output from types | recorded cases without a network \
    | a task that continues with a state | a state that is refused";

/// One host with every project, each of them three times: the second copy is granted no requests, and the tasks of the
/// third resume.
struct Stage {
    site: Site,
    host: Host,
    session: Session,
    listed: BTreeMap<String, Value>,
}

async fn run(cell: &str, stage: &Stage, language: &str) -> Met {
    match cell {
        "HTTP with an injected secret" => sends_the_key_unseen(stage, language).await,
        "HTTP refused" => says_who_can_grant_a_request(stage, language).await,
        "an error of the service" => tells_what_the_service_said(stage, language).await,
        "two requests at once" => return compares_two_cities(stage, language).await,
        "image" => draws_a_picture(stage, language).await,
        "files and a form" => sorts_files_as_the_person_says(stage, language).await,
        "structured output from types" => fits_its_schema(stage, language).await,
        "recorded cases without a network" => passes_its_cases(language).await,
        "a task that continues with a state" => continues_with_a_state(stage, language).await,
        "a state that is refused" => says_why_it_cannot_continue(stage, language).await,
        other => panic!("there is no cell {other}"),
    }
    Ok(())
}

fn text(result: &Value) -> String {
    let blocks = result["content"].as_array().expect("blocks").iter();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

impl Stage {
    async fn weather(&self, language: &str, city: &str) -> Value {
        self.session.call(&format!("{language}_weather"), json!({ "city": city })).await
    }

    fn inbox(&self, language: &str) -> PathBuf {
        self.host.plugins().join(format!("{language}-inbox"))
    }

    /// Calls `triage` for these files, and answers its form.
    async fn triage(&self, language: &str, files: &[&str], answer: Value) -> Value {
        for file in files {
            std::fs::write(self.inbox(language).join(file), "text").expect("a file");
        }
        let tool = format!("{language}_triage");
        let mut call = self.session.begin("tools/call", json!({"name": tool, "arguments": {}})).await;
        let asked = call.next_of("elicitation/create").await;
        let fields = asked["params"]["requestedSchema"]["properties"].as_object().expect("fields");
        let stems: Vec<_> = files.iter().map(|file| file.trim_end_matches(".txt")).collect();
        assert_eq!(fields.keys().collect::<Vec<_>>(), stems, "a field for each file");
        for (name, field) in fields {
            assert_eq!(field["enum"], json!(["keep", "later", "trash"]), "{name}: {field}");
        }
        self.session.respond(&asked, answer).await;
        call.answer().await.0["result"].take()
    }
}

async fn sends_the_key_unseen(stage: &Stage, language: &str) {
    let result = stage.weather(language, "Oslo").await;
    assert_eq!(result["isError"], false, "{result}");
    assert!(text(&result).contains("Oslo: 7.5 °C, rain"), "{result}");
    assert_eq!(result["structuredContent"], json!({"city": "Oslo", "celsius": 7.5, "sky": "rain"}));
    assert!(!result.to_string().contains(KEY));
}

async fn says_who_can_grant_a_request(stage: &Stage, language: &str) {
    let result = stage.weather(&format!("{language}-refused"), "Oslo").await;
    assert_eq!(result["isError"], true, "{result}");
    let entry = format!("add \"localhost:{}\" to `http.allow`", stage.site.port());
    assert!(text(&result).contains(&entry), "{result}");
}

async fn tells_what_the_service_said(stage: &Stage, language: &str) {
    let result = stage.weather(language, "São Paulo").await;
    assert_eq!(result["isError"], true, "{result}");
    assert!(text(&result).contains("the weather service answered 404: no such city"), "{result}");
    let sent = stage.site.seen().into_iter().find(|head| head.contains("S%C3%A3o"));
    let sent = sent.expect("a request with the city");
    assert!(
        sent.starts_with("GET /v1/now?city=S%C3%A3o%20Paulo ") || sent.contains("S%C3%A3o+Paulo "),
        "{sent}"
    );
}

/// The service tells the weather in these cities only while both requests are under way.
async fn compares_two_cities(stage: &Stage, language: &str) -> Met {
    let why = match language {
        "c" => "`http` waits for its response, so the requests of a tool run one after the other",
        "python" => "a tool is a plain function, so its requests run one after the other",
        "rust" => "`send` waits for its response, so the requests of a tool run one after the other",
        _ => {
            let cities = json!({"a": "Bergen", "b": "Rome"});
            let result = stage.session.call(&format!("{language}_compare"), cities).await;
            assert_eq!(text(&result), "Rome is warmer than Bergen, by 12 °C", "{result}");
            return Ok(());
        }
    };
    assert!(!stage.listed.contains_key(&format!("{language}_compare")), "{language} can compare");
    let page = root().join("host/docs/guides/write-tools/recipes.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let words = |text: &str| text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&page).contains(&words(why)), "the recipes do not say: {why}");
    Err(why)
}

async fn draws_a_picture(stage: &Stage, language: &str) {
    let bars = json!([{"label": "a", "value": 4}, {"label": "b", "value": 9}, {"label": "c", "value": 0}]);
    let arguments = json!({"title": "Week", "values": bars});
    let result = stage.session.call(&format!("{language}_chart"), arguments).await;
    assert_eq!(result["isError"], false, "{result}");
    assert!(text(&result).contains("3 bars, the largest is \"b\" with 9"), "{}", text(&result));
    let blocks = result["content"].as_array().expect("blocks");
    let image = blocks.iter().find(|block| block["type"] == "image").expect("an image");
    assert_eq!(image["mimeType"], "image/png");
    let data = image["data"].as_str().expect("base64");
    let png = base64::engine::general_purpose::STANDARD.decode(data).expect("base64");
    assert_eq!(&png[..16], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    assert_eq!(png[16..24], [0, 0, 1, 64, 0, 0, 0, 200], "320 by 200");
}

async fn sorts_files_as_the_person_says(stage: &Stage, language: &str) {
    let content = json!({"bill": "later", "spam": "trash"});
    let answer = json!({"action": "accept", "content": content});
    let result = stage.triage(language, &["bill.txt", "spam.txt"], answer).await;
    assert_eq!(result["isError"], false, "{result}");
    let moved = json!([{"file": "bill.txt", "to": "later"}, {"file": "spam.txt", "to": "trash"}]);
    assert_eq!(result["structuredContent"]["moved"], moved, "{result}");
    let inbox = stage.inbox(language);
    assert!(inbox.join("later/bill.txt").is_file() && inbox.join("trash/spam.txt").is_file());
    assert!(!inbox.join("bill.txt").exists());
    let empty = stage.session.call(&format!("{language}_triage"), json!({})).await;
    assert_eq!((text(&empty).as_str(), &empty["isError"]), ("the inbox is empty", &json!(false)), "{empty}");
}

async fn fits_its_schema(stage: &Stage, language: &str) {
    let tool = &stage.listed[&format!("{language}_weather")];
    let output = &tool["outputSchema"];
    assert_eq!(output["properties"]["celsius"]["type"], "number", "{tool}");
    assert_eq!(tool["inputSchema"]["properties"]["city"]["type"], "string", "{tool}");
    let validator = jsonschema::draft202012::new(output).expect("a JSON Schema");
    let result = stage.weather(language, "Oslo").await;
    assert!(validator.is_valid(&result["structuredContent"]), "{result}");
    assert!(!validator.is_valid(&json!({"city": "Oslo", "celsius": "7.5", "sky": "rain"})), "{output}");
}

async fn passes_its_cases(language: &str) {
    let data = tempfile::tempdir().expect("a folder");
    let mut test = tokio::process::Command::new(binary());
    test.args(["test", "--no-build", "--data"]).args([data.path(), &project(&format!("desk-{language}"))]);
    let tested = test.env_remove("WEATHER_KEY").output().await.expect("it runs");
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(said.contains("4 passed, 0 failed"), "{said}{}", String::from_utf8_lossy(&tested.stderr));
}

/// The result of `steps` in three runs, or in one with this refusal.
fn expect_steps(result: &Value, runs: u32, refusal: &str) {
    assert_eq!(result["structuredContent"], json!({"done": [1, 2, 3, 4, 5], "runs": runs}), "{result}");
    assert_eq!(text(result), format!("parts: 5, runs: {runs}{refusal}"));
}

/// Runs `steps` of a copy as a task.
async fn steps(stage: &Stage, copy: &str) -> Value {
    let id = stage.session.complete(&format!("{copy}_steps"), json!({"parts": 5})).await;
    stage.session.result("tasks/result", json!({"taskId": id})).await
}

async fn continues_with_a_state(stage: &Stage, language: &str) {
    expect_steps(&steps(stage, &format!("{language}-resumes")).await, 3, "");
}

async fn says_why_it_cannot_continue(stage: &Stage, language: &str) {
    let refusal = "; cannot continue with the state: the call is not a task that resumes";
    expect_steps(&steps(stage, language).await, 1, refusal);
    let result = stage.session.call(&format!("{language}-resumes_steps"), json!({"parts": 5})).await;
    expect_steps(&result, 1, refusal);
}

async fn stage(built: &[(&str, PathBuf)]) -> Stage {
    let site = Site::start().await;
    // Python's component takes long to compile on a machine that is busy with tests.
    let setup = Setup::new().set("plugins.compile-time", "10min").set("plugins.start-wait", "10min");
    let setup = setup.variable("WEATHER_KEY", KEY);
    let plugins = setup.plugins();
    for (language, component) in built {
        let shipped = project(&format!("desk-{language}")).join("plugin/desk.toml");
        let shipped = std::fs::read_to_string(&shipped).expect("a manifest");
        let shipped = shipped.replace("./inbox", &format!("./{language}-inbox"));
        let at = format!("http://localhost:{}", site.port());
        let granted = shipped
            .replace("[http.inject.\"weather.example\"]", &format!("[http.inject.\"{at}\"]"))
            .replace("https://weather.example", &at)
            .replace("weather.example", &format!("localhost:{}", site.port()));
        let allowed = format!("allow = [\"localhost:{}\"]", site.port());
        assert!(granted.contains(&allowed), "{granted}");
        let refused = granted.replace(&allowed, "allow = [\"other.example\"]");
        let refused = refused.replace(&format!("inject.\"{at}\""), "inject.\"other.example\"");
        std::fs::create_dir(plugins.join(format!("{language}-inbox"))).expect("a folder");
        // Without the folder, which cannot be replayed.
        let resumes = "[task]\ndurability = \"resume\"\n[limits]\nmemory = \"128MiB\"\n".to_owned();
        for (copy, manifest) in COPIES.into_iter().zip([granted, refused, resumes]) {
            let name = format!("{language}{copy}");
            let manifest = format!("prefix = \"{name}\"\n{manifest}");
            std::fs::write(plugins.join(format!("{name}.toml")), manifest).expect("a manifest");
            install_as(component, &plugins, &format!("{name}.wasm"));
        }
    }
    let host = setup.start().await;
    let session = host.open_as(json!({"elicitation": {"form": {}}})).await;
    let listed = eventually("all tools", || async {
        let tools = session.result("tools/list", json!({})).await["tools"].take();
        let tools = tools.as_array().expect("tools").iter();
        let listed: BTreeMap<String, Value> =
            tools.map(|tool| (tool["name"].as_str().expect("a name").to_owned(), tool.clone())).collect();
        let mut copies = built.iter().flat_map(|(name, _)| COPIES.map(|copy| format!("{name}{copy}")));
        copies.all(|copy| listed.contains_key(&format!("{copy}_weather"))).then_some(listed)
    })
    .await;
    Stage { site, host, session, listed }
}

#[tokio::test]
async fn every_language_does_what_most_tools_do() {
    let (built, skipped) = matrix::built(LANGUAGES, |language| format!("desk-{language}"));
    let stage = Arc::new(stage(&built).await);
    let rows = built.into_iter().map(|(language, _)| (language, language));
    let failures = matrix::run("desk-matrix.md", CELLS, rows, &skipped, |cell, language| {
        let stage = stage.clone();
        async move { run(cell, &stage, language).await }
    });
    let failures = failures.await;
    assert!(failures.is_empty(), "{failures}\n{}", stage.host.log());
}

#[tokio::test]
async fn an_unexpected_error_is_logged_with_the_line_of_the_author() {
    let (built, _) = matrix::built(["javascript", "typescript", "python"], |name| format!("desk-{name}"));
    let stage = stage(&built).await;
    for (language, _) in built {
        let result = stage.weather(language, "Broken").await;
        assert_eq!(result["isError"], true, "{result}");
        let file = match language {
            "javascript" => "src/weather.js:",
            "typescript" => "src/weather.ts:",
            _ => "src/app.py:",
        };
        stage.host.logs(file).await;
    }
}
