//! Clients that write a value in another way, so that an access rule about arguments does not recognise it,
//! but the guest does.

use super::stage::Stage;
use serde_json::Value;
use toolyard_tests::{Setup, guests};

const RULES: &str = r#"
[[rules]]
effect = "deny"
tools = ["math_divide"]
arguments = { "/a" = "22", "/b" = "1|9007199254740993" }

[[rules]]
effect = "deny"
tools = ["math_reverse"]
arguments = { "/data" = "c2VjcmV0|7" }

[[rules]]
effect = "deny"
tools = ["echo"]
arguments = { "/text" = "secret" }

[[rules]]
effect = "deny"
tools = ["wait"]
arguments = { "/ms" = "22|0" }

[[rules]]
effect = "allow"
tools = ["*"]
"#;

#[tokio::test]
async fn rules() {
    let stage = Stage::open(Setup::new().with(&[guests::fixture("typed")]).config(RULES)).await;
    attacks!(stage;
        write_a_denied_number_otherwise, write_denied_bytes_otherwise, name_a_member_twice_or_otherwise,
    );
    stage.at_rest().await;
}

/// Calls a tool with this text as its arguments, and returns the answer.
async fn call(stage: &Stage, tool: &str, arguments: &str) -> Value {
    let id = stage.session.next_id();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    );
    stage.session.post_text(body).await.response().await.expect("an answer").0
}

/// The arguments never reach the guest: the answer is an error of the call, or says that they do not match
/// the schema.
async fn kept_out(stage: &Stage, tool: &str, spellings: impl IntoIterator<Item = impl AsRef<str>>) {
    for arguments in spellings {
        let arguments = arguments.as_ref();
        let answer = call(stage, tool, arguments).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        let is_misfit = answer["result"]["isError"] == true && text.contains("input schema");
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        let is_denied = said.contains("may not be called with these arguments");
        let is_refused = answer["error"]["code"] == -32602 && said.starts_with("tools/call: `arguments`: ");
        assert!(is_denied || is_refused || is_misfit, "{tool} {arguments} reached the guest: {answer}");
    }
}

async fn let_in(stage: &Stage, tool: &str, arguments: &str) {
    let answer = call(stage, tool, arguments).await;
    assert_eq!(answer["result"]["isError"], false, "{tool} {arguments}: {answer}");
}

async fn write_a_denied_number_otherwise(stage: &Stage) {
    let numbers = ["22", "2.2e+1", "220e-1", "\"22\"", "\"\\u0032\\u0032\""];
    kept_out(stage, "math_divide", numbers.map(|n| format!("{{\"a\":{n},\"b\":1}}"))).await;
    // Beyond 2^53, integers stay exact.
    kept_out(stage, "math_divide", ["{\"a\":22,\"b\":9007199254740993.0}"]).await;
    let_in(stage, "math_divide", "{\"a\":22,\"b\":9007199254740992}").await;
    let_in(stage, "math_divide", "{\"a\":21,\"b\":1}").await;
    let numbers = ["22.00000000000000000000000000001", "-0.0", "0e99999999999999999999", "1e-400", "1e400"];
    kept_out(stage, "wait", numbers.map(|n| format!("{{\"ms\":{n}}}"))).await;
    let_in(stage, "wait", "{\"ms\":1}").await;
}

async fn write_denied_bytes_otherwise(stage: &Stage) {
    // The last two have a byte that the rule denies.
    let data = ["\"c2Vjcm\\u00560\"", "[115,101.0,99,1.14e2,101,116]", "[1,7.0,3]", "\"AQIHAw==\""];
    kept_out(stage, "math_reverse", data.map(|data| format!("{{\"data\":{data}}}"))).await;
    let_in(stage, "math_reverse", "{\"data\":\"c2VjcmV1\"}").await;
}

async fn name_a_member_twice_or_otherwise(stage: &Stage) {
    let members = [
        "{\"text\":\"s\\u0065cret\"}",
        "{\"text\":\"secret\\u0000!\"}",
        "{\"text\":\"secret\\ud800\"}",
        "{\"text\":\"x\",\"te\\u0078t\":\"secret\"}",
        // Guests in Go ignore case.
        "{\"text\":\"x\",\"TEXT\":\"secret\"}",
        "{\"text\":\"x\",\"text\\u0000y\":\"secret\"}",
    ];
    kept_out(stage, "echo", members).await;
    let_in(stage, "echo", "{\"text\":\"no secret\"}").await;
    kept_out(stage, "math_divide", ["{\"a\":1,\"\\u0061\":22,\"b\":1}", "{\"a\":22,\"A\":1,\"b\":1}"]).await;
}
