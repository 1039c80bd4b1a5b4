//! The audit log (T-43): which lines the host writes about the life of a task, and in whose name. The log is
//! complete even if the process is killed, the file is replaced or the disk is full.

use crate::questions::{accepted, everything, form, scripted};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use toolyard_tests::exchange::next_of;
use toolyard_tests::{Host, Session, Setup, eventually, until};

/// All entries of this host's log and of its rotated files, the oldest first.
pub fn log(host: &Host) -> Vec<Value> {
    let aside = (1..=50).rev().map(|number| format!("audit.jsonl.{number}"));
    let mut text = String::new();
    for name in aside.chain(["audit.jsonl".to_owned()]) {
        text += &std::fs::read_to_string(host.data().join(name)).unwrap_or_default();
    }
    // The host may still be writing the last line.
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    text[..whole].lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// The lines about this task, once `last` is the event of the last one.
pub async fn said_of(host: &Host, task: &str, last: &str) -> Vec<Value> {
    eventually(&format!("{last} in the log"), || async {
        let of_task: Vec<Value> = log(host).into_iter().filter(|line| line["task"] == task).collect();
        of_task.last().is_some_and(|line| line["action"] == last).then_some(of_task)
    })
    .await
}

pub fn actions(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["action"].as_str().expect("an action")).collect()
}

#[tokio::test]
async fn t_43_the_life_of_a_task_is_in_the_log_and_nothing_that_was_said_in_it() {
    let (host, session) = scripted().open_as(everything()).await;
    let mut stream = session.listen().await;
    let mut question = form("colour");
    question["params"]["message"] = json!("hush-question");
    let task = session.create_script(json!([{"ask": [question]}, {"status": "hush-argument"}])).await;
    let asked = next_of(&mut stream, "elicitation/create").await;
    session.respond(&asked, accepted()).await;
    session.request("tasks/result", json!({"taskId": task})).await;
    let said = said_of(&host, &task, "task.retrieved").await;
    let life = "task.created question.asked question.answered task.ended task.retrieved";
    assert_eq!(actions(&said).join(" "), life);
    assert!(said.iter().all(|line| line["owner"] == "anonymous" && line["tool"] == "script"), "{said:?}");
    assert_eq!((&said[0]["principal"], &said[3]["principal"]), (&json!("anonymous"), &json!("host")));
    let text = std::fs::read_to_string(host.data().join("audit.jsonl")).expect("the log");
    for secret in ["hush", "Deploy", "accept", session.id()] {
        assert!(!text.contains(secret), "the log tells `{secret}`");
    }
    let left = session.create_script(json!([{"sleep": 600_000}])).await;
    assert_eq!(session.delete().await, 204);
    assert_eq!(said_of(&host, &left, "task.cancelled").await[1]["reason"], "session_ended");
    let mode = std::fs::metadata(host.data().join("audit.jsonl")).expect("the log").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Each acknowledged change is in the log, no matter when the process was killed.
#[tokio::test]
async fn t_43_no_line_of_an_acknowledged_change_is_lost_to_kill_9() {
    let mut host = Host::with_probe().await;
    let mut session = Session::open(host.port()).await;
    let mut acknowledged = BTreeSet::new();
    for _ in 0..3 {
        for _ in 0..5 {
            let task = session.create("wait", json!({"ms": 600_000})).await;
            session.result("tasks/cancel", json!({"taskId": task})).await;
            acknowledged.insert(task);
        }
        host.kill().await;
        host = host.another().await;
        session = session.at(host.port());
    }
    host.signal(Signal::TERM);
    assert!(host.ended().await.success());
    let log = log(&host);
    for task in acknowledged {
        let of_task = log.iter().filter(|line| line["task"] == task);
        let found: BTreeSet<_> = of_task.filter_map(|line| line["action"].as_str()).collect();
        assert_eq!(found, BTreeSet::from(["task.created", "task.cancelled"]), "of {task}");
    }
}

#[tokio::test]
async fn t_43_the_log_can_go_to_stderr() {
    let (host, session) = Setup::probe().set("audit.to", "stderr").open().await;
    let task = session.create("wait", json!({"ms": 1})).await;
    eventually("the line", || async {
        let log = host.log();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["action"] == "task.ended" && line["task"] == task)
    })
    .await;
    assert!(!host.data().join("audit.jsonl").exists());
}

/// The host continues while it cannot write its log, and reports that. Once writing works again, nothing is lost. Tasks
/// that end during the shutdown are in the log once the host has stopped.
#[tokio::test]
async fn t_43_a_log_that_cannot_be_written_is_waited_for_and_complete_when_the_host_has_stopped() {
    let mut host = Setup::probe().set("shutdown.drain", "10ms").start().await;
    let file = host.data().join("audit.jsonl");
    std::fs::create_dir(&file).expect("something in its way");
    let session = Session::open(host.port()).await;
    let task = session.complete("wait", json!({"ms": 1})).await;
    host.logs("is no regular file").await;
    std::fs::remove_dir(&file).expect("out of its way");
    let said = said_of(&host, &task, "task.ended").await;
    assert_eq!(actions(&said), ["task.created", "task.ended"]);
    let task = session.create("wait", json!({"ms": 600_000})).await;
    host.signal(Signal::TERM);
    assert_eq!(host.ended().await.code(), Some(1), "the task was cut");
    let said: Vec<Value> = log(&host).into_iter().filter(|line| line["task"] == task).collect();
    assert_eq!(actions(&said), ["task.created", "task.orphaned"]);
    assert_eq!(said[1]["reason"], "host_stops");
}

/// Two hosts on one data folder write to one file and rotate it. Neither repeats or loses a line.
#[tokio::test]
async fn t_43_two_hosts_share_one_log_and_its_rotated_files() {
    let first = Setup::probe().set("audit.rotate-at", "1KiB").set("audit.keep", "40").start().await;
    let second = first.another().await;
    let session = Session::open(first.port()).await;
    let beside = session.at(second.port());
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(session.create("wait", json!({"ms": 1})).await);
        tasks.push(beside.create("wait", json!({"ms": 1})).await);
    }
    for task in &tasks {
        assert_eq!(actions(&said_of(&first, task, "task.ended").await), ["task.created", "task.ended"]);
    }
    // The other host may be moving the files just now.
    let second_last = first.data().join("audit.jsonl.2");
    until("a second rotated file", || async {
        // A file is moved after a write, and one write may have had all entries.
        session.create("wait", json!({"ms": 1})).await;
        second_last.is_file()
    })
    .await;
    let log = log(&first);
    let ids: BTreeSet<_> = log.iter().map(|line| line["id"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), log.len(), "an entry came twice");
}
