//! Tasks belong to principals (T-40): another principal's task is as unknown as one that never existed,
//! in every request. No principal can take over another one's session, stream or question.

use crate::questions::{accepted, everything, form};
use serde_json::{Value, json};
use toolyard_tests::{Host, Session, Setup, guests, token};

/// A host that knows alice and bob, without a limit on failed look-ups.
async fn shared() -> Host {
    let setup = Setup::new().with(&[guests::plugin("probe"), guests::fixture("script")]);
    setup.principals(&["alice", "bob"]).without_rates().start().await
}

async fn open(host: &Host, name: &str) -> Session {
    host.session_as(name, everything()).await
}

#[tokio::test]
async fn t_40_the_matrix_of_principals_objects_and_operations() {
    let host = shared().await;
    let (alice, again, bob) =
        (open(&host, "alice").await, open(&host, "alice").await, open(&host, "bob").await);
    let running = alice.create("wait", json!({"ms": 600_000})).await;
    let done = alice.complete("wait", json!({"ms": 1})).await;
    let asking = alice.create_script(json!([{"ask": [form("a")]}])).await;
    alice.until(&asking, "input_required").await;
    let unknown = "00000000-0000-4000-8000-000000000001".to_owned();
    for (object, id) in
        [("running task", &running), ("done task", &done), ("asking task", &asking), ("unknown", &unknown)]
    {
        for (principal, session) in [("alice", &alice), ("alice, other session", &again), ("bob", &bob)] {
            // Requests without effects come first; a result is requested only if there is one.
            for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
                let mine = principal.starts_with("alice") && object != "unknown";
                let waits = method == "tasks/result" && object != "done task";
                // Bob tries the requests that change a task first.
                if mine && (waits || method == "tasks/cancel") {
                    continue;
                }
                let answer = session.request(method, json!({"taskId": id})).await;
                let expected = if mine { &Value::Null } else { &json!("Task not found") };
                assert_eq!(answer["error"]["message"], *expected, "{method} of {object} by {principal}");
                assert_eq!(answer["error"]["code"] == -32602, !mine, "{answer}");
            }
        }
    }
    for (session, count) in [(&alice, 3), (&again, 3), (&bob, 0)] {
        for params in [json!({}), json!({"filter": {}})] {
            let list = session.result("tasks/list", params).await;
            assert_eq!(list["tasks"].as_array().map(Vec::len), Some(count), "F-7");
        }
    }
    // The owner can do it, from any of its sessions.
    for (id, session) in [(&running, &again), (&asking, &alice)] {
        assert_eq!(session.result("tasks/cancel", json!({"taskId": id})).await["status"], "cancelled");
    }
}

#[tokio::test]
async fn t_40_h_25_an_answer_counts_only_from_who_was_asked_and_a_stream_cannot_be_taken_over() {
    let host = shared().await;
    let (alice, again, bob) =
        (open(&host, "alice").await, open(&host, "alice").await, open(&host, "bob").await);
    let task = alice.create_script(json!([{"ask": [form("a")]}])).await;
    let mut waiting = alice.begin("tasks/result", json!({"taskId": task})).await;
    let asked = waiting.next_of("elicitation/create").await;
    let decline = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    for (who, session) in [("bob", &bob), ("alice in another session", &again)] {
        // The host accepts and ignores it, like any response that belongs to no request.
        assert_eq!(session.post(&decline).await.status, 202, "{who}");
    }
    assert_eq!(alice.task(&task).await["status"], "input_required", "no answer has counted");
    // In alice's own session, but with bob's token.
    let hijacked = alice.bearing(Some(&token("bob")));
    assert_eq!(hijacked.post(&decline).await.status, 404);
    assert_eq!(alice.bearing(None).post(&decline).await.status, 401);
    alice.respond(&asked, accepted()).await;
    alice.until(&task, "completed").await;
    let result = alice.result("tasks/result", json!({"taskId": task})).await;
    assert!(result.to_string().contains("accept"), "{result}");

    let mut exchange = alice.begin_script(json!([{"progress": 1}, {"sleep": 600_000}])).await;
    let first = exchange.events.next().await.expect("the first event");
    let event = first.id.expect("it has an id");
    // Bob names alice's event in his session, and gets a new stream of his own; then in hers, with his token.
    let opening = bob.get(Some(&event)).await.events().next().await.expect("an event");
    let stream = |id: &str| id.split_once('-').map(|(stream, _)| stream.to_owned());
    assert_ne!(stream(&opening.id.expect("an id")), stream(&event));
    assert_eq!(hijacked.get(Some(&event)).await.status, 404);
    assert_eq!(alice.bearing(None).get(Some(&event)).await.status, 401);
    assert_eq!(hijacked.delete().await, 404);
    // Alice notices nothing.
    assert_eq!(alice.get(Some(&event)).await.status, 200);
    assert!(alice.result("ping", json!({})).await.is_object());
}
