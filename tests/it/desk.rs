//! The tasks that most tools have, in every language: the projects `desk-*` that `make examples` built, in the
//! real host, with a service behind them. The test prints its outcome as a table and writes it to
//! `target/examples/desk-matrix.md`.

use crate::languages::project;
use base64::Engine as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toolyard_tests::guests::{binary, root};
use toolyard_tests::host::{Setup, install_as};
use toolyard_tests::session::LATEST;
use toolyard_tests::{Host, Session, Site, eventually, schema};

const LANGUAGES: [&str; 6] = ["rust", "c", "javascript", "typescript", "python", "go"];
const KEY: &str = "demo-key-1234";

/// The names of the cells, in the order of the table.
const CELLS: &str = "HTTP with an injected secret | HTTP refused | an error of the service | image | environment \
    | files and a form | declined | structured output from types | recorded cases without a network | the library of `toolyard new`";

/// One host with every project, each of them twice: the second copy is granted no requests.
struct Stage {
    site: Site,
    host: Host,
    session: Session,
    listed: BTreeMap<String, Value>,
}

async fn run(cell: &str, stage: &Stage, language: &str) {
    match cell {
        "HTTP with an injected secret" => sends_the_key_unseen(stage, language).await,
        "HTTP refused" => says_who_can_grant_a_request(stage, language).await,
        "an error of the service" => tells_what_the_service_said(stage, language).await,
        "image" => draws_a_picture(stage, language).await,
        "environment" => reads_the_environment_of_the_call(stage, language).await,
        "files and a form" => sorts_files_as_the_person_says(stage, language).await,
        "declined" => leaves_all_if_the_person_declines(stage, language).await,
        "structured output from types" => fits_its_schema(stage, language).await,
        "recorded cases without a network" => passes_its_cases(language).await,
        "the library of `toolyard new`" => has_the_files_of_a_new_project(language).await,
        other => panic!("there is no cell {other}"),
    }
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

async fn reads_the_environment_of_the_call(stage: &Stage, language: &str) {
    // `WEATHER_URL` of this manifest is not that of the project.
    stage.weather(language, "Oslo").await;
    let port = stage.site.port();
    assert!(stage.site.seen().iter().any(|head| head.contains(&format!("host: localhost:{port}"))));
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

async fn leaves_all_if_the_person_declines(stage: &Stage, language: &str) {
    let result = stage.triage(language, &["letter.txt"], json!({"action": "decline"})).await;
    assert_eq!(result["isError"], true, "{result}");
    assert!(text(&result).contains("nothing was sorted: you gave no answer"), "{result}");
    let letter = stage.inbox(language).join("letter.txt");
    assert!(letter.is_file());
    std::fs::remove_file(letter).expect("removed");
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
    let tested = tokio::process::Command::new(binary())
        .args(["test", "--no-build", "--data"])
        .args([data.path(), &project(&format!("desk-{language}"))])
        .env_remove("WEATHER_KEY")
        .output()
        .await
        .expect("it runs");
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(said.contains("4 passed, 0 failed"), "{said}{}", String::from_utf8_lossy(&tested.stderr));
}

/// A stranger starts with `toolyard new`, and gets the library that the project is built with.
async fn has_the_files_of_a_new_project(language: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let short = match language {
        "javascript" => "js",
        "typescript" => "ts",
        language => language,
    };
    let made = tokio::process::Command::new(binary())
        .args(["new", "desk", "--lang", short])
        .current_dir(folder.path())
        .output()
        .await
        .expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let project = project(&format!("desk-{language}"));
    let is_own = |path: &Path| {
        let own = ["package.json", "project.toml", "README.md", "Cargo.toml", "main.go", ".gitignore"];
        let own_folder = ["cases", "plugin", "gen"].iter().any(|at| path.starts_with(at));
        let source = path.starts_with("src")
            && path
                .file_stem()
                .is_some_and(|stem| ["index", "app", "lib", "tool"].iter().any(|own| stem == *own));
        own_folder || source || path.to_str().is_some_and(|path| own.contains(&path))
    };
    let mut compared = 0;
    for path in below(&folder.path().join("desk"), Path::new("")) {
        let ours = match path.strip_prefix("toolyard-plugin") {
            Ok(path) => root().join("plugins/sdk").join(path),
            Err(_) if path.starts_with("wit") => root().join(&path),
            Err(_) => project.join(&path),
        };
        if !is_own(&path) {
            let ours = std::fs::read(ours).unwrap_or_else(|_| panic!("{}", path.display()));
            let new = std::fs::read(folder.path().join("desk").join(&path)).expect("a file");
            assert!(new == ours, "{} differs", path.display());
            compared += 1;
        }
    }
    assert!(compared > 10, "{compared} files");
}

/// The files below a folder.
fn below(folder: &Path, at: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(at)).expect("a folder").map(|entry| entry.expect("an entry"));
    let paths = entries.map(|entry| at.join(entry.file_name()));
    paths
        .flat_map(|path| if folder.join(&path).is_dir() { below(folder, &path) } else { vec![path] })
        .collect()
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
        let at = format!("localhost:{}", site.port());
        let manifest = shipped
            .replace("[http.inject.\"weather.example\"]", &format!("[http.inject.\"http://{at}\"]"))
            .replace("https://weather.example", &format!("http://{at}"))
            .replace("weather.example", &at)
            .replace("./inbox", &format!("./{language}-inbox"));
        let allowed = format!("allow = [\"{at}\"]");
        assert!(manifest.contains(&allowed), "{manifest}");
        let refused = manifest.replace(&allowed, "allow = [\"other.example\"]");
        let refused =
            refused.replace(&format!("http.inject.\"http://{at}\""), "http.inject.\"other.example\"");
        std::fs::create_dir(plugins.join(format!("{language}-inbox"))).expect("a folder");
        for (name, manifest) in [(language.to_string(), manifest), (format!("{language}-refused"), refused)] {
            let manifest = format!("prefix = \"{name}\"\n{manifest}");
            std::fs::write(plugins.join(format!("{name}.toml")), manifest).expect("a manifest");
            install_as(component, &plugins, &format!("{name}.wasm"));
        }
    }
    let host = setup.start().await;
    let session = Session::open_as(host.port(), LATEST, json!({"elicitation": {"form": {}}})).await.session;
    let listed = eventually("all tools", || async {
        let tools = session.result("tools/list", json!({})).await["tools"].take();
        let tools = tools.as_array().expect("tools").clone();
        (tools.len() == built.len() * 6).then_some(tools)
    })
    .await;
    let listed =
        listed.into_iter().map(|tool| (tool["name"].as_str().expect("a name").to_owned(), tool)).collect();
    Stage { site, host, session, listed }
}

#[tokio::test]
async fn every_language_does_what_most_tools_do() {
    let out = root().join("target/examples");
    let mut built = Vec::new();
    let mut table = String::new();
    for language in LANGUAGES {
        let component = out.join(format!("desk-{language}.wasm"));
        if let Ok(why) = std::fs::read_to_string(out.join(format!("desk-{language}.skipped"))) {
            // Go is the only language whose tools may be unavailable to a machine in CI.
            if language != "go" || !schema::is_ci() {
                schema::skipped(&format!("desk-{language}: {}", why.trim()));
            }
            continue;
        }
        assert!(component.exists(), "{} is not there: run `make examples` first", component.display());
        built.push((language, component));
    }
    let stage = Arc::new(stage(&built).await);
    let cells: Vec<&str> = CELLS.split(" | ").collect();
    writeln!(table, "| language | {CELLS} |\n|---|{}", "---|".repeat(cells.len())).expect("a string");
    let mut failures = String::new();
    for (language, _) in built {
        let mut marks = Vec::new();
        for &cell in &cells {
            let stage = stage.clone();
            // A separate task for each cell, so that one failure does not hide others.
            let met = tokio::spawn(async move { run(cell, &stage, language).await }).await;
            marks.push(if met.is_ok() { "yes" } else { "NO" });
            if met.is_err() {
                writeln!(failures, "{language}: {cell} (its panic is above)").expect("a string");
            }
        }
        writeln!(table, "| {language} | {} |", marks.join(" | ")).expect("a string");
    }
    std::fs::write(out.join("desk-matrix.md"), &table).expect("the table");
    // Not by `eprintln!`, which the test harness captures while a test passes.
    writeln!(std::io::stderr(), "\n{table}").expect("stderr");
    assert!(failures.is_empty(), "{failures}\n{}", stage.host.log());
}

#[tokio::test]
async fn an_unexpected_error_is_logged_with_the_line_of_the_author() {
    let out = root().join("target/examples");
    let built: Vec<(&str, PathBuf)> = ["javascript", "typescript", "python"]
        .into_iter()
        .map(|language| (language, out.join(format!("desk-{language}.wasm"))))
        .filter(|(_, component)| component.exists())
        .collect();
    assert!(!built.is_empty(), "run `make examples` first");
    let stage = stage(&built).await;
    for (language, _) in built {
        let result = stage.weather(language, "Broken").await;
        assert_eq!(result["isError"], true, "{result}");
        let file = match language {
            "javascript" => "src/weather.js:",
            "typescript" => "src/weather.ts:",
            _ => "src/app.py:",
        };
        eventually(file, || async { stage.host.log().contains(file).then_some(()) }).await;
    }
}
