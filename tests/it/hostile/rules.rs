//! Clients that write a value in another way, so that an access rule about arguments does not recognise it,
//! but the guest does.

use super::stage::Stage;
use hyper::Method;
use serde_json::Value;
use std::fmt::Write as _;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;
use toolyard_tests::http::Connection;

const RULES: &str = r#"
[[rules]]
effect = "deny"
tools = ["math_divide"]
arguments = { "/a" = "22" }

[[rules]]
effect = "deny"
tools = ["math_divide"]
arguments = { "/b" = "9007199254740993" }

[[rules]]
effect = "deny"
tools = ["math_sum"]
arguments = { "/numbers" = "22|0" }

[[rules]]
effect = "deny"
tools = ["math_area"]
arguments = { "/figure/circle" = "5|0|1e16|16777216" }

[[rules]]
effect = "deny"
tools = ["math_reverse"]
arguments = { "/data" = "c2VjcmV0|7" }

[[rules]]
effect = "deny"
tools = ["math_describe"]
arguments = { "/style" = "bold" }

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
tools = ["greet"]
arguments = { "/name" = "ada|bo" }

[[rules]]
effect = "allow"
tools = ["count"]
arguments = { "/steps" = "[1-3]" }

[[rules]]
effect = "deny"
tools = ["greet", "count"]

[[rules]]
effect = "allow"
tools = ["*"]
"#;

#[tokio::test]
async fn rules() {
    let stage = Stage::open(Setup::new().with(&[guests::fixture("typed")]).config(RULES)).await;
    attacks!(stage;
        write_a_denied_number_otherwise, write_a_denied_number_as_a_text, write_denied_bytes_otherwise,
        write_a_denied_text_otherwise, name_a_member_twice_or_otherwise, write_a_denied_case_otherwise,
        write_what_is_not_allowed_like_what_is,
    );
    stage.at_rest().await;
}

/// Calls a tool with this text as its arguments, and returns the answer.
async fn call(stage: &Stage, tool: &str, arguments: &str) -> Value {
    let id = stage.session.next_id();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
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
        assert!(is_denied || is_misfit, "{tool} {arguments} reached the guest: {answer}");
    }
}

async fn let_in(stage: &Stage, tool: &str, arguments: &str) {
    let answer = call(stage, tool, arguments).await;
    assert_eq!(answer["result"]["isError"], false, "{tool} {arguments}: {answer}");
}

/// Ways to write 22 in JSON.
const TWENTY_TWO: [&str; 4] = ["22", "2.2e+1", "220e-1", "22.00000000000000000000000000001"];
/// Ways to write 0.
const ZERO: [&str; 3] = ["-0.0", "0e99999999999999999999", "1e-400"];

async fn write_a_denied_number_otherwise(stage: &Stage) {
    kept_out(stage, "math_divide", TWENTY_TWO.map(|n| format!("{{\"a\":{n},\"b\":1}}"))).await;
    kept_out(stage, "math_sum", TWENTY_TWO.map(|n| format!("{{\"numbers\":[1,{n},3]}}"))).await;
    kept_out(stage, "math_sum", ZERO.map(|n| format!("{{\"numbers\":[{n}]}}"))).await;
    kept_out(stage, "wait", TWENTY_TWO.map(|n| format!("{{\"ms\":{n}}}"))).await;
    kept_out(stage, "wait", ZERO.map(|n| format!("{{\"ms\":{n}}}"))).await;
    let five = ["5", "5.0", "5e0", "0.5e1", "50E-1", "5.0000000000000000000001", "4.99999999999999999999999"];
    let large = ["1e16", "10000000000000000", "10000000000000000.0", "1E+16", "10000000000000000.5"];
    for n in five.into_iter().chain(ZERO).chain(large).chain(["16777216", "1.6777216e7"]) {
        kept_out(stage, "math_area", [format!("{{\"figure\":{{\"circle\":{n}}}}}")]).await;
    }
    // Beyond 2^53, integers stay exact.
    kept_out(
        stage,
        "math_divide",
        ["9007199254740993", "9007199254740993.0", "\"9007199254740993\""]
            .map(|n| format!("{{\"a\":1,\"b\":{n}}}")),
    )
    .await;
    let_in(stage, "math_divide", "{\"a\":1,\"b\":9007199254740992}").await;
    let_in(stage, "math_divide", "{\"a\":21,\"b\":1}").await;
    let_in(stage, "math_area", "{\"figure\":{\"circle\":5.5}}").await;
    // Readers disagree on these numbers.
    kept_out(stage, "wait", ["{\"ms\":1,\"x\":1e400}", "{\"ms\":1e400}"]).await;
    let_in(stage, "wait", "{\"ms\":1}").await;
}

async fn write_a_denied_number_as_a_text(stage: &Stage) {
    let texts = ["22", "022", "2.2e1", "22\\u0000", "\\u0032\\u0032", "２２"];
    kept_out(stage, "math_divide", texts.map(|text| format!("{{\"a\":\"{text}\",\"b\":1}}"))).await;
    kept_out(stage, "math_sum", texts.map(|text| format!("{{\"numbers\":[\"{text}\"]}}"))).await;
    let_in(stage, "math_divide", "{\"a\":\"21\",\"b\":1}").await;
}

async fn write_denied_bytes_otherwise(stage: &Stage) {
    kept_out(
        stage,
        "math_reverse",
        [
            "\"c2VjcmV0\"",
            "\"c2Vjcm\\u00560\"",
            "\"c2VjcmV0=\"",
            "[115,101,99,114,101,116]",
            "[ 115.0, 1.01e2, 99, 114, 101, 1160e-1 ]",
            // The rule denies one byte, in whichever encoding it comes.
            "[1,2,7.0,3]",
            "\"AQIHAw==\"",
        ]
        .map(|data| format!("{{\"data\":{data}}}")),
    )
    .await;
    let_in(stage, "math_reverse", "{\"data\":\"c2VjcmV1\"}").await;
    let_in(stage, "math_reverse", "{\"data\":[1,2]}").await;
}

async fn write_a_denied_text_otherwise(stage: &Stage) {
    let mut escaped = String::new();
    for letter in "secret".bytes() {
        write!(escaped, "\\u{letter:04X}").expect("a string");
    }
    kept_out(
        stage,
        "echo",
        [
            "{\"text\":\"secret\"}".to_owned(),
            format!("{{\"text\":\"{escaped}\"}}"),
            "{\"text\":\"s\\u0065cret\"}".to_owned(),
            // A guest in C stops reading at the NUL.
            "{\"text\":\"secret\\u0000!\"}".to_owned(),
            // Some readers replace a lone surrogate, some drop it and some keep it.
            "{\"text\":\"secret\\ud800\"}".to_owned(),
            "{\"text\":\"secret\",\"x\":{\"y\":[1,{\"z\":0,\"z\":0}]}}".to_owned(),
        ],
    )
    .await;
    let_in(stage, "echo", "{\"text\":\"no secret\"}").await;
}

async fn name_a_member_twice_or_otherwise(stage: &Stage) {
    kept_out(
        stage,
        "echo",
        [
            "{\"text\":\"x\",\"text\":\"secret\"}",
            "{\"t\\u0065xt\":\"secret\"}",
            "{\"text\":\"x\",\"te\\u0078t\":\"secret\"}",
            // Guests in Go ignore case.
            "{\"text\":\"x\",\"TEXT\":\"secret\"}",
            "{\"text\":\"x\",\"text\\u0000y\":\"secret\"}",
        ],
    )
    .await;
    kept_out(stage, "math_divide", ["{\"a\":1,\"\\u0061\":22,\"b\":1}", "{\"a\":22,\"A\":1,\"b\":1}"]).await;
}

async fn write_a_denied_case_otherwise(stage: &Stage) {
    kept_out(
        stage,
        "math_describe",
        [
            "{\"style\":[\"bold\"]}",
            "{\"style\":[\"italic\",\"bold\"]}",
            "{\"style\":[\"bo\\u006cd\"]}",
            "{\"style\":{\"bold\":true}}",
            "{\"style\":\"bold\"}",
        ],
    )
    .await;
    let_in(stage, "math_describe", "{\"style\":[\"italic\"]}").await;
}

async fn write_what_is_not_allowed_like_what_is(stage: &Stage) {
    kept_out(
        stage,
        "greet",
        [
            "{\"name\":\"eve\"}",
            "{\"name\":\"ada\\u0000\"}",
            "{\"name\":\"ada\\n\"}",
            "{\"name\":\"ada\",\"name\":\"eve\"}",
            "{\"name\":\"eve\",\"Name\":\"ada\"}",
            "{\"Name\":\"ada\"}",
            "{}",
        ],
    )
    .await;
    kept_out(
        stage,
        "count",
        ["4", "4.0", "3.0000000000000000000000001", "0.3e1", "1e400", "1,\"Steps\":9"]
            .map(|steps| format!("{{\"ms\":0,\"steps\":{steps}}}")),
    )
    .await;
    kept_out(stage, "count", ["{\"ms\":0,\"Steps\":1}"]).await;
    let_in(stage, "greet", "{\"name\":\"ada\"}").await;
    let_in(stage, "greet", "{\"name\":\"\\u0061da\"}").await;
    let_in(stage, "count", "{\"steps\":2,\"ms\":0}").await;
}
