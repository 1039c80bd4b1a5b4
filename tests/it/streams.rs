//! Streams that outlive their connections (H-13 to H-16, H-27 to H-29).

use crate::notices::ready;
use crate::questions::scripted;
use hyper::Method;
use serde_json::{Value, json};
use toolyard_tests::exchange::{next, outcome};
use toolyard_tests::http::{Connection, Event, Events};
use toolyard_tests::wait::PATIENCE;
use toolyard_tests::{Session, eventually};

async fn event(events: &mut Events) -> Option<Event> {
    tokio::time::timeout(PATIENCE, events.next()).await.expect("something in time")
}

#[tokio::test]
async fn h_14_a_tool_lets_its_connection_go_in_mid_call_and_the_answer_waits() {
    let (_host, session) = ready().await;
    let mut call = session.begin_script(json!([{"release": 40}, {"sleep": 200}])).await;
    let opening = event(&mut call.events).await.expect("an opening event");
    assert!(opening.data.is_empty() && opening.retry.is_some(), "H-13: {opening:?}");
    let pause = event(&mut call.events).await.expect("where to go on");
    assert_eq!(pause.retry, Some(40));
    let last = pause.id.expect("an id to come back with");
    assert_eq!(event(&mut call.events).await, None, "the connection is let go");
    let mut resumed = session.get(Some(&last)).await.events();
    let answer = next(&mut resumed).await.expect("the answer");
    assert_eq!(answer["id"], call.id);
    assert_eq!(outcome(&answer["result"]), json!([null, null]));
    assert_eq!(event(&mut resumed).await, None, "H-15: the stream ends with its answer");
}

#[tokio::test]
async fn h_14_what_is_said_while_nobody_listens_is_read_afterwards_in_order() {
    let (_host, session) = ready().await;
    let say = |text: &str| json!({"log": {"level": "error", "data": text}});
    let steps = json!([say("a"), {"release": 20}, say("b"), say("c")]);
    let mut call = session.begin_script(steps).await;
    let mut last = String::new();
    let mut said = Vec::new();
    while let Some(event) = event(&mut call.events).await {
        if !event.data.is_empty() {
            said.push(serde_json::from_str::<Value>(&event.data).expect("JSON"));
        }
        last = event.id.expect("H-27: every event has an id");
    }
    let mut resumed = session.get(Some(&last)).await.events();
    while let Some(message) = next(&mut resumed).await {
        said.push(message);
    }
    let texts: Vec<_> = said.iter().filter_map(|message| message["params"]["data"].as_str()).collect();
    assert_eq!(texts, ["a", "b", "c"], "nothing lost, nothing twice: {said:?}");
    assert_eq!(said.last().expect("an answer")["id"], call.id);
}

#[tokio::test]
async fn h_14_a_client_that_was_given_no_event_id_keeps_its_connection() {
    let host = scripted().start().await;
    let session = Session::open_as(host.port(), "2025-06-18", json!({})).await.session;
    let steps = json!([{"release": 20}, {"sleep": 400}]);
    let call = session.begin_script(steps).await;
    assert_eq!(call.outcome().await, json!([null, null]));
}

#[tokio::test]
async fn h_28_only_the_events_of_that_stream_are_replayed() {
    let (_host, session) = ready().await;
    let steps = |text: &str| json!([{"sleep": 300}, {"log": {"level": "error", "data": text}}]);
    let mut one = session.begin_script(steps("one")).await;
    let mut two = session.begin_script(steps("two")).await;
    let first = event(&mut one.events).await.expect("an opening").id.expect("an id");
    let second = event(&mut two.events).await.expect("an opening").id.expect("an id");
    assert_ne!(first, second, "H-27: unique in the session");
    drop((one, two));
    for (id, text) in [(first, "one"), (second, "two")] {
        let mut resumed = session.get(Some(&id)).await.events();
        assert_eq!(next(&mut resumed).await.expect("its log")["params"]["data"], text);
        assert!(next(&mut resumed).await.expect("its answer").get("result").is_some());
        assert_eq!(next(&mut resumed).await, None);
    }
}

#[tokio::test]
async fn h_29_the_log_is_bounded_and_what_is_lost_is_said_to_be() {
    let (host, session) = scripted().set("wire.replay-bytes", "1KiB").open().await;
    let mut steps = vec![json!({"sleep": 300})];
    steps.extend((0..30).map(|number| json!({"log": {"level": "error", "data": number}})));
    let mut call = session.begin_script(Value::Array(steps)).await;
    let opening = event(&mut call.events).await.expect("an opening").id.expect("an id");
    drop(call);
    eventually("the log to have moved on", || async {
        (session.get(Some(&opening)).await.status == 400).then_some(())
    })
    .await;
    for id in ["0000000000000000-1", "", "x", "-", "0000000000000000-18446744073709551616"] {
        assert_eq!(session.get(Some(id)).await.status, 400, "{id:?}");
    }
    // The host keeps these events for their own session only.
    let mut kept = session.begin_script(json!([{"sleep": 300}])).await;
    let opening = event(&mut kept.events).await.expect("an opening").id.expect("an id");
    let stranger = Session::open(host.port()).await;
    assert_eq!(stranger.get(Some(&opening)).await.status, 400, "H-28");
    assert_eq!(session.get(Some(&opening)).await.status, 200);
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_a_bounded_amount_and_harms_nobody() {
    let (host, session) = scripted().set("wire.replay-bytes", "64KiB").open().await;
    let big = "x".repeat(60_000);
    let steps: Vec<Value> = (0..100)
        .flat_map(|_| [json!({"log": {"level": "error", "data": big}}), json!({"sleep": 25})])
        .collect();
    let call = json!({"jsonrpc": "2.0", "id": "slow", "method": "tools/call",
        "params": {"name": "script", "arguments": {"steps": steps}}});
    let mut connection = Connection::open(host.port()).await;
    let answer = connection.send(Method::POST, "/mcp", &session.headers(), call.to_string()).await;
    assert!(answer.is_events());
    // The client does not read the body: 6 MB exceed the socket buffers. The host serves another client
    // meanwhile.
    let other = Session::open(host.port()).await;
    assert_eq!(outcome(&other.call("script", json!({"steps": []})).await), json!([]));
    let resident = || host.usage().resident >> 10;
    let before = resident();
    eventually("the guest to end", || async {
        let idle = other.call("script", json!({"steps": []})).await;
        let over = host.log().contains("event=\"guest.log_limit_reached\"");
        (over && idle["isError"] == false).then_some(())
    })
    .await;
    assert!(resident() < before + 64 * 1024, "{} KiB, {before} KiB before", resident());
    let mut events = answer.events();
    while event(&mut events).await.is_some() {}
}
