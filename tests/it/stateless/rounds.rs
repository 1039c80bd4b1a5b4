//! Round trips of questions (26M): when a guest asks, its request ends with the questions, and the next
//! request carries the answers.

use super::{patient, script, steps};
use crate::questions::{accepted, form, sampling, scripted};
use serde_json::{Value, json};
use toolyard_tests::exchange::outcome;
use toolyard_tests::stateless::{Client, everything, key, tasks};
use toolyard_tests::{Host, Session, guests};

pub fn url(key: &str) -> Value {
    json!({"key": key, "method": "elicitation/create", "params": {
        "mode": "url", "message": "Sign in", "url": "https://example.com/connect",
    }})
}

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
    let last = client.result("tools/call", next(&call, &first, answers.clone())).await;
    assert_eq!(outcome(&last), json!([answers]));
}

#[tokio::test]
async fn m_26m_5_what_is_missing_is_asked_again_and_what_is_unknown_passed_over() {
    let (_host, client) = script().await;
    let call = steps(json!([{"ask": [form("a"), form("b"), form("c")]}]));
    let first = client.result("tools/call", call.clone()).await;
    let others = json!({"x": accepted(), "": 5, "host:b": accepted(), "b": accepted()});
    let second = client.result("tools/call", next(&call, &first, others)).await;
    assert_eq!(asked(&second), ["a", "c"], "what was answered is not asked again");
    let third = client.result("tools/call", next(&call, &second, json!({}))).await;
    assert_eq!(asked(&third), ["a", "c"], "nothing came, nothing is lost");
    // The last request answers `a` again, differently: the first answer counts.
    let answers = json!({"a": accepted(), "c": {"action": "decline"}, "b": {"action": "decline"}});
    let last = client.result("tools/call", next(&call, &third, answers)).await;
    assert_eq!(outcome(&last), json!([{"a": accepted(), "b": accepted(), "c": {"action": "decline"}}]));
}

#[tokio::test]
async fn m_26m_5_what_does_not_fit_the_question_is_asked_again() {
    let (_host, client) = script().await;
    let call = steps(json!([{"ask": [form("a"), sampling("s"), roots("r")]}]));
    let first = client.result("tools/call", call.clone()).await;
    for (name, wrong) in [
        ("a", json!({"action": "accept", "content": {"ok": "perhaps"}})),
        ("a", json!({"action": "accept", "content": {}})),
        ("a", json!({"action": "accept"})),
        ("a", json!({"action": "shrug"})),
        ("a", json!({})),
        ("a", json!(5)),
        ("a", json!(null)),
        ("s", json!({"role": "assistant"})),
        ("s", accepted()),
        ("r", json!({"roots": 5})),
        ("r", json!([])),
    ] {
        let mut answers = json!({"a": accepted(), "s": text("x"), "r": {"roots": []}})
            .as_object()
            .expect("an object")
            .clone();
        answers.insert(name.to_owned(), wrong.clone());
        let second = client.result("tools/call", next(&call, &first, Value::Object(answers))).await;
        assert_eq!(asked(&second), [name], "{wrong}");
    }
    // 26X-10: only the keys of the guest count.
    let named = client.result("tools/call", next(&call, &first, json!({"input": accepted()}))).await;
    assert_eq!(asked(&named), ["a", "r", "s"]);
}

#[tokio::test]
async fn m_26m_5_what_is_no_map_of_answers_is_refused() {
    let (_host, client) = script().await;
    let call = steps(json!([{"ask": [form("a")]}]));
    let first = client.result("tools/call", call.clone()).await;
    for (member, value) in [
        ("inputResponses", json!(null)),
        ("inputResponses", json!([])),
        ("inputResponses", json!("a")),
        ("requestState", json!(5)),
        ("requestState", json!({})),
    ] {
        let mut params = next(&call, &first, json!({"a": accepted()}));
        params[member] = value.clone();
        let reply = client.ask("tools/call", params).await;
        assert_eq!(reply.refusal(), (200, -32602), "{member}: {value}: {}", reply.message);
    }
}

#[tokio::test]
async fn m_26m_2_a_guest_may_ask_round_after_round() {
    let (_host, client) = script().await;
    let call = steps(
        json!([{"ask": [form("a")]}, {"ask": [form("b"), form("c")]}, {"ask": [form("a"), form("d")]}]),
    );
    let first = client.result("tools/call", call.clone()).await;
    assert_eq!(asked(&first), ["a"]);
    let second = client.result("tools/call", next(&call, &first, json!({"a": accepted()}))).await;
    assert_eq!(asked(&second), ["b", "c"]);
    assert_ne!(second["requestState"], first["requestState"]);
    let answers = json!({"b": {"action": "decline"}, "c": accepted()});
    let third = client.result("tools/call", next(&call, &second, answers)).await;
    assert_eq!(asked(&third), ["d"], "the same question under the same key has its answer");
    let last = client.result("tools/call", next(&call, &third, json!({"d": accepted()}))).await;
    let came = outcome(&last);
    assert_eq!(came[0], json!({"a": accepted()}));
    assert_eq!(came[1], json!({"b": {"action": "decline"}, "c": accepted()}));
    assert_eq!(came[2], json!({"a": accepted(), "d": accepted()}));
}

#[tokio::test]
async fn m_26m_4_answers_count_without_a_state_too() {
    let (_host, client) = script().await;
    let call = steps(json!([{"ask": [form("a")]}, {"ask": [form("b")]}]));
    let mut params = call.clone();
    params["inputResponses"] = json!({"a": accepted()});
    let second = client.result("tools/call", params).await;
    assert_eq!(asked(&second), ["b"]);
    let last = client.result("tools/call", next(&call, &second, json!({"b": accepted()}))).await;
    assert_eq!(outcome(&last), json!([{"a": accepted()}, {"b": accepted()}]));
    // An empty map holds no answers.
    let mut params = call.clone();
    params["inputResponses"] = json!({});
    assert_eq!(asked(&client.result("tools/call", params).await), ["a"]);
}

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
async fn x_26x_9_numbers_in_forms_may_have_fractions() {
    let (_host, client) = script().await;
    let question = json!({"key": "n", "method": "elicitation/create", "params": {
        "mode": "form", "message": "How much?",
        "requestedSchema": {"type": "object", "properties": {"much": {"type": "number"}}, "required": ["much"]},
    }});
    let call = steps(json!([{"ask": [question]}]));
    let first = client.result("tools/call", call.clone()).await;
    assert_eq!(first["inputRequests"]["n"]["params"]["mode"], "form", "as the guest put it");
    let half = json!({"action": "accept", "content": {"much": 1.5}});
    let last = client.result("tools/call", next(&call, &first, json!({"n": half}))).await;
    assert_eq!(outcome(&last), json!([{"n": half}]));
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
async fn m_26m_6_effects_are_had_once_for_one_state() {
    let (mut host, client) = script().await;
    let bare = || Client::new(host.port()).declaring(json!({"elicitation": {}}));
    let call = steps(
        json!([{"ask": [form("a")]}, {"effects": null}, {"log": {"level": "error", "data": "had effects"}}]),
    );
    let first = bare().result("tools/call", call.clone()).await;
    let retry = next(&call, &first, json!({"a": accepted()}));
    // Ten at once: exactly one of them succeeds.
    let asking: Vec<_> = (0..10)
        .map(|_| {
            let (client, retry) = (bare(), retry.clone());
            tokio::spawn(async move { client.ask("tools/call", retry).await })
        })
        .collect();
    let mut done = 0;
    for reply in asking {
        let reply = reply.await.expect("nothing panics");
        match reply.message.get("result") {
            Some(result) => done += usize::from(outcome(result)[1].is_null()),
            None => assert_eq!(reply.refusal(), (200, -32602), "{}", reply.message),
        }
    }
    assert_eq!(done, 1);
    assert_eq!(host.log().matches("had effects").count(), 1);
    // Another host on the same folder knows it too.
    host.kill().await;
    let host = host.another().await;
    let client = client.at(host.port());
    let reply = client.ask("tools/call", retry).await;
    assert_eq!(reply.refusal(), (200, -32602), "{}", reply.message);
    assert!(!host.log().contains("had effects"));
    // A new first request works.
    assert_eq!(asked(&client.result("tools/call", call).await), ["a"]);
}

#[tokio::test]
async fn m_26m_6_what_is_asked_after_effects_is_asked_by_a_task_or_not_at_all() {
    let (host, client) = script().await;
    let call = steps(
        json!([{"ask": [form("a")]}, {"effects": null}, {"log": {"level": "error", "data": "had effects"}}, {"ask": [form("b")]}]),
    );
    let bare = Client::new(host.port()).declaring(json!({"elicitation": {}}));
    let first = bare.result("tools/call", call.clone()).await;
    let late = bare.result("tools/call", next(&call, &first, json!({"a": accepted()}))).await;
    assert_eq!(outcome(&late)[3], json!({"nothing": "too-late"}), "it cannot be run again to ask");
    let first = client.result("tools/call", call.clone()).await;
    let created = client.result("tools/call", next(&call, &first, json!({"a": accepted()}))).await;
    assert_eq!(created["resultType"], "task", "{created}");
    let id = created["taskId"].as_str().expect("an id");
    let task = client.until(id, "input_required").await;
    assert_eq!(task["inputRequests"].as_object().expect("requests").len(), 1);
    let key = task["inputRequests"].as_object().and_then(|all| all.keys().next()).expect("a key").clone();
    client.update(id, json!({key: accepted()})).await;
    let task = client.until(id, "completed").await;
    assert_eq!(outcome(&task["result"])[0], json!({"a": accepted()}), "26T-11: rounds come before");
    assert_eq!(outcome(&task["result"])[3], json!({"b": accepted()}));
    assert_eq!(host.log().matches("had effects").count(), 2, "once for each of the two");
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

/// The same guest asks in a session: it does not notice the difference.
#[tokio::test]
async fn b_26b_8_one_guest_serves_both_ways_of_asking() {
    let (host, client): (Host, Client) = script().await;
    let asks = json!([{"ask": [form("a")]}]);
    let first = client.result("tools/call", steps(asks.clone())).await;
    let alone =
        client.result("tools/call", next(&steps(asks.clone()), &first, json!({"a": accepted()}))).await;
    let session = Session::open_as(host.port(), "2025-11-25", json!({"elicitation": {}})).await.session;
    let mut exchange = session.begin_script(asks).await;
    let question = exchange.message().await;
    assert_eq!(question["params"], first["inputRequests"]["a"]["params"]);
    session.respond(&question, accepted()).await;
    assert_eq!(exchange.outcome().await, outcome(&alone));
}
