//! Clients that write a value in another way, so that an access rule about arguments does not recognise it,
//! but the guest does.

use super::stage::Stage;
use hyper::Method;
use serde_json::Value;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;
use toolyard_tests::http::Connection;

const RULES: &str = r#"
[[rules]]
effect = "deny"
tools = ["math_divide"]
arguments = { "/a" = "22", "/b" = "1|9007199254740993" }

[[rules]]
effect = "allow"
tools = ["*"]
"#;

#[tokio::test]
async fn rules() {
    let stage = Stage::open(Setup::new().with(&[guests::fixture("typed")]).config(RULES)).await;
    attacks!(stage; write_a_denied_number_otherwise);
    stage.at_rest().await;
}

/// Calls the tool with this text as its arguments, and returns the answer.
async fn call(stage: &Stage, arguments: &str) -> Value {
    let id = stage.session.next_id();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"math_divide","arguments":{arguments}}}}}"#
    );
    let mut connection = Connection::open(stage.host.port()).await;
    let answer = connection.send(Method::POST, "/mcp", &stage.session.headers(), body).await;
    if !answer.is_events() {
        return answer.json().await;
    }
    let mut events = answer.events();
    loop {
        let message = events.message().await.expect("an answer before the end of the stream");
        if message["id"] == id {
            return message;
        }
    }
}

async fn write_a_denied_number_otherwise(stage: &Stage) {
    let numbers = ["22", "2.2e+1", "220e-1", "\"22\"", "\"\\u0032\\u0032\""];
    let denied = numbers.map(|number| format!("{{\"a\":{number},\"b\":1}}"));
    // Beyond 2^53, integers stay exact.
    let exact = "{\"a\":22,\"b\":9007199254740993.0}".to_owned();
    for arguments in denied.into_iter().chain([exact]) {
        // The arguments never reach the guest: the answer is an error of the call, or says that they do not match
        // the schema.
        let answer = call(stage, &arguments).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        let is_misfit = answer["result"]["isError"] == true && text.contains("input schema");
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        let is_denied = said.contains("may not be called with these arguments");
        let is_refused = answer["error"]["code"] == -32602 && said.starts_with("tools/call: `arguments`: ");
        assert!(is_denied || is_refused || is_misfit, "{arguments} reached the guest: {answer}");
    }
    for arguments in ["{\"a\":22,\"b\":9007199254740992}", "{\"a\":21,\"b\":1}"] {
        let answer = call(stage, arguments).await;
        assert_eq!(answer["result"]["isError"], false, "{arguments}: {answer}");
    }
}
