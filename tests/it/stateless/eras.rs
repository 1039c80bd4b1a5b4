//! One task, two generations (26B-8, 26B-9): each generation reads, answers and cancels the tasks that the
//! other one created. Both report the same about a task, each in its own format.

use super::patient;
use crate::questions::{RELATED, accepted, form, scripted};
use serde_json::{Value, json};
use toolyard_tests::exchange::outcome;
use toolyard_tests::stateless::{Client, everything};
use toolyard_tests::{Host, Session, guests, token};

/// A host with one user, and a client of each generation for that user.
async fn both() -> (Host, Session, Client) {
    let setup = patient(scripted()).with(&[guests::plugin("probe")]);
    let host = setup.principals(&["alice"]).start().await;
    let session = host.session_as("alice", everything()).await;
    let client = Client::new(host.port()).declaring(everything()).bearing(&token("alice"));
    (host, session, client)
}

/// Asserts that both report the same about a task; the task must not change meanwhile.
async fn agree(session: &Session, client: &Client, id: &str) -> (Value, Value) {
    let (old, new) = (session.task(id).await, client.task(id).await);
    toolyard_tests::chaos::agreement(&old, &new).unwrap_or_else(|what| panic!("{what}: {old} and {new}"));
    (old, new)
}

#[tokio::test]
async fn b_26b_9_t_26t_6_each_reads_lists_and_cancels_what_the_other_made() {
    let (_host, session, client) = both().await;
    let theirs = client.create("batch", json!({"steps": 1, "ms": 600_000})).await;
    let ours = session.create("wait", json!({"ms": 600_000})).await;
    for id in [&theirs, &ours] {
        let (old, new) = agree(&session, &client, id).await;
        assert_eq!((&old["status"], &new["status"]), (&json!("working"), &json!("working")));
    }
    // 26T-6: a client that knows the tasks of sessions alone may read and cancel those.
    let old = Client::new(client.port()).declaring(json!({"tasks": {"cancel": {}}})).bearing(&token("alice"));
    assert_eq!(old.task(&ours).await["status"], "working");
    for (method, id) in [("tasks/get", &theirs), ("tasks/cancel", &theirs), ("tasks/update", &ours)] {
        let refused = old.ask(method, json!({"taskId": id, "inputResponses": {}})).await;
        assert_eq!(refused.refusal(), (400, -32021), "{method}");
    }
    let listed = session.result("tasks/list", json!({})).await["tasks"].take();
    let listed = listed.to_string();
    assert!(listed.contains(&theirs) && listed.contains(&ours), "{listed}");
    // A cancel takes effect at once in a session, and eventually in 2026-07-28; a second one is an error in a
    // session.
    assert_eq!(session.result("tasks/cancel", json!({"taskId": theirs})).await["status"], "cancelled");
    client.cancel(&theirs).await;
    assert_eq!(session.error("tasks/cancel", json!({"taskId": theirs})).await["code"], -32602);
    old.cancel(&ours).await;
    session.until(&ours, "cancelled").await;
    for id in [&theirs, &ours] {
        agree(&session, &client, id).await;
        assert_eq!(session.error("tasks/result", json!({"taskId": id})).await["code"], -32603, "T-28");
    }
    // A cancel by the other client ends the wait of a session.
    let id = client.create("batch", json!({"steps": 1, "ms": 600_000})).await;
    let waiting = session.error("tasks/result", json!({"taskId": id}));
    let (woken, _) = tokio::join!(waiting, client.cancel(&id));
    assert_eq!(woken["code"], -32603);
    // A session's cancel notifies a listener.
    let id = session.create("wait", json!({"ms": 600_000})).await;
    let (mut listening, granted) = client.listen(json!({"taskIds": [id]})).await;
    assert_eq!(granted["taskIds"], json!([id]));
    session.result("tasks/cancel", json!({"taskId": id})).await;
    while listening.next_of("notifications/tasks").await["status"] != "cancelled" {}
}

#[tokio::test]
async fn b_26b_9_questions_are_answered_by_whoever_comes_first() {
    let (_host, session, client) = both().await;
    // Created in a session, answered by a self-contained request.
    let steps = json!([{"ask": [form("a")]}, {"info": null}]);
    let id = session.create("script", json!({"steps": steps})).await;
    let task = client.until(&id, "input_required").await;
    let asked = task["inputRequests"].as_object().expect("requests");
    let (key, request) = asked.iter().next().expect("a question");
    assert_eq!(request, &json!({"method": "elicitation/create", "params": form("a")["params"]}));
    client.update(&id, json!({key: accepted()})).await;
    let result = session.result("tasks/result", json!({"taskId": id})).await;
    assert_eq!(outcome(&result)[0], json!({"a": accepted()}));
    assert_eq!(outcome(&result)[1]["taskId"], id.as_str());
    // Created by a self-contained request, answered in a session.
    let steps = json!([{"begin": null}, {"ask": [form("a")]}]);
    let id = client.create("script", json!({"steps": steps})).await;
    client.until(&id, "input_required").await;
    assert_eq!(session.task(&id).await["status"], "input_required");
    let mut wait = session.begin("tasks/result", json!({"taskId": id})).await;
    let question = wait.next_of("elicitation/create").await;
    assert_eq!(question["params"]["_meta"][RELATED]["taskId"], id.as_str());
    session.respond(&question, accepted()).await;
    assert_eq!(wait.outcome().await[1], json!({"a": accepted()}));
    let (_, task) = agree(&session, &client, &id).await;
    assert_eq!(task["status"], "completed");
}
