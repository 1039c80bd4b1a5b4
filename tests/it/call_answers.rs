//! `toolyard call` with recorded answers, expectations, and the recording of cases.

use crate::command_line::{err, out};
use std::process::{Output, Stdio};
use toolyard_tests::guests;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("written");
    }

    /// Runs `toolyard call` on a folder with `component`.
    async fn call_on(&self, component: &std::path::Path, args: &[&str]) -> Output {
        let plugins = self.0.path().join("plugins");
        std::fs::create_dir_all(&plugins).expect("a folder");
        toolyard_tests::host::install(component, &plugins);
        tokio::process::Command::new(guests::binary())
            .arg("call")
            .args(args)
            .env("TOOLYARD_DATA", self.0.path().join("data"))
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .await
            .expect("the command runs")
    }

    async fn call(&self, args: &[&str]) -> Output {
        self.call_on(&guests::plugin("probe"), args).await
    }
}

const ASK: [&str; 2] = ["ask", r#"{"question":"who?"}"#];

#[tokio::test]
async fn questions_are_answered_by_their_keys() {
    let folder = Folder::new();
    folder.write("answers.toml", "[answer]\naction = \"accept\"\ncontent = { answer = \"Ada\" }\n");
    folder.write("answers.json", r#"{"answer":{"action":"accept","content":{"answer":"Ada"}}}"#);
    for file in ["answers.toml", "answers.json"] {
        for task in [&[][..], &["--task"]] {
            let called = folder.call(&[&ASK[..], &["--answers", file], task].concat()).await;
            assert_eq!((called.status.code(), out(&called).as_str()), (Some(0), "Ada\n"), "{}", err(&called));
        }
    }
    let eve = r#"answer={"action":"accept","content":{"answer":"Eve"}}"#;
    let called = folder.call(&[&ASK[..], &["--answers", "answers.toml", "--answer", eve]].concat()).await;
    assert_eq!(out(&called), "Eve\n", "the flag wins");
}

#[tokio::test]
async fn a_question_without_an_answer_is_declined_and_named() {
    let folder = Folder::new();
    let other = r#"other={"action":"cancel"}"#;
    let called = folder.call(&[&ASK[..], &["--answer", other]].concat()).await;
    assert_eq!((called.status.code(), out(&called).as_str()), (Some(0), "declined\n"));
    for word in [
        "no answer to the question `answer`",
        "[answer]\naction = \"accept\"",
        "the tool did not ask the question `other`",
    ] {
        assert!(err(&called).contains(word), "{word}\n{}", err(&called));
    }
}

#[tokio::test]
async fn what_is_expected_decides_about_the_exit_code() {
    let folder = Folder::new();
    folder.write("expected.txt", "hello\n");
    let jq = r#"{"program":".a","input":{"a":1}}"#;
    let probe = guests::plugin("probe");
    for (component, args, code) in [
        (&probe, &["echo", r#"{"text":"hello"}"#, "--expect", "\"hello\""][..], 0),
        (&probe, &["echo", r#"{"text":"hello"}"#, "--expect", "expected.txt"], 0),
        (&probe, &["echo", r#"{"text":"hello"}"#, "--expect", "\"other\""], 1),
        (&probe, &["echo", r#"{"text":"hello"}"#, "--expect-error", "hello"], 1),
        (&probe, &["fail", r#"{"message":"no luck"}"#, "--expect-error", "luck"], 0),
        (&probe, &["fail", r#"{"message":"no luck"}"#, "--expect-error", "pluck"], 1),
        (&probe, &["fail", r#"{"message":"no luck"}"#, "--expect", "\"no luck\""], 1),
        (&probe, &["protocol_error", r#"{"code":-5,"message":"odd"}"#, "--expect-error", "odd"], 0),
        (&guests::plugin("jq"), &["jq", jq, "--expect", r#"{"truncated":false,"outputs":[1.0]}"#], 0),
        (&guests::plugin("jq"), &["jq", jq, "--expect", r#"{"outputs":[1]}"#], 1),
    ] {
        let called = folder.call_on(component, args).await;
        assert_eq!(called.status.code(), Some(code), "{args:?}: {}{}", out(&called), err(&called));
    }
    let called = folder.call(&["echo", r#"{"text":"hello"}"#, "--expect", "\"other\""]).await;
    assert!(out(&called).is_empty() && err(&called).contains("- other\n+ hello"), "{}", err(&called));
}

#[tokio::test]
async fn what_happened_is_recorded_as_a_case_that_passes() {
    let folder = Folder::new();
    let answer = r#"answer={"action":"accept","content":{"answer":"Ada"}}"#;
    for (name, more) in [("plain.case.toml", &[][..]), ("task.case.toml", &["--task"])] {
        let args = [&ASK[..], &["--answer", answer, "--record", name], more].concat();
        let called = folder.call(&args).await;
        assert_eq!(called.status.code(), Some(0), "{}", err(&called));
    }
    let again = folder.call(&[&ASK[..], &["--record", "plain.case.toml"]].concat()).await;
    assert!(again.status.code() == Some(2) && err(&again).contains("already exists"), "{}", err(&again));
    folder.call(&["fail", r#"{"message":"no\nluck"}"#, "--record", "fails.case.toml"]).await;
    folder.call(&["protocol_error", r#"{"code":-5,"message":"odd"}"#, "--record", "error.case.toml"]).await;
    for name in ["plain", "task", "fails", "error"] {
        let name = format!("{name}.case.toml");
        let to = folder.0.path().join("plugins").join(&name);
        std::fs::rename(folder.0.path().join(&name), to).expect("recorded");
    }
    let tested = tokio::process::Command::new(guests::binary())
        .args(["test", "plugins"])
        .env("TOOLYARD_DATA", folder.0.path().join("data"))
        .current_dir(folder.0.path())
        .output()
        .await
        .expect("the command runs");
    assert!(out(&tested).contains("4 passed, 0 failed"), "{}{}", out(&tested), err(&tested));
}
