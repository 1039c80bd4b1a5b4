//! The ends of processes that tasks survive, and how later processes find, watch, answer and cancel the
//! tasks.

use super::{Folder, create_alone, open};
use rustix::process::{Signal, kill_process_group};
use serde_json::json;
use toolyard_tests::stateless::{enveloped, tasks};
use toolyard_tests::tokens::{local_stanza, stanza};
use toolyard_tests::{Host, Setup, text};

#[tokio::test]
async fn tasks_of_both_generations_outlive_kill_9_of_their_pipe_and_a_later_one_has_their_results() {
    let folder = Folder::new();
    let mut relay = folder.open().await;
    let of_session = relay.create("wait", json!({"ms": 1500})).await;
    let alone = create_alone(&mut relay, "batch", json!({"steps": 3, "ms": 500})).await;
    relay.kill().await;
    // Processes with and without the flag find them, and so do clients of both eras.
    let mut later = open(folder.stdio(&[])).await;
    assert_eq!(text(&later.result("tasks/result", json!({"taskId": of_session})).await), "waited 1500 ms");
    assert_eq!(text(&later.result("tasks/result", json!({"taskId": alone})).await), "counted 3");
    let mut later = folder.relay();
    for id in [of_session, alone] {
        let seen = later.result("tasks/get", enveloped(json!({"taskId": id}), &tasks())).await;
        assert_eq!(seen["status"], "completed");
    }
    drop(later);
    // No task is left and no process is connected.
    folder.backgrounds.gone().await;
}

#[tokio::test]
async fn what_kills_the_group_of_the_client_spares_them_and_they_hold_nothing_of_it() {
    let folder = Folder::new();
    // The client leaks descriptors, and shares a process group with its server.
    let mut relay = folder.wrapped(&["sh", "-c", "exec \"$@\" 8>&1 9<&0", "sh"]);
    relay.initialize("2025-11-25").await;
    let id = relay.create("wait", json!({"ms": 600_000})).await;
    let host = folder.backgrounds.one().await;
    let held = |number: u32| {
        let link = std::fs::read_link(format!("/proc/{}/fd/{number}", host.as_raw_nonzero()));
        link.map(|link| link.display().to_string()).unwrap_or_default()
    };
    for number in 0..32 {
        assert!(!held(number).starts_with("pipe:"), "{number} is {}", held(number));
    }
    assert_eq!([held(0), held(1)], ["/dev/null"; 2]);
    assert!(held(2).ends_with(".log"), "{}", held(2));
    assert_eq!(rustix::process::getsid(Some(host)).expect("a session"), host, "a session of its own");
    kill_process_group(relay.pid(), Signal::KILL).expect("a group");
    relay.ended().await;
    let mut later = folder.open().await;
    assert_eq!(later.task(&id).await["status"], "working");
    assert_eq!(folder.backgrounds.one().await, host);
}

#[tokio::test]
async fn without_the_flag_the_end_of_the_pipe_is_the_end_of_its_tasks_and_they_say_so() {
    let folder = Folder::of(Setup::new().manifest("probe", "[task]\ndurability = \"rerun\"\n"));
    let mut stdio = open(folder.stdio(&[])).await;
    let id = stdio.create("wait", json!({"ms": 600_000})).await;
    assert_eq!(stdio.task(&id).await["status"], "working");
    assert!(stdio.close().await.0.success());
    assert!(!folder.backgrounds.place().exists(), "nothing is to be taken over");
    let mut later = folder.open().await;
    let seen = later.task(&id).await;
    assert_eq!(seen["status"], "failed");
    let message = seen["statusMessage"].to_string();
    let said = ["ended with the pipe of its client", "effects"];
    assert!(said.iter().all(|part| message.contains(part)), "{message}");
}

#[tokio::test]
async fn serve_on_the_same_folder_leaves_them_alone_and_shows_them_to_their_owner_alone() {
    let tokens = format!("{}{}", local_stanza("me"), stanza("guest", &[]));
    let folder = Folder::of(Setup::new().config(&tokens));
    let mut relay = folder.open().await;
    let waiting = relay.create("wait", json!({"ms": 600_000})).await;
    let asking = relay.create("ask", json!({"question": "Colour?"})).await;
    relay.kill().await;
    let serving = Host::on(folder.folder.clone(), folder.args.clone()).await;
    assert!(folder.tasks(&["show", &waiting]).await.contains("working"));
    // T-40: for another bearer these tasks do not exist.
    let guest = serving.session_of("guest").await;
    assert_eq!(guest.error("tasks/get", json!({"taskId": waiting})).await["code"], -32602);
    assert_eq!(guest.result("tasks/list", json!({})).await["tasks"], json!([]));
    // Their owner finds, answers and cancels them, in a process that does not run them.
    let me = serving.session_as("me", json!({"elicitation": {}})).await;
    let listed = me.result("tasks/list", json!({})).await;
    assert_eq!(listed["tasks"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(me.task(&waiting).await["status"], "working");
    let mut result = me.begin("tasks/result", json!({"taskId": asking})).await;
    let question = result.next_of("elicitation/create").await;
    assert_eq!(question["params"]["message"], "Colour?");
    me.respond(&question, json!({"action": "accept", "content": {"answer": "green"}})).await;
    assert_eq!(text(&result.answer().await.0["result"]), "green");
    let cancelled = me.result("tasks/cancel", json!({"taskId": waiting})).await;
    assert_eq!(cancelled["status"], "cancelled");
    folder.backgrounds.gone().await;
}
