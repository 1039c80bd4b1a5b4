//! `toolyard call` with recorded answers and expectations.

use crate::command_line::{err, out};
use std::process::{Output, Stdio};
use toolyard_tests::compiled::Compiled;
use toolyard_tests::guests;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("written");
    }

    /// Runs `toolyard call` on a folder with the probe.
    async fn call(&self, args: &[&str]) -> Output {
        let plugins = self.0.path().join("plugins");
        std::fs::create_dir_all(&plugins).expect("a folder");
        toolyard_tests::host::install(&guests::plugin("probe"), &plugins);
        let _compiled = Compiled::given_to(&self.0.path().join("data"));
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
    let record = [&ASK[..], &["--answer", eve, "--record", "eve.case.toml"]].concat();
    assert_eq!(folder.call(&record).await.status.code(), Some(0));
    let again = folder.call(&record).await;
    assert!(again.status.code() == Some(2) && err(&again).contains("already exists"), "{}", err(&again));
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
    let (hello, fails) = (["echo", r#"{"text":"hello"}"#], ["fail", r#"{"message":"no luck"}"#]);
    for (call, expects, code) in [
        (hello, ["--expect", "\"hello\""], 0),
        (hello, ["--expect-error", "hello"], 1),
        (fails, ["--expect-error", "luck"], 0),
        (fails, ["--expect", "\"no luck\""], 1),
        (["protocol_error", r#"{"code":-5,"message":"odd"}"#], ["--expect-error", "odd"], 0),
    ] {
        let called = folder.call(&[call, expects].concat()).await;
        assert_eq!(
            called.status.code(),
            Some(code),
            "{call:?} {expects:?}: {}{}",
            out(&called),
            err(&called)
        );
    }
    let called = folder.call(&[hello, ["--expect", "\"other\""]].concat()).await;
    assert_eq!(called.status.code(), Some(1));
    assert!(out(&called).is_empty() && err(&called).contains("- other\n+ hello"), "{}", err(&called));
}
