//! Clients that write a value in another way, so that an access rule about arguments does not recognise it,
//! but the guest does.

use super::stage::Stage;
use hyper::Method;
use serde_json::Value;
use std::fmt::Write as _;
use toolyard_tests::dice::Dice;
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
        write_a_denied_number_otherwise,
        write_numbers_at_random,
        write_a_denied_number_as_a_text,
        write_denied_bytes_otherwise,
        write_a_denied_text_otherwise,
        name_a_member_twice_or_otherwise,
        write_a_denied_case_otherwise,
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
const TWENTY_TWO: [&str; 12] = [
    "22",
    "22.0",
    "22.000",
    "2.2e1",
    "2.2E1",
    "2.2e+1",
    "2.2e01",
    "0.22E2",
    "220e-1",
    "22e0",
    "22E-0",
    "22.00000000000000000000000000001",
];
/// Ways to write 0.
const ZERO: [&str; 8] = ["0", "-0", "0.0", "-0.0", "0e0", "0e99999999999999999999", "-0E-7", "1e-400"];

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

/// A number that is 22, or near it, in any notation that JSON allows.
fn near_22(dice: &mut Dice) -> String {
    let shift = dice.below(9) as i32 - 4;
    let tail = match dice.below(4) {
        0 => String::new(),
        1 => "0".repeat(dice.below(4) as usize),
        2 => format!("{}{}", "0".repeat(dice.below(24) as usize), dice.below(10)),
        _ => dice.below(1 << 40).to_string(),
    };
    let digits = format!("{}{tail}", dice.pick(&["22", "22", "21", "21999999999999999"]));
    // The decimal point is behind two digits, and moves with the exponent.
    let point = 2 - shift;
    let mantissa = match usize::try_from(point) {
        Ok(0) => format!("0.{digits}"),
        Ok(point) if point >= digits.len() => format!("{digits}{}", "0".repeat(point - digits.len())),
        Ok(point) => format!("{}.{}", &digits[..point], &digits[point..]),
        Err(_) => format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
    };
    match shift {
        0 if dice.below(2) == 0 => mantissa,
        shift => format!(
            "{mantissa}{}{}{shift}",
            dice.pick(&["e", "E"]),
            if shift < 0 { "" } else { dice.pick(&["", "+", "0"]) }
        ),
    }
}

async fn write_numbers_at_random(stage: &Stage) {
    let mut dice = Dice(22);
    let (mut denied, mut passed) = (0, 0);
    for _ in 0..300 {
        let number = near_22(&mut dice);
        let value: f64 = number.parse().expect("a number");
        for (tool, arguments) in [
            ("math_divide", format!("{{\"a\":{number},\"b\":1}}")),
            ("math_divide", format!("{{\"a\":\"{number}\",\"b\":1}}")),
            ("wait", format!("{{\"ms\":{number}}}")),
            ("math_sum", format!("{{\"numbers\":[{number}]}}")),
        ] {
            let answer = call(stage, tool, &arguments).await;
            let is_let_in = answer["result"]["isError"] == false;
            assert!(!is_let_in || value != 22.0, "{tool} {arguments} reached the guest: {answer}");
            let said = answer["error"]["message"].as_str().unwrap_or_default();
            denied += u32::from(said.contains("may not be called"));
            passed += u32::from(is_let_in);
        }
    }
    assert!(denied > 100 && passed > 20, "{denied} denied, {passed} let in");
}

async fn write_a_denied_number_as_a_text(stage: &Stage) {
    let texts = [
        "22",
        "022",
        "+22",
        "22.0",
        "2.2e1",
        " 22",
        "22 ",
        "0x16",
        "0b10110",
        "22_",
        "２２",
        "22\\u0000",
        "\\u0032\\u0032",
        "\\u00322",
    ];
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
            "\"\\u0063\\u0032VjcmV0\"",
            "\"c2VjcmV0\\n\"",
            "\" c2VjcmV0\"",
            "\"c2Vj cmV0\"",
            "\"c2VjcmV0=\"",
            "\"c2VjcmV0====\"",
            "[115,101,99,114,101,116]",
            "[ 115.0, 1.01e2, 99, 114, 101, 1160e-1 ]",
            // The rule denies one byte, in whichever encoding it comes.
            "[7]",
            "[1,2,7.0,3]",
            "\"Bw==\"",
            "\"Bx==\"",
            "\"Bw\"",
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
            "{\"text\":\"secret\",\"text\":\"x\"}",
            "{\"t\\u0065xt\":\"secret\"}",
            "{\"text\":\"x\",\"te\\u0078t\":\"secret\"}",
            // Guests in Go ignore case.
            "{\"text\":\"x\",\"Text\":\"secret\"}",
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
            "{\"style\":[\"bold\",\"bold\"]}",
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
