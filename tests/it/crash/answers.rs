//! Crashes around questions and their answers (A7).

use super::Scene;
use serde_json::{Value, json};
use toolyard_tests::Session;
use toolyard_tests::sink::Effects;

impl Scene {
    fn asking(&self) -> Value {
        json!({"key": "a", "sink": self.sink.authority(), "ask": true, "ms": 0})
    }

    fn words(&self) -> Effects {
        self.sink.of("a")
    }
}

/// Answers the question of a task; returns whether the host lived to acknowledge the answer.
async fn answer(session: &Session, id: &str, word: &str) -> bool {
    session.until(id, "input_required").await;
    let mut waiting = session.begin("tasks/result", json!({"taskId": id})).await;
    let asked = waiting.next_of("elicitation/create").await;
    let result = json!({"action": "accept", "content": {"word": word}});
    let response = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
    let Some(mut connection) = toolyard_tests::http::Connection::try_open(session.port()).await else {
        return false;
    };
    let post = hyper::Method::POST;
    connection.try_send(post, "/mcp", &session.headers(), response.to_string()).await.is_some()
}

/// Row 7: the next run asks the question again, or the task fails. Row 8: the first answer wins, even if the host that
/// took it dies.
#[tokio::test]
async fn a_question_outlives_its_runner_if_the_run_may_be_repeated_and_an_answer_its_taker() {
    for (fail_at, tool) in [
        ("ask.committed", "once"),
        ("ask.committed", "again"),
        ("answer.committed", "once"),
        ("answer.committed", "again"),
    ] {
        let mut scene = Scene::new(Some(fail_at)).await;
        let id = scene.try_create(tool, scene.asking()).await;
        if fail_at == "answer.committed" {
            let id = id.as_ref().expect("a task");
            assert!(!answer(&scene.session, id, "first").await, "the host died over it");
        }
        scene.restart().await;
        let id = scene.known(id).await;
        if tool == "once" {
            scene.failed_honestly(&id).await;
            assert_eq!(scene.words(), Effects { begun: vec![1], words: vec![] }, "{fail_at}");
            continue;
        }
        assert!(fail_at == "answer.committed" || answer(&scene.session, &id, "first").await);
        assert_eq!(scene.outcome(&id).await, json!({"key": "a", "attempt": 2, "word": "first"}), "{fail_at}");
        assert_eq!(scene.words(), Effects { begun: vec![1, 2], words: vec![(2, "first".to_owned())] });
    }
}

/// Row 8, for an answer to another process than the one that runs the task.
#[tokio::test]
async fn an_answer_reaches_the_runner_though_its_messenger_died() {
    for fail_at in ["answer.committed", "answer.uncommitted"] {
        let scene = Scene::new(None).await;
        let mut beside = scene.host.another_to_fail_at(fail_at).await;
        let id = scene.try_create("once", scene.asking()).await.expect("a task");
        assert!(!answer(&scene.session.at(beside.port()), &id, "first").await);
        beside.was_killed().await;
        let word = if fail_at == "answer.committed" { "first" } else { "second" };
        if word == "second" {
            // The client received no answer, so it answers the question again.
            assert!(answer(&scene.session, &id, word).await);
        }
        assert_eq!(scene.outcome(&id).await, json!({"key": "a", "attempt": 1, "word": word}), "{fail_at}");
        assert_eq!(scene.words(), Effects { begun: vec![1], words: vec![(1, word.to_owned())] });
    }
}
