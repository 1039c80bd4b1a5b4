//! Tests of the tap itself: it must find the faults that it is meant to find.

use super::{Conversation, Tap};
use crate::schema::Schema;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use serde_json::{Value, json};

/// A conversation with a client that declares `capabilities`, up to the host's response to `initialize`;
/// `None` if there is no schema.
fn begun(capabilities: &Value) -> Option<Conversation> {
    of_revision("2025-11-25", capabilities)
}

fn of_revision(revision: &str, capabilities: &Value) -> Option<Conversation> {
    let mut conversation = Conversation::new(Schema::official()?);
    let initialize = crate::session::initialize(revision, capabilities.clone());
    conversation.from_client(initialize.to_string().as_bytes());
    let result = json!({"protocolVersion": revision,
        "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
        "serverInfo": {"name": "toolyard", "version": "1"}});
    let response = json!({"jsonrpc": "2.0", "id": 0, "result": result});
    let verdict = conversation.from_host(response.to_string().as_bytes());
    assert!(verdict.is_none_or(|verdict| verdict.problems.is_empty()), "{response}");
    Some(conversation)
}

/// Asserts that `problem` is found in a message of the host, or that there is none if it is empty.
pub(super) fn found(conversation: &mut Conversation, message: &Value, problem: &str) {
    let verdict = conversation.from_host(message.to_string().as_bytes());
    let problems = verdict.expect("a verdict").problems.join("\n");
    assert_eq!(problems.is_empty(), problem.is_empty(), "{message}: {problems}");
    assert!(problems.contains(problem), "{problem} in {problems}");
}

fn asks(conversation: &mut Conversation, id: i64, method: &str, params: &Value) {
    let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    conversation.from_client(request.to_string().as_bytes());
}

/// The same object with these members.
pub(super) fn with(mut object: Value, members: &Value) -> Value {
    object.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    object
}

pub(super) fn without(mut object: Value, key: &str) -> Value {
    object.as_object_mut().expect("an object").remove(key);
    object
}

fn task() -> Value {
    json!({"taskId": "t", "status": "working", "ttl": null, "createdAt": "2025-11-25T10:30:00.000Z",
        "lastUpdatedAt": "2025-11-25T10:30:00.000Z"})
}

#[test]
fn results_are_judged_by_what_was_asked() {
    let Some(mut conversation) = begun(&json!({})) else { return };
    let call = json!({"name": "wait", "arguments": {}});
    let as_task = json!({"name": "wait", "arguments": {}, "task": {}});
    let get = json!({"taskId": "t"});
    let changed = |members: Value| with(task(), &members);
    let plain = json!({"content": []});
    let related = json!({"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}});
    for (method, params, result, problem) in [
        ("ping", json!({}), json!({}), ""),
        ("ping", json!({}), json!({"resultType": "complete"}), "J-9"),
        ("tools/call", call.clone(), plain.clone(), ""),
        ("tools/call", call, json!({}), "content"),
        ("tools/call", as_task.clone(), json!({"task": task()}), ""),
        ("tools/call", as_task.clone(), plain.clone(), "task"),
        ("tools/call", as_task, json!({"task": without(task(), "ttl")}), "ttl"),
        ("tasks/get", get.clone(), task(), ""),
        ("tasks/get", get.clone(), changed(json!({"status": "done"})), "done"),
        ("tasks/get", get.clone(), changed(related.clone()), "T-38"),
        ("tasks/get", get.clone(), changed(json!({"createdAt": "yesterday"})), "T-12"),
        ("tasks/get", get.clone(), changed(json!({"createdAt": "2025-11-25T10:30:00.001Z"})), "T-20"),
        ("tasks/list", json!({}), json!({"tasks": [task()], "nextCursor": ""}), "N-1"),
        ("tasks/result", get.clone(), plain.clone(), "T-26"),
        ("tasks/result", get, with(plain, &related), ""),
        ("tools/list", json!({}), json!({"tools": [{"name": "x", "inputSchema": {}}]}), "inputSchema"),
        ("tasks/update", json!({}), json!({}), "tasks/update"),
    ] {
        asks(&mut conversation, 7, method, &params);
        found(&mut conversation, &json!({"jsonrpc": "2.0", "id": 7, "result": result}), problem);
    }
}

#[test]
fn responses_have_the_one_form_or_the_other_and_answer_something() {
    let Some(mut conversation) = begun(&json!({})) else { return };
    let error = json!({"code": -32600, "message": "no"});
    asks(&mut conversation, 1, "ping", &json!({}));
    for (message, problem) in [
        (json!({"jsonrpc": "2.0", "error": error}), ""),
        (json!({"jsonrpc": "2.0", "id": 1, "error": error}), ""),
        (json!({"jsonrpc": "2.0", "id": null, "error": error}), "null"),
        (json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600.5, "message": "no"}}), "code"),
        (json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600}}), "message"),
        (json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": ""}}), "J-4"),
        (json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": error}), "J-4"),
        (json!({"jsonrpc": "2.0", "id": 1}), "J-4"),
        (json!({"id": 1, "result": {}}), "jsonrpc"),
        (json!({"jsonrpc": "2.0", "id": "1", "result": {}}), "J-3"),
        (json!({"jsonrpc": "2.0", "result": {}}), "J-3"),
        (json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]), "J-6"),
        (json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32042, "message": "x"}}), "data"),
    ] {
        found(&mut conversation, &message, problem);
    }
    let verdict = conversation.from_host(b"Listening...").expect("a verdict");
    assert!(verdict.problems[0].contains("J-1"), "{:?}", verdict.problems);
}

#[test]
fn the_host_asks_for_nothing_that_was_not_declared() {
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    let url = json!({"mode": "url", "message": "?", "url": "https://a.example/", "elicitationId": "e"});
    let sampling = json!({"messages": [], "maxTokens": 1});
    let (as_task, with_tools) =
        (with(form.clone(), &json!({"task": {}})), with(sampling.clone(), &json!({"tools": []})));
    for (capabilities, method, params, problem) in [
        (json!({"elicitation": {}}), "elicitation/create", form.clone(), ""),
        (json!({}), "elicitation/create", form.clone(), "L-6"),
        (json!({"elicitation": {"url": {}}}), "elicitation/create", form.clone(), "L-6"),
        (json!({"elicitation": {}}), "elicitation/create", url, "L-6"),
        (json!({"elicitation": {}}), "elicitation/create", as_task, "L-6"),
        (json!({"sampling": {}}), "sampling/createMessage", sampling, ""),
        (json!({"sampling": {}}), "sampling/createMessage", with_tools, "L-6"),
        (json!({}), "tools/call", json!({}), "no such message"),
    ] {
        let Some(mut conversation) = begun(&capabilities) else { return };
        let request = json!({"jsonrpc": "2.0", "id": "s-1", "method": method, "params": params});
        found(&mut conversation, &request, problem);
    }
}

#[test]
fn an_id_of_the_host_is_used_once_but_may_be_sent_again() {
    let Some(mut conversation) = begun(&json!({"roots": {}})) else { return };
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    found(&mut conversation, &ping, "");
    // As on a resumed stream.
    found(&mut conversation, &ping, "");
    found(&mut conversation, &json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}), "J-2");
}

#[test]
fn notifications_are_of_a_kind_that_was_declared() {
    let Some(mut conversation) = begun(&json!({})) else { return };
    for (method, params, problem) in [
        ("notifications/progress", json!({"progressToken": 0, "progress": 0.5}), ""),
        ("notifications/progress", json!({"progressToken": 0}), "progress"),
        ("notifications/tasks/status", task(), ""),
        ("notifications/tasks/status", json!({"taskId": "t"}), "ttl"),
        ("notifications/message", json!({"level": "info", "data": 1}), "L-6"),
        ("notifications/message", json!({"level": "loud", "data": 1}), "loud"),
        ("notifications/tools/list_changed", json!({}), "L-6"),
        ("notifications/initialized", json!({}), "no such message"),
    ] {
        let notification = json!({"jsonrpc": "2.0", "method": method, "params": params});
        found(&mut conversation, &notification, problem);
    }
}

#[test]
fn sessions_of_older_revisions_are_left_alone() {
    let Some(mut conversation) = of_revision("2025-03-26", &json!({})) else { return };
    let batch = json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]);
    assert!(conversation.from_host(batch.to_string().as_bytes()).is_none());
}

#[test]
fn a_fault_in_an_event_that_comes_in_pieces_is_reported() {
    const EVENT: &[u8] = b"id: 1-1\ndata: {\"jsonrpc\":\"2.0\",\"id\":null,\ndata: \"result\":{}}\n\n";
    if Schema::official().is_none() {
        return;
    }
    let tap = Tap::default();
    let mut exchange = tap.exchange(&HeaderMap::new(), b"{}");
    let stream = HeaderValue::from_static("text/event-stream");
    exchange.head(StatusCode::OK, &HeaderMap::from_iter([(CONTENT_TYPE, stream)]));
    exchange.piece(&EVENT[..20]);
    exchange.piece(&EVENT[20..]);
    let report = tap.report();
    assert_eq!((report.checked, report.violations.len()), (1, 1), "{report}");
    assert!(report.to_string().contains("\"id\":null"), "{report}");
}
