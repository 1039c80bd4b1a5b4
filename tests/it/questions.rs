//! A guest asks its client (IR-*, E-*, M-*): from plain calls on their own streams, from tasks wherever the
//! client is reachable. The fixture `script` asks the questions.

use serde_json::{Value, json};
use toolyard_tests::exchange::{next, next_of, outcome};
use toolyard_tests::{Host, LATEST, Session, Setup, Stdio, guests, text};

pub const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A host with the guest `script`.
pub fn scripted() -> Setup {
    Setup::new().with(&[guests::fixture("script")])
}

/// The capabilities of a client that answers any question.
pub fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

async fn ready() -> (Host, Session) {
    scripted().open_as(everything()).await
}

pub fn form(key: &str) -> Value {
    json!({"key": key, "method": "elicitation/create",
        "params": {"message": "Deploy?", "requestedSchema": {"type": "object",
        "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}}})
}

pub fn sampling(key: &str) -> Value {
    json!({"key": key, "method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Summarise"}}], "maxTokens": 50,
    }})
}

pub fn url(key: &str) -> Value {
    json!({"key": key, "method": "elicitation/create",
        "params": {"mode": "url", "message": "Sign in", "url": "https://example.com/connect"}})
}

fn roots(key: &str) -> Value {
    json!({"key": key, "method": "roots/list", "params": {}})
}

pub fn accepted() -> Value {
    json!({"action": "accept", "content": {"ok": true}})
}

#[tokio::test]
async fn h_15_a_plain_call_asks_on_its_own_stream_once_for_a_key_and_goes_on_with_the_answer() {
    let (_host, session) = ready().await;
    let mut other = session.listen().await;
    // The same key again: the same question already has its answer, and another question is a fault.
    let steps = json!([{"ask": [form("a")]}, {"ask": [form("a")]}, {"ask": [sampling("a")]}]);
    let mut call = session.begin_script(steps).await;
    let asked = call.message().await;
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(asked["params"], form("a")["params"], "E-2: as the guest put it");
    assert!(asked["id"].is_string(), "J-2: an id of our own");
    session.respond(&asked, accepted()).await;
    let came = call.outcome().await;
    assert_eq!((&came[0], &came[1]), (&json!({"a": accepted()}), &came[0]));
    assert!(came[2]["nothing"]["invalid"].as_str().is_some_and(|why| why.contains("another")), "{came}");
    // H-19, H-20: the other stream carried none of it; its next message is this one.
    let task = session.create_script(json!([])).await;
    let first = next(&mut other).await.expect("a status of the task");
    assert_eq!(first["params"]["taskId"], task, "{first}");
}

#[tokio::test]
async fn ir_2_what_the_client_did_not_declare_is_not_asked() {
    let host = scripted().start().await;
    for (capabilities, question, says) in [
        (json!({}), form("a"), "elicitation.form"),
        (json!({"elicitation": {}}), url("a"), "elicitation.url"),
        (json!({"elicitation": {"url": {}}}), form("a"), "elicitation.form"),
        (json!({"elicitation": {}}), sampling("a"), "sampling"),
        (json!({"sampling": {}}), roots("a"), "roots"),
        // Q-3: what the client declares of tasks does not stand for the capability itself.
        (json!({"tasks": {"requests": {"elicitation": {"create": {}}}}}), form("a"), "elicitation.form"),
    ] {
        let session = host.open_as(capabilities).await;
        let steps = json!([{"ask": [question]}]);
        let came = outcome(&session.call("script", json!({"steps": steps})).await);
        let why = came[0]["nothing"]["unsupported"].as_str().expect("a reason");
        assert!(why.contains(says), "E-1, M-1: {why}");
        // A task continues without an answer, and does not wait for one.
        let task = session.create_script(steps).await;
        let result = session.result("tasks/result", json!({"taskId": task})).await;
        assert_eq!(outcome(&result), came);
    }
}

#[tokio::test]
async fn ir_8_decline_cancel_error_and_nonsense_are_inputs_to_the_tool() {
    let (_host, session) = ready().await;
    let steps = json!([{"ask": [form("decline")]}, {"ask": [form("cancel")]}, {"ask": [sampling("refused")]},
        {"ask": [form("nonsense")]}]);
    let mut call = session.begin_script(steps).await;
    for action in ["decline", "cancel", "", "shrug"] {
        let asked = call.message().await;
        match action {
            "" => session.refuse(&asked, -1, "User rejected sampling request").await,
            action => session.respond(&asked, json!({ "action": action })).await,
        }
    }
    let came = call.outcome().await;
    assert_eq!(came[0]["decline"]["action"], "decline");
    assert_eq!(came[1]["cancel"]["action"], "cancel");
    assert_eq!(came[2]["refused"]["refused"]["code"], -1, "M-5: any error is a refusal");
    assert_eq!(came[3]["nonsense"]["refused"]["code"], -32602, "E-3");
}

#[tokio::test]
async fn l_9_c_6_a_question_has_a_deadline_and_is_taken_back_when_it_passes() {
    let (_host, session) = scripted().set("questions.wait", "200ms").open_as(everything()).await;
    let mut call = session.begin_script(json!([{"ask": [form("a")]}])).await;
    let asked = call.message().await;
    let taken_back = call.message().await;
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
    assert_eq!(call.outcome().await, json!([{"a": "timed-out"}]));
    // A late response does no harm (C-1).
    session.respond(&asked, accepted()).await;
    // The same in a task (26T-21).
    let task = session.create_script(json!([{"ask": [form("a")]}])).await;
    let (answer, before) = session.begin("tasks/result", json!({"taskId": task})).await.answer().await;
    assert_eq!(outcome(&answer["result"]), json!([{"a": "timed-out"}]));
    let of = |method: &str| before.iter().find(|message| message["method"] == method);
    if let Some(asked) = of("elicitation/create") {
        let taken_back = of("notifications/cancelled").expect("what went out is taken back");
        assert_eq!(taken_back["params"]["requestId"], asked["id"]);
        assert_eq!(taken_back["params"]["_meta"][RELATED]["taskId"], task, "T-38");
    }
}

#[tokio::test]
async fn c_1_t_36_a_cancelled_call_and_a_cancelled_task_take_their_questions_back() {
    let (_host, session) = ready().await;
    let mut call = session.begin_script(json!([{"ask": [form("a")]}])).await;
    let asked = call.message().await;
    session.notify("notifications/cancelled", json!({"requestId": call.id, "reason": "enough"})).await;
    let rest = call.rest().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["method"], "notifications/cancelled");
    assert_eq!(rest[0]["params"]["requestId"], asked["id"]);

    let task = session.create_script(json!([{"ask": [form("a")]}])).await;
    let mut wait = session.begin("tasks/result", json!({"taskId": task})).await;
    let asked = wait.next_of("elicitation/create").await;
    assert_eq!(session.result("tasks/cancel", json!({"taskId": task})).await["status"], "cancelled");
    let (answer, before) = wait.answer().await;
    assert_eq!(answer["error"]["code"], -32603, "T-28");
    let taken_back = before.iter().find(|message| message["method"] == "notifications/cancelled");
    assert_eq!(taken_back.expect("taken back")["params"]["requestId"], asked["id"]);
    session.respond(&asked, accepted()).await;
    assert_eq!(session.task(&task).await["status"], "cancelled", "late answers change nothing");
}

#[tokio::test]
async fn ir_1_ir_3_t_17_a_task_waits_for_input_and_one_result_stream_carries_it_all() {
    let (_host, session) = ready().await;
    let task = session.create_script(json!([{"ask": [form("a")]}, {"ask": [sampling("b")]}])).await;
    session.until(&task, "input_required").await;
    let mut wait = session.begin("tasks/result", json!({"taskId": task})).await;
    let asked = wait.next_of("elicitation/create").await;
    assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], task, "IR-2");
    session.respond(&asked, accepted()).await;
    // A second question on the same stream, which was open before it.
    let asked = wait.next_of("sampling/createMessage").await;
    assert_eq!(session.task(&task).await["status"], "input_required");
    let message = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}});
    session.respond(&asked, message.clone()).await;
    let (answer, before) = wait.answer().await;
    assert_eq!(outcome(&answer["result"]), json!([{"a": accepted()}, {"b": message}]));
    assert_eq!(answer["result"]["_meta"][RELATED]["taskId"], task);
    let states: Vec<_> = before.iter().filter_map(|message| message["params"]["status"].as_str()).collect();
    assert_eq!(states, ["working", "completed"], "T-37: each change that is left to tell");
}

#[tokio::test]
async fn ir_4_h_20_with_only_a_get_stream_the_question_goes_there_and_nowhere_else() {
    let (_host, session) = ready().await;
    let mut listening = session.listen().await;
    let task = session.create_script(json!([{"ask": [form("a")]}])).await;
    let asked = next_of(&mut listening, "elicitation/create").await;
    assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], task);
    let wait = session.begin("tasks/result", json!({"taskId": task})).await;
    session.respond(&asked, accepted()).await;
    let (answer, before) = wait.answer().await;
    assert_eq!(outcome(&answer["result"]), json!([{"a": accepted()}]));
    assert!(before.iter().all(|message| message["method"] != "elicitation/create"), "{before:?}");
}

#[tokio::test]
async fn ir_9_a_client_that_takes_our_task_for_its_own_is_asked_once_more_without_it() {
    let (_host, session) = ready().await;
    let task = session.create_script(json!([{"ask": [form("a")]}])).await;
    let mut wait = session.begin("tasks/result", json!({"taskId": task})).await;
    let asked = wait.next_of("elicitation/create").await;
    session.refuse(&asked, -32602, &format!("Task not found: {task}")).await;
    let again = wait.next_of("elicitation/create").await;
    assert!(again["params"].get("_meta").is_none(), "{again}");
    assert_ne!(asked["id"], again["id"]);
    session.refuse(&again, -32602, &format!("Task not found: {task}")).await;
    let came = wait.outcome().await;
    assert_eq!(came[0]["a"]["refused"]["code"], -32602, "once, not for ever");
}

/// A call that asks, from a client that has not said that it has initialized.
async fn calls_early(setup: Setup) -> (Stdio, i64) {
    let mut stdio = Stdio::start(setup);
    stdio.line(&toolyard_tests::session::initialize(LATEST, everything()).to_string()).await;
    stdio.read().await;
    let call = json!({"name": "script", "arguments": {"steps": [{"ask": [form("a")]}]}});
    let id = stdio.send("tools/call", call).await;
    (stdio, id)
}

#[tokio::test]
async fn l_4_ir_5_a_client_that_does_not_say_that_it_has_initialized_is_asked_after_a_while() {
    let (mut stdio, id) = calls_early(scripted().set("questions.wait", "300ms")).await;
    assert_eq!(outcome(&stdio.answer(id).await["result"]), json!([{"a": "timed-out"}]));
    assert!(stdio.notices().is_empty());
    // It may have forgotten to.
    let (mut stdio, id) = calls_early(scripted()).await;
    let asked = stdio.read().await;
    stdio.line(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": accepted()}).to_string()).await;
    assert_eq!(outcome(&stdio.answer(id).await["result"]), json!([{"a": accepted()}]));
}

#[tokio::test]
async fn e_6_e_7_pages_and_their_end_are_told_to_the_client_that_was_asked_and_can_open_one() {
    let (host, session) = ready().await;
    let steps =
        json!([{"ask": [url("u"), url("no")]}, {"complete": "no"}, {"complete": "other"}, {"complete": "u"}]);
    let mut call = session.begin_script(steps).await;
    let (agreed, declined) = (call.message().await, call.message().await);
    session.respond(&agreed, json!({"action": "accept"})).await;
    session.respond(&declined, json!({"action": "decline"})).await;
    let told = call.message().await;
    assert_eq!(told["method"], "notifications/elicitation/complete");
    assert_eq!(told["params"]["elicitationId"], agreed["params"]["elicitationId"]);
    let (_, more) = call.answer().await;
    assert!(more.is_empty(), "only what was agreed to: {more:?}");

    let data = json!({"elicitations": [{"mode": "url", "message": "m", "url": "https://e.com", "elicitationId": "x"}]});
    let steps = json!([{"fail": {"code": -32042, "message": "Sign in first", "data": data}}]);
    let error = session.error("tools/call", json!({"name": "script", "arguments": {"steps": steps}})).await;
    assert_eq!((error["code"].as_i64(), &error["data"]), (Some(-32042), &data));
    let task = session.create_script(steps.clone()).await;
    let error = session.error("tasks/result", json!({"taskId": task})).await;
    assert_eq!(error["code"], -32042, "T-25: the same error");
    let unable = host.open_as(json!({"elicitation": {}})).await;
    let result = unable.call("script", json!({"steps": steps})).await;
    assert!(result["isError"] == true && text(&result).contains("Sign in first"), "{result}");
}

#[tokio::test]
async fn the_operator_answers_a_question_and_watches_its_task_from_the_command_line() {
    let (host, session) = Setup::probe().open_as(json!({"elicitation": {"form": {}}})).await;
    let id = session.create("ask", json!({"question": "Your name?"})).await;
    session.until(&id, "input_required").await;
    for (wrong, says) in [
        (r#"name={"answer":"Ada"}"#, "no open question has the key `name`; the keys are answer"),
        (r#"answer={"answer":5}"#, "does not fit"),
        ("answer=Ada", "expected KEY=JSON with a JSON object"),
    ] {
        host.refuses(&["tasks", "answer", &id, "--answer", wrong], 2, says).await;
    }
    assert_eq!(session.task(&id).await["status"], "input_required");
    let answer = ["tasks", "answer", &id, "--answer", r#"answer={"answer":"Ada"}"#];
    host.prints(&answer).await;
    let watched = host.prints(&["tasks", "watch", &id]).await;
    assert!(watched.trim_end().ends_with("completed"), "{watched}");
    assert!(host.prints(&["tasks", "result", &id]).await.contains("Ada"));
    // It has ended.
    host.refuses(&answer, 1, "").await;
}
