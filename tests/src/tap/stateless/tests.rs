//! The faults that the tap must find in messages without sessions.

use crate::schema::Schema;
use crate::stateless::{TASKS, VERSION, enveloped, everything, key, tasks};
use crate::tap::Conversation;
use crate::tap::tests::{found, with, without};
use serde_json::{Value, json};

/// A conversation with this request, under the id 7; `None` if there is no schema.
fn asked(method: &str, params: &Value, capabilities: &Value) -> Option<Conversation> {
    let mut conversation = Conversation::new(Schema::official()?);
    let params = enveloped(params.clone(), capabilities);
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    conversation.from_client(request.to_string().as_bytes());
    Some(conversation)
}

/// A valid result of this type, with these members.
fn result(kind: &str, members: Value) -> Value {
    let meta = json!({key::SERVER: {"name": "toolyard", "version": "1"}});
    with(json!({"resultType": kind, "_meta": meta}), &members)
}

fn task(status: &str, members: Value) -> Value {
    let time = "2026-08-01T10:30:00.000Z";
    let task = json!({"taskId": "t", "status": status, "createdAt": time, "lastUpdatedAt": time});
    with(with(task, &json!({"ttlMs": null, "pollIntervalMs": 1000})), &members)
}

fn form() -> Value {
    json!({"q": {"method": "elicitation/create", "params": {"message": "?",
        "requestedSchema": {"type": "object", "properties": {}}}}})
}

fn at(pointer: &str, mut value: Value, key: &str, member: Value) -> Value {
    value.pointer_mut(pointer).expect("it is there")[key] = member;
    value
}

#[test]
fn results_are_judged_by_what_was_asked() {
    let call = json!({"name": "wait", "arguments": {}});
    let get = json!({"taskId": "t"});
    let content = json!({"content": []});
    let cached = json!({"tools": [], "ttlMs": 0, "cacheScope": "public"});
    let inlined = json!({"content": [], "resultType": "complete"});
    let discovery = json!({"supportedVersions": [VERSION], "ttlMs": 0, "cacheScope": "public",
        "capabilities": {"tools": {}, "extensions": {TASKS: {}}}});
    let url = json!({"q": {"method": "elicitation/create",
        "params": {"mode": "url", "message": "?", "url": "https://a.example/"}}});
    let executed = json!([{"name": "x", "inputSchema": {"type": "object"}, "execution": {}}]);
    let with_tasks = at("/capabilities", discovery.clone(), "tasks", json!({}));
    let with_version = at("", discovery, "supportedVersions", json!(["2025-11-25"]));
    let reserved = json!({"error": {"code": -32002, "message": "x"}});
    let asks = |requests: Value| result("input_required", json!({"inputRequests": requests}));
    for (method, params, result, problem) in [
        ("tools/call", &call, result("complete", content.clone()), ""),
        ("tools/call", &call, without(result("complete", content.clone()), "resultType"), "26J-4"),
        ("tools/call", &call, without(result("complete", content.clone()), "_meta"), "26J-5"),
        ("tools/call", &call, result("complete", json!({})), "content"),
        ("tools/call", &call, result("task", task("working", json!({}))), ""),
        ("tools/call", &call, result("task", task("working", json!({"ttl": 5}))), "26T-8"),
        ("tools/call", &call, result("task", task("completed", json!({"result": inlined}))), "26T-9"),
        ("tools/call", &call, result("task", task("working", json!({"createdAt": "2027"}))), "T-12"),
        ("tools/call", &call, asks(form()), ""),
        ("tools/call", &call, asks(at("/q/params", url, "elicitationId", json!("e"))), "26M-8"),
        ("tools/call", &call, asks(at("/q", form(), "id", json!(1))), "26M-2"),
        ("tools/call", &call, at("", asks(form()), "ttlMs", json!(1)), "26C-5"),
        ("tools/call", &call, result("input_required", json!({})), "26M-2"),
        ("tools/list", &json!({}), result("task", task("working", json!({}))), "26J-4"),
        ("tools/list", &json!({}), result("complete", without(cached.clone(), "ttlMs")), "ttlMs"),
        ("tools/list", &json!({}), result("complete", at("", cached, "tools", executed)), "26TL-1"),
        ("server/discover", &json!({}), result("complete", with_tasks), "26D-2"),
        ("server/discover", &json!({}), result("complete", with_version), "26D-4"),
        ("tasks/get", &get, result("complete", task("working", json!({"taskId": "u"}))), "26T-14"),
        ("tasks/get", &get, result("complete", task("completed", json!({"result": inlined}))), ""),
        ("tasks/get", &get, result("complete", task("completed", json!({"result": content}))), "26T-14"),
        ("tasks/get", &get, result("complete", task("working", json!({"result": inlined}))), "26T-14"),
        ("tasks/get", &get, result("complete", task("failed", reserved)), "26J-7"),
        ("tasks/cancel", &get, result("complete", json!({})), ""),
        ("tasks/update", &get, json!({"resultType": "complete", "_meta": {}}), "26J-5"),
        ("tasks/cancel", &get, result("complete", task("cancelled", json!({}))), "26T-17"),
        ("ping", &json!({}), result("complete", json!({})), "26J-4"),
    ] {
        let Some(mut conversation) = asked(method, params, &everything()) else { return };
        let message = json!({"jsonrpc": "2.0", "id": 7, "result": result});
        found(&mut conversation, &message, problem);
    }
}

#[test]
fn a_client_gets_only_what_its_own_request_declared() {
    let call = json!({"name": "wait", "arguments": {}});
    let get = json!({"taskId": "t"});
    let asks = json!({"inputRequests": form()});
    let (form_only, url_only) = (json!({"elicitation": {}}), json!({"elicitation": {"url": {}}}));
    for (method, params, capabilities, result, problem) in [
        ("tools/call", &call, json!({}), result("task", task("working", json!({}))), "26T-2"),
        ("tools/call", &call, json!({"tasks": {}}), result("task", task("working", json!({}))), "26T-2"),
        ("tools/call", &call, form_only.clone(), result("input_required", asks.clone()), ""),
        ("tools/call", &call, tasks(), result("input_required", asks.clone()), "26M-3"),
        ("tools/call", &call, url_only, result("input_required", asks.clone()), "26M-3"),
        ("tasks/get", &get, tasks(), result("complete", task("input_required", asks.clone())), "26M-3"),
        ("tasks/get", &get, form_only, result("complete", task("input_required", asks)), ""),
    ] {
        let Some(mut conversation) = asked(method, params, &capabilities) else { return };
        let message = json!({"jsonrpc": "2.0", "id": 7, "result": result});
        found(&mut conversation, &message, problem);
    }
}

#[test]
fn errors_have_the_codes_and_the_statuses_of_the_revision() {
    let required = json!({"requiredCapabilities": {"sampling": {}}});
    for (status, code, data, problem) in [
        (Some(200), -32602, None, ""),
        (Some(400), -32602, None, ""),
        (Some(404), -32601, None, ""),
        (Some(200), -32601, None, "26H-8"),
        (None, -32601, None, ""),
        (Some(400), -32020, None, ""),
        (Some(200), -32021, Some(&required), "26H-8"),
        (Some(400), -32021, None, "data"),
        (Some(400), -32022, Some(&required), "supported"),
        (Some(200), -32002, None, "26J-7"),
    ] {
        let Some(mut conversation) = asked("tools/list", &json!({}), &json!({})) else { return };
        status.into_iter().for_each(|status| conversation.under(status));
        let mut error = json!({"code": code, "message": "no"});
        if let Some(data) = data {
            error["data"] = data.clone();
        }
        let message = json!({"jsonrpc": "2.0", "id": 7, "error": error});
        found(&mut conversation, &message, problem);
    }
    for (message, problem) in [
        (json!({"jsonrpc": "2.0", "error": {"code": -32020, "message": "no"}}), "26J-6"),
        (json!({"jsonrpc": "2.0", "id": 8, "error": {"code": -32603, "message": "no"}}), "26J-6"),
        (json!({"jsonrpc": "2.0", "error": {"code": -32603, "message": "busy"}}), ""),
    ] {
        let Some(mut conversation) = asked("tools/list", &json!({}), &json!({})) else { return };
        found(&mut conversation, &message, problem);
    }
}

#[test]
fn what_comes_beside_the_answer_belongs_to_the_request_and_comes_before_it() {
    let meta = json!({"progressToken": "p", key::LOG_LEVEL: "warning"});
    let params = json!({"name": "count", "arguments": {}, "_meta": meta});
    let Some(mut conversation) = asked("tools/call", &params, &json!({})) else { return };
    let progress = |token: &str, progress: f64| {
        let params = json!({"progressToken": token, "progress": progress});
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    };
    let log = |level: &str| {
        let params = json!({"level": level, "data": 1});
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
    };
    let ping = json!({"jsonrpc": "2.0", "id": "s-1", "method": "ping"});
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let answer = json!({"jsonrpc": "2.0", "id": 7, "result": result("complete", json!({"content": []}))});
    for (message, problem) in [
        (progress("p", 1.0), ""),
        (progress("p", 1.5), ""),
        (progress("p", 1.5), "26C-3"),
        (progress("q", 2.0), "26C-3"),
        (log("error"), ""),
        (log("warning"), ""),
        (log("notice"), "26C-4"),
        (ping, "26J-1"),
        (changed, "26SUB-3"),
        (answer.clone(), ""),
        (progress("p", 9.0), "26C-3"),
        (log("error"), "26C-4"),
        (answer, "26J-3"),
    ] {
        found(&mut conversation, &message, problem);
    }
}

#[test]
fn a_stream_for_listening_carries_what_it_was_granted_and_nothing_else() {
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"], "taskIds": ["t", "u"]});
    let params = json!({"notifications": wanted});
    let fresh = || asked("subscriptions/listen", &params, &tasks());
    let told = |method: &str, subscription: Value, mut params: Value| {
        params["_meta"] = json!({key::SUBSCRIPTION: subscription});
        json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
    };
    let granting =
        |granted: Value| told("subscriptions/acknowledged", json!(7), json!({"notifications": granted}));
    let end = |subscription: Value| {
        let end = at("/_meta", result("complete", json!({})), key::SUBSCRIPTION, subscription);
        json!({"jsonrpc": "2.0", "id": 7, "result": end})
    };
    for (granted, problem) in [
        (json!({"taskIds": ["u"]}), ""),
        (json!({"taskIds": ["v"]}), "26SUB-2"),
        (json!({"promptsListChanged": true}), "26SUB-2"),
    ] {
        let Some(mut conversation) = fresh() else { return };
        found(&mut conversation, &granting(granted.clone()), problem);
    }
    let tools = told("tools/list_changed", json!(7), json!({}));
    let Some(mut conversation) = fresh() else { return };
    found(&mut conversation, &tools, "26SUB-2");
    found(&mut conversation, &end(json!(7)), "26SUB-2");
    let Some(mut conversation) = fresh() else { return };
    found(&mut conversation, &granting(json!({"toolsListChanged": true, "taskIds": ["t"]})), "");
    for (message, problem) in [
        (granting(json!({})), "26SUB-2"),
        (tools, ""),
        (told("tools/list_changed", json!("7"), json!({})), "26SUB-3"),
        (told("prompts/list_changed", json!(7), json!({})), "26SUB-2"),
        (told("tasks", json!(7), task("working", json!({}))), ""),
        (told("tasks", json!(7), task("working", json!({"taskId": "u"}))), "26SUB-2"),
        (told("tasks", json!(7), task("completed", json!({}))), "26T-14"),
        (told("progress", json!(7), json!({"progressToken": 1, "progress": 1})), "26SUB-2"),
        (end(json!("7")), "26SUB-5"),
    ] {
        found(&mut conversation, &message, problem);
    }
}

#[test]
fn both_kinds_share_a_pipe_and_each_message_is_judged_by_its_own_request() {
    let Some(schema) = Schema::official() else { return };
    let mut conversation = Conversation::new(schema);
    conversation.from_client(crate::session::initialize("2025-11-25", json!({})).to_string().as_bytes());
    let initialized = json!({"jsonrpc": "2.0", "id": 0,
        "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "toolyard", "version": "1"}}});
    found(&mut conversation, &initialized, "");
    for (id, params) in [(1, json!({})), (2, enveloped(json!({}), &json!({})))] {
        let list = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params});
        conversation.from_client(list.to_string().as_bytes());
    }
    let cached = result("complete", json!({"tools": [], "ttlMs": 0, "cacheScope": "public"}));
    let answer = |id: i64, result: &Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    found(&mut conversation, &answer(1, &cached), "J-9");
    found(&mut conversation, &answer(2, &cached), "");
    found(&mut conversation, &answer(1, &json!({"tools": []})), "");
    // A request of the host belongs to the session.
    let ping = json!({"jsonrpc": "2.0", "id": "s-1", "method": "ping"});
    found(&mut conversation, &ping, "");
}
