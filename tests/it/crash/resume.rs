//! Crashes of the host of a task that resumes: around each commit of its journal, its parking and its waking. Requests
//! in doubt are sent again, or let the task fail; every other effect happens once.

use super::Scene;
use serde_json::{Value, json};
use toolyard_tests::{Setup, Sink, until};

/// A host with a tool that resumes, and what it does with a request in doubt.
async fn scene(fail_at: &str, in_doubt: &str) -> Scene {
    let sink = Sink::start().await;
    let manifest = format!(
        "[task]\ndurability = \"resume\"\n[http]\nallow = [\"127.0.0.1:{}\"]\nin-doubt = \"{in_doubt}\"\n",
        sink.port()
    );
    let setup = Setup::fixture("chances", &manifest).set("admin.listen", "127.0.0.1:0");
    let (host, session) = setup.fail_at(fail_at).open_as(json!({"elicitation": {}})).await;
    Scene { sink, host, session }
}

impl Scene {
    /// Creates a task that sends one request each round, and waits until its host has died. Returns its id on the next
    /// host.
    async fn crash(&mut self, rounds: u32) -> String {
        let created = self.create(json!({"rounds": rounds})).await;
        self.restart().await;
        self.known(created).await
    }

    async fn create(&self, mut order: Value) -> Option<String> {
        order["port"] = self.sink.port().into();
        order["key"] = json!("k");
        self.try_create("chances", order).await
    }

    async fn answer(&self, id: &str) {
        self.host.prints(&["tasks", "answer", id, "--answer", "q0={\"n\":3}"]).await;
    }
}

/// The first append is that of a request, before it is sent. The second has its response, and may have the next request
/// too. All responses precede the end, which is stored with that of the task.
#[tokio::test]
async fn a_request_is_repeated_only_in_doubt_and_as_the_manifest_says() {
    for (fail_at, in_doubt, begun, ends) in [
        ("append.before:1", "retry", [0, 1].as_slice(), "completed"),
        ("append.uncommitted:1", "retry", &[0, 1], "completed"),
        // Not sent, and in doubt.
        ("append.committed:1", "retry", &[0, 1], "completed"),
        ("append.committed:1", "fail", &[], "failed"),
        // Sent, and in doubt.
        ("append.before:2", "retry", &[0, 0, 1], "completed"),
        ("append.uncommitted:2", "retry", &[0, 0, 1], "completed"),
        ("append.uncommitted:2", "fail", &[0], "failed"),
        ("append.committed:2", "retry", &[0, 1], "completed"),
        ("append.committed:3", "retry", &[0, 1], "completed"),
        ("finish.before", "fail", &[0, 1], "completed"),
        ("finish.uncommitted", "fail", &[0, 1], "completed"),
        ("finish.committed", "fail", &[0, 1], "completed"),
    ] {
        let mut scene = scene(fail_at, in_doubt).await;
        let id = scene.crash(2).await;
        let task = scene.session.until(&id, ends).await;
        if ends == "completed" {
            assert_eq!(scene.outcome(&id).await.as_array().map(Vec::len), Some(2), "{fail_at}");
        } else {
            assert!(task["statusMessage"].to_string().contains("was not sent again"), "{fail_at}: {task}");
        }
        assert_eq!(scene.begun("k"), begun, "{fail_at}");
    }
}

#[tokio::test]
async fn a_crash_while_a_task_gives_up_its_run_or_gets_it_back_loses_no_question_and_no_answer() {
    let parks = ["park.before", "park.uncommitted", "park.committed"];
    for fail_at in parks.into_iter().chain(["wake.before", "wake.uncommitted", "wake.committed"]) {
        let mut scene = scene(fail_at, "fail").await;
        let id = scene.create(json!({"rounds": 1, "ask": true})).await.expect("a task");
        if parks.contains(&fail_at) {
            scene.restart().await;
            scene.session.until(&id, "input_required").await;
            scene.answer(&id).await;
        } else {
            until("the run to end", || async { scene.host.runs().await == 0 }).await;
            scene.answer(&id).await;
            scene.restart().await;
        }
        assert!(scene.outcome(&id).await[0]["answer"].to_string().contains("accept"), "{fail_at}");
        assert_eq!(scene.begun("k"), [0], "{fail_at}");
    }
}
