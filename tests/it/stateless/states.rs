//! Round trips of questions (26M): when a guest asks, its request ends with the questions, and the next
//! request carries the answers. The host does not trust the state that a client carries through them (26M-6).

use super::patient;
use crate::questions::{accepted, scripted};
use serde_json::{Value, json};
use toolyard_tests::guests;
use toolyard_tests::stateless::{Client, everything};

/// The params of the next request of a round trip: those of the first, with the returned state and these
/// answers.
fn next(first: &Value, asked: &Value, answers: Value) -> Value {
    let mut params = first.clone();
    params["inputResponses"] = answers;
    params["requestState"] = asked["requestState"].clone();
    params
}

/// The keys of the questions; asserts that there are some.
fn asked(result: &Value) -> Vec<&str> {
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert!(result.get("taskId").is_none() && result.get("content").is_none(), "{result}");
    assert!(result["requestState"].as_str().is_some_and(|state| !state.is_empty()), "{result}");
    result["inputRequests"].as_object().expect("requests").keys().map(String::as_str).collect()
}

#[tokio::test]
async fn m_26m_1_prompts_and_resources_ask_as_well() {
    let host = patient(scripted()).with(&[guests::fixture("prompting")]).start().await;
    let client = Client::new(host.port()).declaring(everything());
    let read = json!({"uri": "script:ask"});
    let first = client.result("resources/read", read.clone()).await;
    assert_eq!(asked(&first), ["read"]);
    let last = client.result("resources/read", next(&read, &first, json!({"read": accepted()}))).await;
    assert_eq!(last["resultType"], "complete");
    assert_eq!(last["contents"][0]["text"], json!({"read": accepted()}).to_string());
    assert_eq!((&last["ttlMs"], &last["cacheScope"]), (&json!(0), &json!("private")));
    let get = json!({"name": "asking", "arguments": {"topic": "sums"}});
    let first = client.result("prompts/get", get.clone()).await;
    assert_eq!(asked(&first), ["name"]);
    // A state is valid only for the request that it was given to.
    let foreign = next(&read, &first, json!({}));
    assert_eq!(client.ask("resources/read", foreign).await.refusal(), (200, -32602));
    let wrong = json!({"name": {"action": "accept", "content": {"name": 5}}});
    let second = client.result("prompts/get", next(&get, &first, wrong)).await;
    assert_eq!(asked(&second), ["name"]);
    let ada = json!({"action": "accept", "content": {"name": "Ada"}});
    let last = client.result("prompts/get", next(&get, &second, json!({"name": ada}))).await;
    assert_eq!(last["messages"][0]["content"]["text"], format!("sums: {ada}"));
    // The host does not ask a client that supports no questions.
    let bare = Client::new(host.port());
    let text = bare.result("resources/read", read).await["contents"][0]["text"].to_string();
    assert!(text.contains("unsupported"), "{text}");
}
