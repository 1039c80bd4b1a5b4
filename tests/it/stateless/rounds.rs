//! Round trips of questions (26M): when a guest asks, its request ends with the questions, and the next
//! request carries the answers.

use super::{patient, script, steps};
use crate::questions::{accepted, form, sampling, scripted, url};
use serde_json::{Value, json};
use toolyard_tests::exchange::outcome;
use toolyard_tests::guests;
use toolyard_tests::stateless::{Client, everything, key, tasks};

pub fn roots(key: &str) -> Value {
    json!({"key": key, "method": "roots/list", "params": {}})
}

fn text(text: &str) -> Value {
    json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": text}})
}

/// The params of the next request of a round trip: those of the first, with the returned state and these
/// answers.
pub fn next(first: &Value, asked: &Value, answers: Value) -> Value {
    let mut params = first.clone();
    params["inputResponses"] = answers;
    params["requestState"] = asked["requestState"].clone();
    params
}

/// The keys of the questions; asserts that there are some.
pub fn asked(result: &Value) -> Vec<&str> {
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert!(result.get("taskId").is_none() && result.get("content").is_none(), "{result}");
    assert!(result["requestState"].as_str().is_some_and(|state| !state.is_empty()), "{result}");
    result["inputRequests"].as_object().expect("requests").keys().map(String::as_str).collect()
}

#[tokio::test]
async fn m_26m_1_m_26m_2_m_26m_4_one_question_takes_two_requests() {
    let (host, client) = script().await;
    let call =
        steps(json!([{"log": {"level": "error", "data": "ran from the start"}}, {"ask": [form("a")]}]));
    let first = client.result("tools/call", call.clone()).await;
    assert_eq!(asked(&first), ["a"]);
    assert_eq!(
        first["inputRequests"]["a"],
        json!({"method": "elicitation/create", "params": form("a")["params"]})
    );
    // 26M-7: the client may not cache it.
    assert!(first.get("ttlMs").is_none() && first.get("cacheScope").is_none());
    let last = client.result("tools/call", next(&call, &first, json!({"a": accepted()}))).await;
    assert_eq!(last["resultType"], "complete");
    assert_eq!(outcome(&last)[1], json!({"a": accepted()}));
    assert!(last.get("requestState").is_none());
    assert_eq!(host.log().matches("ran from the start").count(), 2, "once for each request");
    // The client may repeat it as often as it likes, since the run had no effects.
    let again = client.result("tools/call", next(&call, &first, json!({"a": {"action": "decline"}}))).await;
    assert_eq!(outcome(&again)[1], json!({"a": {"action": "decline"}}));
}

#[tokio::test]
async fn m_26m_9_m_26m_8_whatever_can_be_asked_is_asked_at_once() {
    let (_host, client) = script().await;
    let call = steps(json!([{"ask": [form("f"), url("u"), sampling("s"), roots("r")]}]));
    let first = client.result("tools/call", call.clone()).await;
    assert_eq!(asked(&first), ["f", "r", "s", "u"]);
    let requests = &first["inputRequests"];
    assert_eq!(requests["u"]["params"], url("u")["params"], "no id added: the state says whose it is");
    assert_eq!(requests["s"]["method"], "sampling/createMessage");
    assert_eq!(requests["r"]["method"], "roots/list");
    let answers = json!({
        "f": {"action": "cancel"}, "u": {"action": "accept"}, "s": text("short"),
        "r": {"roots": [{"uri": "file:///work", "name": "work"}]},
    });
    let request = client.request("tools/call", next(&call, &first, answers.clone()));
    let last = client.reply(&request.meta("progressToken", json!("p"))).await;
    assert!(last.notices.is_empty(), "26J-1: the host sends no requests: {:?}", last.notices);
    assert_eq!(outcome(&last.result()), json!([answers]));
}

#[tokio::test]
async fn m_26m_5_what_is_missing_is_asked_again_and_what_is_unknown_passed_over() {
    let (_host, client) = script().await;
    let call = steps(json!([{"ask": [form("a"), form("b"), form("c")]}]));
    let first = client.result("tools/call", call.clone()).await;
    // 26X-10: only the keys of the guest count.
    let others = json!({"input": accepted(), "x": accepted(), "": 5, "host:b": accepted(), "b": accepted()});
    let second = client.result("tools/call", next(&call, &first, others)).await;
    assert_eq!(asked(&second), ["a", "c"], "what was answered is not asked again");
    let third = client.result("tools/call", next(&call, &second, json!({}))).await;
    assert_eq!(asked(&third), ["a", "c"], "nothing came, nothing is lost");
    // The last request answers `a` again, differently: the first answer counts.
    let answers = json!({"a": accepted(), "c": {"action": "decline"}, "b": {"action": "decline"}});
    let last = client.result("tools/call", next(&call, &third, answers)).await;
    assert_eq!(outcome(&last), json!([{"a": accepted(), "b": accepted(), "c": {"action": "decline"}}]));
}

/// 26J-2: nothing that another request declared counts.
#[tokio::test]
async fn m_26m_3_only_what_the_request_itself_declares_is_asked() {
    let (_host, client) = script().await;
    for (capabilities, question, says) in [
        (json!({}), form("a"), "elicitation.form"),
        (json!({"elicitation": {}}), url("a"), "elicitation.url"),
        (json!({"elicitation": {"url": {}}}), form("a"), "elicitation.form"),
        (json!({"elicitation": {}}), sampling("a"), "sampling"),
        (json!({"sampling": {}}), roots("a"), "roots"),
        (tasks(), form("a"), "elicitation.form"),
    ] {
        let request = client.request("tools/call", steps(json!([{"ask": [question]}])));
        let reply = client.reply(&request.meta(key::CAPABILITIES, capabilities)).await;
        let came = outcome(&reply.result());
        let why = came[0]["nothing"]["unsupported"].as_str().unwrap_or_else(|| panic!("{came}"));
        assert!(why.contains(says), "{why}");
    }
    // A guest that falls back to a question that the client supports.
    let falls_back = steps(json!([{"ask": [form("a")]}, {"ask": [sampling("b")]}]));
    let able = Client::new(client.port()).declaring(json!({"sampling": {}}));
    let first = able.result("tools/call", falls_back.clone()).await;
    assert_eq!(asked(&first), ["b"]);
    // The next request declares more, or less.
    let second = client.result("tools/call", next(&falls_back, &first, json!({"b": text("x")}))).await;
    assert_eq!(asked(&second), ["a"], "now it can be asked");
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
    let wrong = json!({"name": {"action": "accept", "content": {"name": 5}}});
    let second = client.result("prompts/get", next(&get, &first, wrong)).await;
    assert_eq!(asked(&second), ["name"]);
    let ada = json!({"action": "accept", "content": {"name": "Ada"}});
    let last = client.result("prompts/get", next(&get, &second, json!({"name": ada}))).await;
    assert_eq!(last["messages"][0]["content"]["text"], format!("sums: {ada}"));
    // A state is valid only for the request that it was given to.
    for (method, params) in [("resources/read", &read), ("prompts/get", &get)] {
        let foreign = next(
            params,
            &if method == "prompts/get" {
                client.result("resources/read", read.clone()).await
            } else {
                first.clone()
            },
            json!({}),
        );
        assert_eq!(client.ask(method, foreign).await.refusal(), (200, -32602), "{method}");
    }
    // The host does not ask a client that supports no questions.
    let bare = Client::new(host.port());
    let text = bare.result("resources/read", read).await["contents"][0]["text"].to_string();
    assert!(text.contains("unsupported"), "{text}");
    // 26M-1: no other method is answered with a question.
    let list = client.ask("tools/list", json!({"inputResponses": {"a": {}}, "requestState": "x"})).await;
    assert_eq!(list.result()["resultType"], "complete");
}

#[tokio::test]
async fn t_26t_11_rounds_are_over_before_a_task_begins_and_their_state_does_not_go_into_it() {
    let (_host, client) = script().await;
    let call = steps(json!([{"ask": [form("a")]}, {"begin": null}, {"info": null}]));
    let first = client.result("tools/call", call.clone()).await;
    assert_eq!(asked(&first), ["a"]);
    let created = client.result("tools/call", next(&call, &first, json!({"a": accepted()}))).await;
    assert_eq!(created["resultType"], "task");
    assert!(created.get("requestState").is_none() && created.get("inputRequests").is_none(), "{created}");
    let id = created["taskId"].as_str().expect("an id");
    let task = client.until(id, "completed").await;
    let came = outcome(&task["result"]);
    assert_eq!((&came[0], &came[2]["taskId"]), (&json!({"a": accepted()}), &json!(id)));
}
