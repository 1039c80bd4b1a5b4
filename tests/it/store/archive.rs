//! `toolyard tasks export` and `import`.

use super::setup;
use crate::command_line::{err, out};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};
use tokio::io::AsyncWriteExt as _;
use toolyard_tests::{Host, Session, guests};

async fn command(data: &Path, args: &[&str], stdin: &str) -> Output {
    let mut child = tokio::process::Command::new(guests::binary())
        .args(args)
        .arg("--data")
        .arg(data)
        .current_dir(data.parent().expect("is in a folder"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut input = child.stdin.take().expect("is piped");
    // A process that rejects a line reads no further.
    let _ = input.write_all(stdin.as_bytes()).await;
    drop(input);
    child.wait_with_output().await.expect("it ends")
}

/// A host with tasks in several states: three completed, one failed, one live.
async fn host_with_tasks() -> (Host, Session, Vec<String>, String) {
    let (host, session) = setup().open().await;
    let mut over = Vec::new();
    for text in ["one", "two", "\u{e4}\n\u{1f600}"] {
        let id = session.complete("echo", json!({"text": text})).await;
        over.push(id);
    }
    let failed = session.create("fail", json!({"message": "no luck"})).await;
    session.until(&failed, "failed").await;
    over.push(failed);
    let live = session.create("wait", json!({"ms": 600_000})).await;
    (host, session, over, live)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn all_tasks_leave_a_host_that_runs_and_come_into_another_store() {
    let (host, session, over, live) = host_with_tasks().await;
    let exported = host.command(&["tasks", "export"]).await;
    assert_eq!(exported.status.code(), Some(0), "{}", err(&exported));
    assert!(err(&exported).contains("exported 5 tasks"), "{}", err(&exported));
    let all = lines(&out(&exported));
    assert_eq!(all.len(), 5);
    for line in &all {
        assert_eq!(line["format"], 1);
        let id = line["task"]["id"].as_str().expect("an id").to_owned();
        assert_eq!(over.contains(&id), !line["outcome"].is_null(), "{line}");
        assert!(line["arguments"].is_object(), "{line}");
    }
    // An export to a file, which only its owner may read.
    let file = host.folder().join("tasks.jsonl");
    let written = host.command(&["tasks", "export", "--output", "tasks.jsonl"]).await;
    assert_eq!((written.status.code(), out(&written).as_str()), (Some(0), ""), "{}", err(&written));
    assert_eq!(std::fs::metadata(&file).expect("is there").permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).expect("reads");
    assert_eq!(lines(&text).len(), 5);
    assert_eq!(session.task(&live).await["status"], "working", "the export does not disturb it");
    let with_events = out(&host.command(&["tasks", "export", "--timeline"]).await);
    assert_eq!(lines(&with_events)[0]["timeline"][0]["event"], "created", "{with_events}");

    // An import into a new folder, twice, and an export from there.
    let elsewhere = host.folder().join("elsewhere");
    let imported = command(&elsewhere, &["tasks", "import", "tasks.jsonl"], "").await;
    assert_eq!(imported.status.code(), Some(0), "{}", err(&imported));
    assert_eq!(out(&imported), "imported 5 tasks, skipped 0 that were there\n");
    for again in [&text, &with_events] {
        let again = command(&elsewhere, &["tasks", "import", "-", "--json"], again).await;
        assert_eq!(out(&again), "{\"imported\":0,\"skipped\":5}\n", "{}", err(&again));
    }
    let back = command(&elsewhere, &["tasks", "export"], "").await;
    assert!(out(&back) == text, "not the same lines");
    // T-43: the audit log names who did it.
    let audit = std::fs::read_to_string(elsewhere.join("audit.jsonl")).expect("an audit log");
    let entry = lines(&audit).into_iter().find(|entry| entry["action"] == "archive.imported");
    let entry = entry.expect("an entry");
    assert_eq!((&entry["principal"], &entry["count"]), (&json!("local"), &json!(5)));
}

/// The database refuses the whole transaction; the tasks before the refused line are kept.
#[tokio::test]
async fn a_line_that_the_database_refuses_is_named_and_what_stands_before_it_is_kept() {
    let (host, ..) = host_with_tasks().await;
    let text = out(&host.command(&["tasks", "export"]).await);
    let good: Vec<&str> = text.lines().collect();
    let elsewhere = host.folder().join("elsewhere");
    let none = command(&elsewhere, &["tasks", "import"], "").await;
    assert_eq!(none.status.code(), Some(0), "{}", err(&none));
    let id = lines(&text)[2]["task"]["id"].as_str().expect("an id").replace('-', "");
    let trigger = format!(
        "CREATE TRIGGER refuse BEFORE INSERT ON task WHEN hex(NEW.id) = upper('{id}')
         BEGIN SELECT RAISE(ABORT, 'not this one'); END"
    );
    let on = rusqlite::Connection::open(elsewhere.join(super::FILE)).expect("opens");
    on.execute_batch(&trigger).expect("makes");
    drop(on);
    let imported = command(&elsewhere, &["tasks", "import"], &text).await;
    assert_eq!(imported.status.code(), Some(1), "{}", err(&imported));
    assert!(
        err(&imported).contains("line 3") && err(&imported).contains("not this one"),
        "{}",
        err(&imported)
    );
    assert!(out(&imported).contains("imported 2 tasks"), "{}", out(&imported));
    let kept = out(&command(&elsewhere, &["tasks", "export"], "").await);
    assert_eq!(kept.lines().collect::<Vec<_>>(), good[..2]);
}

/// The import reads a line up to a limit, which the operator can raise.
#[tokio::test]
async fn a_line_without_end_is_refused_at_the_bound() {
    let (host, ..) = host_with_tasks().await;
    let text = out(&host.command(&["tasks", "export"]).await);
    let elsewhere = host.folder().join("elsewhere");
    let first = text.lines().next().expect("a line");
    let longer = format!("{first}\n{first}{}\n", " ".repeat(10_000));
    for (most, taken) in [("9KiB", 1), ("1MiB", 0)] {
        let imported = command(&elsewhere, &["tasks", "import", "--max-line", most], &longer).await;
        assert!(out(&imported).contains(&format!("imported {taken} task")), "{}", out(&imported));
        if most == "9KiB" {
            assert_eq!(imported.status.code(), Some(1));
            let said = err(&imported);
            assert!(said.contains("line 2: longer than 9.0 KiB") && said.contains("--max-line"), "{said}");
        } else {
            assert_eq!(imported.status.code(), Some(0), "{}", err(&imported));
        }
    }
}

#[tokio::test]
async fn a_line_that_cannot_be_read_is_named_and_what_stands_before_it_is_kept() {
    let (host, ..) = host_with_tasks().await;
    let text = out(&host.command(&["tasks", "export"]).await);
    let good: Vec<&str> = text.lines().collect();
    for (name, third, says) in [
        ("no JSON", "{", "not a task of format 1"),
        ("later", &good[2].replacen("\"format\":1", "\"format\":9", 1), "format 9 is not known here"),
        ("odd", &good[2].replacen("\"attempt\":1", "\"attempt\":0", 1), "`fence.attempt` counts from 1"),
    ] {
        let elsewhere = host.folder().join(name);
        let bad = [good[0], good[1], third, good[3], good[4]].join("\n");
        let imported = command(&elsewhere, &["tasks", "import"], &bad).await;
        assert_eq!(imported.status.code(), Some(1), "{name}: {}", err(&imported));
        let said = err(&imported);
        assert!(said.contains("line 3") && said.contains(says), "{name}: {said}");
        assert!(out(&imported).contains("imported 2 tasks"), "{name}: {}", out(&imported));
        let kept = out(&command(&elsewhere, &["tasks", "export"], "").await);
        assert_eq!(kept.lines().collect::<Vec<_>>(), good[..2], "{name}");
    }
    let none = host.command(&["tasks", "import", "absent.jsonl"]).await;
    assert_eq!(none.status.code(), Some(1));
    assert!(err(&none).contains("absent.jsonl"), "{}", err(&none));
    let nothing = command(&host.folder().join("nowhere"), &["tasks", "export"], "").await;
    assert_eq!(nothing.status.code(), Some(1));
    assert!(err(&nothing).contains("no data folder"), "{}", err(&nothing));
}
