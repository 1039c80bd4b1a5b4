//! Tasks of a client at a pipe that wait without a run: they continue after the end of the client, of its relay,
//! and of the host.

use super::{Folder, create_alone, open};
use crate::questions::RELATED;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use toolyard_tests::stateless::{enveloped, everything};
use toolyard_tests::{Setup, Stdio, guests, text, until};

/// A folder with a tool whose tasks resume, and with more in its manifest.
pub(super) fn resuming(setup: Setup, more: &str) -> Folder {
    let manifest =
        format!("[task]\ndurability = \"resume\"\n[tools.chances]\ntask-support = \"required\"\n{more}");
    Folder::of(setup.with(&[guests::fixture("chances")]).manifest("chances", &manifest))
}

fn folder(setup: Setup) -> Folder {
    resuming(setup, "")
}

/// The two kinds of clients: with a session, and without one.
const KINDS: [bool; 2] = [true, false];

pub(super) async fn client(folder: &Folder, has_session: bool) -> Stdio {
    if has_session { folder.open().await } else { folder.relay() }
}

pub(super) async fn request(client: &mut Stdio, has_session: bool, method: &str, params: Value) -> Value {
    client.result(method, if has_session { params } else { enveloped(params, &everything()) }).await
}

async fn create(client: &mut Stdio, has_session: bool, arguments: Value) -> String {
    create_with(client, has_session, "chances", arguments).await
}

pub(super) async fn create_with(stdio: &mut Stdio, has_session: bool, tool: &str, args: Value) -> String {
    if has_session { stdio.create(tool, args).await } else { create_alone(stdio, tool, args).await }
}

impl Folder {
    async fn shown(&self, id: &str) -> Value {
        serde_json::from_str(&self.tasks(&["show", id, "--json"]).await).expect("JSON")
    }

    async fn until_parked(&self, id: &str) {
        until("the task to be parked", || async { !self.shown(id).await["parked"].is_null() }).await;
    }

    async fn until_completed(&self, id: &str) {
        until("the end of the task", || async {
            let shown = self.shown(id).await;
            assert_ne!(shown["status"], "failed", "{shown}");
            shown["status"] == "completed"
        })
        .await;
    }
}

/// Sleeps for so long that it is parked first.
fn sleeping() -> Value {
    json!({"rounds": 1, "hostSleep": 6_000})
}

#[tokio::test]
async fn a_task_that_sleeps_ends_although_its_client_has_left() {
    for has_session in KINDS {
        let folder = folder(Setup::new());
        let mut relay = client(&folder, has_session).await;
        let id = create(&mut relay, has_session, sleeping()).await;
        folder.until_parked(&id).await;
        relay.kill().await;
        let host = folder.backgrounds.one().await;
        folder.until_completed(&id).await;
        assert!(folder.backgrounds.log().contains(&format!("process={}", host.as_raw_nonzero())));
        folder.backgrounds.gone().await;
    }
}

#[tokio::test]
async fn a_task_that_sleeps_goes_on_if_its_host_is_killed_and_its_client_stays() {
    let folder = folder(Setup::new());
    let mut relay = folder.open().await;
    let id = create(&mut relay, true, sleeping()).await;
    folder.until_parked(&id).await;
    let host = folder.backgrounds.one().await;
    kill_process(host, Signal::KILL).expect("it runs");
    // No request of the client starts the next one.
    folder.until_completed(&id).await;
    assert_ne!(folder.backgrounds.one().await, host);
    assert_eq!(relay.task(&id).await["status"], "completed");
}

/// The host has ended too: by itself, or killed; and another program, as after an upgrade, takes its place.
#[tokio::test]
async fn a_question_is_answered_by_a_later_client_which_starts_the_host() {
    for has_session in KINDS {
        let folder = folder(Setup::new().set("detach.parked", "1s"));
        let mut relay = client(&folder, has_session).await;
        let asking = json!({"rounds": 1, "ask": true});
        let mut ids = Vec::new();
        for _ in 0..2 {
            ids.push(create(&mut relay, has_session, asking.clone()).await);
            folder.until_parked(&ids[ids.len() - 1]).await;
        }
        relay.kill().await;
        folder.backgrounds.gone().await;
        answered(&folder, has_session, &ids[0], &[]).await;
        // Another configuration has a host of its own on the same tasks, and so has another version.
        answered(&folder, has_session, &ids[1], &["--set", "questions.wait=1h"]).await;
        folder.backgrounds.gone().await;
    }
}

async fn answered(folder: &Folder, has_session: bool, id: &str, args: &[&str]) {
    let mut later = folder.stdio(&[args, &["--detach"]].concat());
    if has_session {
        later = open(later).await;
        let waiting = later.send("tasks/result", json!({"taskId": id})).await;
        let question = loop {
            // A new stream gets the questions of every task of its owner.
            let message = later.read().await;
            let task = &message["params"]["_meta"][RELATED]["taskId"];
            if message["method"] == "elicitation/create" && *task == id {
                break message;
            }
        };
        let content = json!({"action": "accept", "content": {"n": 3}});
        later.line(&json!({"jsonrpc": "2.0", "id": question["id"], "result": content}).to_string()).await;
        let answer = later.answer(waiting).await;
        assert!(text(&answer["result"]).contains("accept"), "{answer}");
    } else {
        let asked = request(&mut later, false, "tasks/get", json!({"taskId": id})).await;
        let key = asked["inputRequests"].as_object().and_then(|asked| asked.keys().next());
        let key = key.unwrap_or_else(|| panic!("a question: {asked}"));
        let content = json!({"action": "accept", "content": {"n": 3}});
        let answers = json!({"taskId": id, "inputResponses": {key: content}});
        request(&mut later, false, "tasks/update", answers).await;
        // It was acknowledged, so the task goes on whatever becomes of its client.
        later.kill().await;
    }
    folder.until_completed(id).await;
}

#[tokio::test]
async fn an_idle_host_with_a_parked_task_takes_little_memory() {
    let folder = folder(Setup::new());
    let mut relay = folder.open().await;
    let id = create(&mut relay, true, json!({"rounds": 1, "ask": true})).await;
    folder.until_parked(&id).await;
    relay.kill().await;
    let host = folder.backgrounds.one().await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.as_raw_nonzero())).expect("runs");
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux says it");
    let kib: u64 = anonymous.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib <= 40 * 1024, "{kib} KiB");
}
