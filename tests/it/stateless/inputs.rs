//! Questions of tasks (26T-14, 26T-17 to 26T-22): the task lists all open questions, and the client answers
//! them in any order, in any number of parts.

use super::rounds::roots;
use super::{patient, script};
use crate::questions::{accepted, form, sampling, scripted};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use toolyard_tests::exchange::outcome;
use toolyard_tests::stateless::{Client, TASKS, everything};
use toolyard_tests::{Host, eventually};

fn asking(questions: Value) -> Value {
    json!({"steps": [{"begin": null}, {"ask": questions}]})
}

/// The open questions of a task that waits for answers.
async fn open(client: &Client, id: &str) -> Map<String, Value> {
    let task = client.until(id, "input_required").await;
    task["inputRequests"].as_object().expect("requests").clone()
}

/// The key of the open question with this method.
fn key_of(open: &Map<String, Value>, method: &str) -> String {
    let found = open.iter().find(|(_, request)| request["method"] == method);
    found.unwrap_or_else(|| panic!("{method} in {open:?}")).0.clone()
}

#[tokio::test]
async fn t_26t_14_t_26t_17_all_that_is_open_is_there_and_is_answered_piece_by_piece() {
    let (_host, client) = script().await;
    let id = client.create("script", asking(json!([form("f"), sampling("s"), roots("r")]))).await;
    let all = open(&client, &id).await;
    assert_eq!(all.len(), 3);
    let (f, s, r) = (
        key_of(&all, "elicitation/create"),
        key_of(&all, "sampling/createMessage"),
        key_of(&all, "roots/list"),
    );
    assert_eq!(all[&f]["params"], form("f")["params"]);
    let acknowledged = client
        .update(
            &id,
            json!({&s: {"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}}}),
        )
        .await;
    assert_eq!(acknowledged["resultType"], "complete");
    // An acknowledged answer is still on its way; until it counts, the question stays open.
    let rest = eventually("the answered question to be gone", || async {
        let rest = open(&client, &id).await;
        (!rest.contains_key(&s)).then_some(rest)
    })
    .await;
    assert_eq!(rest.keys().collect::<BTreeSet<_>>(), [&f, &r].into_iter().collect());
    client.update(&id, json!({&f: {"action": "decline"}, &r: {"roots": []}})).await;
    let came = outcome(&client.until(&id, "completed").await["result"]);
    assert_eq!(came[1]["f"], json!({"action": "decline"}));
    assert_eq!(came[1]["s"]["content"]["text"], "x");
    assert_eq!(came[1]["r"], json!({"roots": []}));
}

#[tokio::test]
async fn t_26t_17_x_26x_6_what_is_not_open_is_passed_over() {
    let (_host, client) = script().await;
    let id = client.create("script", asking(json!([form("a"), form("b")]))).await;
    let all = open(&client, &id).await;
    let keys: Vec<_> = all.keys().cloned().collect();
    for odd in [json!({}), json!({"unknown-key": {"ignored": true}}), json!({"": null, "x": 5})] {
        assert_eq!(client.update(&id, odd).await["resultType"], "complete");
        assert_eq!(open(&client, &id).await, all);
    }
    client.update(&id, json!({&keys[0]: accepted(), "other": accepted()})).await;
    eventually("one to be answered", || async { (open(&client, &id).await.len() == 1).then_some(()) }).await;
    // The first answer to a question stays.
    client.update(&id, json!({&keys[0]: {"action": "cancel"}})).await;
    client.update(&id, json!({&keys[1]: accepted()})).await;
    let task = client.until(&id, "completed").await;
    assert_eq!(outcome(&task["result"])[1], json!({"a": accepted(), "b": accepted()}));
    // An answer to a finished task is acknowledged too.
    client.update(&id, json!({&keys[1]: accepted()})).await;
    assert_eq!(client.task(&id).await, task);
}

#[tokio::test]
async fn t_26t_18_later_questions_have_keys_of_their_own() {
    let (_host, client) = script().await;
    let steps =
        json!([{"begin": null}, {"ask": [form("a")]}, {"ask": [form("b")]}, {"ask": [form("c"), form("d")]}]);
    let id = client.create("script", json!({"steps": steps})).await;
    let mut seen = BTreeSet::new();
    for (count, fits) in [(1, false), (1, true), (1, true), (2, true)] {
        let all = eventually("the next questions", || async {
            let all = open(&client, &id).await;
            (all.len() == count && all.keys().all(|key| !seen.contains(key))).then_some(all)
        })
        .await;
        seen.extend(all.keys().cloned());
        // 26T-22: the host asks again after an answer that does not fit, under a new key.
        let answer =
            if fits { accepted() } else { json!({"action": "accept", "content": {"ok": "perhaps"}}) };
        let answers: Map<_, _> = all.keys().map(|key| (key.clone(), answer.clone())).collect();
        client.update(&id, Value::Object(answers)).await;
    }
    assert_eq!(seen.len(), 5);
    client.until(&id, "completed").await;
}

#[tokio::test]
async fn t_26t_19_what_is_asked_is_asked_of_who_could_be_asked_and_read_by_who_can_be() {
    let (host, client) = script().await;
    // The capabilities of the call itself decide which questions the guest may ask.
    let can = |capabilities: Value| {
        let mut capabilities = capabilities;
        capabilities["extensions"] = json!({TASKS: {}});
        Client::new(host.port()).declaring(capabilities)
    };
    let deaf = can(json!({}));
    let id = deaf.create("script", asking(json!([form("a")]))).await;
    let task = deaf.until(&id, "completed").await;
    assert!(outcome(&task["result"])[1]["nothing"]["unsupported"].is_string(), "it goes on without");
    // A request whose client cannot show all open questions gets an error that names the missing
    // capabilities.
    let id = client.create("script", asking(json!([form("a"), sampling("b")]))).await;
    open(&client, &id).await;
    for (capabilities, missing) in [
        (json!({}), json!({"elicitation": {"form": {}}, "sampling": {}})),
        (json!({"elicitation": {}}), json!({"sampling": {}})),
        (json!({"sampling": {}, "elicitation": {"url": {}}}), json!({"elicitation": {"form": {}}})),
    ] {
        let reply = can(capabilities.clone()).ask("tasks/get", json!({"taskId": id})).await;
        assert_eq!(reply.refusal(), (400, -32021), "{capabilities}");
        let required = &reply.message["error"]["data"]["requiredCapabilities"];
        for (name, member) in missing.as_object().expect("an object") {
            assert_eq!(&required[name], member, "{capabilities}: {required}");
        }
    }
    // Such a client can cancel, and read a finished task.
    can(json!({})).cancel(&id).await;
    can(json!({})).until(&id, "cancelled").await;
}

#[tokio::test]
async fn t_26t_21_a_question_is_given_up_when_its_time_is_over() {
    let host: Host = patient(scripted()).set("questions.wait", "300ms").start().await;
    let client = Client::new(host.port()).declaring(everything());
    let id = client.create("script", asking(json!([form("a")]))).await;
    let task = client.until(&id, "completed").await;
    assert_eq!(outcome(&task["result"])[1], json!({"a": "timed-out"}));
}
