//! Questions of tools for clients that cannot be asked: the model passes the user's answer on.

use crate::questions::{accepted, form};
use serde_json::{Value, json};
use toolyard_tests::exchange::next_of;
use toolyard_tests::{Setup, guests, text, token};

/// C6.5: the person of a client that knows no tasks is asked by the client, also if the call is a task by then; the model
/// is not.
#[tokio::test]
async fn a_confirmation_goes_to_the_person_if_the_client_can_ask_one() {
    let setup = Setup::probe().set("bridge.enabled", "true").principals(&["alice"]);
    let (_host, client) = setup.serve_client().await;
    let able = json!({"elicitation": {"form": {}}});
    let client = client.declaring(able).bearing(&token("alice"));
    let yes = json!({"action": "accept", "content": {"answer": true}});
    for (answer, said) in [(yes, "yes"), (json!({"action": "cancel"}), "cancelled")] {
        let mut call = json!({"name": "confirm", "arguments": {"question": format!("Deploy {said}?")}});
        let asked = client.result("tools/call", call.clone()).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let (key, question) = asked["inputRequests"].as_object().expect("some").iter().next().expect("one");
        assert!(question["params"]["message"].to_string().contains(said), "{question}");
        call["requestState"] = asked["requestState"].clone();
        call["inputResponses"] = json!({key: answer});
        assert_eq!(text(&client.result("tools/call", call).await), said);
    }
}

/// The arguments of the call of `task_answer` that a result asks for.
fn instruction(result: &Value) -> Value {
    let (_, json) = text(result).split_once("call task_answer with ").unwrap_or_else(|| panic!("{result}"));
    let first = serde_json::Deserializer::from_str(json).into_iter().next();
    first.expect("arguments").unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// C6.4, as bridges do that pass on the capabilities of the client behind them.
#[tokio::test]
async fn who_declares_questions_and_knows_no_such_request_is_asked_by_text() {
    let setup = Setup::new().with(&[guests::fixture("script")]).set("bridge.enabled", "true");
    let (_host, session) = setup.open_as(json!({"elicitation": {"form": {}}})).await;
    let mut stream = session.listen().await;
    assert!(!session.tool_names().await.contains(&"task_answer".to_owned()));
    let mut call = session.begin_script(json!([{"ask": [form("deploy")]}])).await;
    let asked = call.message().await;
    session.refuse(&asked, -32601, "Method not found").await;
    let (answer, _) = call.answer().await;
    let result = answer["result"].clone();
    for part in ["is waiting for an answer from the user", "\"Deploy?\"", "ok: true or false, required"] {
        assert!(text(&result).contains(part), "{part}: {result}");
    }
    next_of(&mut stream, "notifications/tools/list_changed").await;
    assert!(session.tool_names().await.contains(&"task_answer".to_owned()));
    let mut answer = instruction(&result);
    let task = answer["task_id"].clone();
    answer.as_object_mut().expect("an object").extend(accepted().as_object().expect("an object").clone());
    let taken = session.call("task_answer", answer).await;
    assert_eq!(taken["isError"], false, "{taken}");
    let done = session.call("task_wait", json!({"task_id": task})).await;
    assert_eq!(done["content"][1]["text"], json!([{"deploy": accepted()}]).to_string(), "{done}");
    // Later questions are not sent at all.
    let again = session.call("script", json!({"steps": [{"ask": [form("again")]}]})).await;
    assert!(text(&again).contains("task_answer"), "{again}");
}
