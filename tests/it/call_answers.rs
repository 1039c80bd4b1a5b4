//! `toolyard call` with recorded answers and expectations.

use crate::command_line::{err, out};
use std::process::{Output, Stdio};
use tempfile::TempDir;
use toolyard_tests::host::command;
use toolyard_tests::{Setup, ends};

/// A folder with the probe.
fn folder() -> TempDir {
    Setup::probe().into_parts().0
}

/// Runs `toolyard call` on a folder.
async fn call(folder: &TempDir, args: &[&str]) -> Output {
    command("call", folder.path(), args).stdin(Stdio::null()).output().await.expect("the command runs")
}

const ASK: [&str; 2] = ["ask", r#"{"question":"who?"}"#];

#[tokio::test]
async fn questions_are_answered_by_their_keys_or_declined() {
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("answers.toml", "[answer]\naction = \"accept\"\ncontent = { answer = \"Ada\" }\n");
    write("answers.json", r#"{"answer":{"action":"accept","content":{"answer":"Ada"}}}"#);
    for file in ["answers.toml", "answers.json"] {
        for task in [&[][..], &["--task"]] {
            let called = call(&folder, &[&ASK[..], &["--answers", file], task].concat()).await;
            assert_eq!((called.status.code(), out(&called).as_str()), (Some(0), "Ada\n"), "{}", err(&called));
        }
    }
    let eve = r#"answer={"action":"accept","content":{"answer":"Eve"}}"#;
    let called = call(&folder, &[&ASK[..], &["--answers", "answers.toml", "--answer", eve]].concat()).await;
    assert_eq!(out(&called), "Eve\n", "the flag wins");
    let record = [&ASK[..], &["--answer", eve, "--record", "eve.case.toml"]].concat();
    assert_eq!(call(&folder, &record).await.status.code(), Some(0));
    ends(&call(&folder, &record).await, 2, "already exists");
    // A question without an answer is declined and named.
    let other = r#"other={"action":"cancel"}"#;
    let called = call(&folder, &[&ASK[..], &["--answer", other]].concat()).await;
    assert_eq!((called.status.code(), out(&called).as_str()), (Some(0), "declined\n"));
    let not_asked = "the tool did not ask the question `other`";
    for word in ["no answer to the question `answer`", "[answer]\naction = \"accept\"", not_asked] {
        assert!(err(&called).contains(word), "{word}\n{}", err(&called));
    }
}

#[tokio::test]
async fn what_is_expected_decides_about_the_exit_code() {
    let folder = folder();
    let (hello, fails) = (["echo", r#"{"text":"hello"}"#], ["fail", r#"{"message":"no luck"}"#]);
    for (words, expects, code) in [
        (hello, ["--expect", "\"hello\""], 0),
        (hello, ["--expect-error", "hello"], 1),
        (fails, ["--expect-error", "luck"], 0),
        (fails, ["--expect", "\"no luck\""], 1),
        (["protocol_error", r#"{"code":-5,"message":"odd"}"#], ["--expect-error", "odd"], 0),
    ] {
        ends(&call(&folder, &[words, expects].concat()).await, code, "");
    }
    let called = call(&folder, &[hello, ["--expect", "\"other\""]].concat()).await;
    ends(&called, 1, "- other\n+ hello");
    assert!(called.stdout.is_empty());
}
