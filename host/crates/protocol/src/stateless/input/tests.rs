use super::*;
use serde_json::{Value, json};

fn retry(params: &str) -> Result<Retry, RpcError> {
    Retry::decode(&Method::ToolsCall, Some(&RawJson::trusted(params.to_owned())))
}

/// 26M-4, 26M-5: the state and answers of a retry are accepted unverified.
#[test]
fn a_retry_brings_any_answers_and_the_state_to_the_letter() {
    assert_eq!(Retry::decode(&Method::ToolsCall, None), Ok(Retry::default()));
    assert_eq!(retry(r#"{"name":"x","arguments":{}}"#), Ok(Retry::default()));
    let brought = retry(
        r#"{"name":"x","requestState":"a\/b","inputResponses":{"q1":{"action" : "accept"},"\u0071\/2":5,"q3":null,"":[]}}"#,
    )
    .expect("a retry");
    assert_eq!(brought.state.as_deref(), Some("a/b"));
    assert_eq!(brought.responses.len(), 4);
    for (key, value) in [("q1", r#"{"action" : "accept"}"#), ("q/2", "5"), ("q3", "null"), ("", "[]")] {
        assert_eq!(brought.responses[key].as_str(), value);
    }
    let empty = retry(r#"{"requestState":"","inputResponses":{}}"#).expect("empty");
    assert_eq!(empty.state.as_deref(), Some(""));
}

/// 26M-5: a malformed structure is refused, and so is one with a duplicate member.
#[test]
fn a_malformed_retry_is_refused() {
    let responses = ["null", "[]", "\"{}\"", "5", r#"{"\ud800":1}"#, r#"{},"inputResponses":{}"#];
    let states = ["null", "5", "{}", r#""\ud800""#, r#""a","request\u0053tate":"b""#];
    let responses = responses.map(|value| format!(r#"{{"inputResponses":{value}}}"#));
    for params in responses.into_iter().chain(states.map(|value| format!(r#"{{"requestState":{value}}}"#))) {
        let error = retry(&params).expect_err(&params);
        assert_eq!(error.code, -32602, "{params}");
        assert!(error.message.starts_with("tools/call: "), "{params}: {error}");
    }
}

/// 26M-2, 26M-9: a map from keys to a method and params, with no id; sampling and roots are asked for, too.
#[test]
fn questions_are_a_map_from_keys_to_requests() {
    let form = RawJson::trusted(r#"{"message":"Go?", "requestedSchema":{"type":"object","properties":{}}}"#);
    let sampling = RawJson::trusted(r#"{"messages":[],"maxTokens":5}"#);
    let none = RawJson::empty_object();
    let asked = [("a \"b\"", Kind::Form, &form), ("s", Kind::Sampling, &sampling), ("r", Kind::Roots, &none)];
    let expected = [
        format!(r#""a \"b\"":{{"method":"elicitation/create","params":{}}}"#, form.as_str()),
        format!(r#""s":{{"method":"sampling/createMessage","params":{}}}"#, sampling.as_str()),
        r#""r":{"method":"roots/list","params":{}}"#.to_owned(),
    ];
    let expected = format!("{{{}}}", expected.join(","));
    assert_eq!(input_requests(asked.into_iter()).as_str(), expected);
    assert_eq!(input_requests(std::iter::empty()).as_str(), "{}");
}

/// 26M-8: a page has no `elicitationId` here.
#[test]
fn a_page_is_asked_for_without_an_id() {
    for (given, expected) in [
        (r#"{"elicitationId":"e","mode":"url","url":"https://a/"}"#, r#"{"mode":"url","url":"https://a/"}"#),
        (r#"{"mode":"url","elicitation\u0049d":"e"}"#, r#"{"mode":"url"}"#),
        (r#"{"elicitationId":"e"}"#, "{}"),
        (r#"{"mode":"url","_meta":{"elicitationId":1}}"#, r#"{"mode":"url","_meta":{"elicitationId":1}}"#),
    ] {
        let params = RawJson::trusted(given);
        let made = input_requests([("k", Kind::Url, &params)].into_iter());
        let expected = format!(r#"{{"k":{{"method":"elicitation/create","params":{expected}}}}}"#);
        assert_eq!(made.as_str(), expected, "{given}");
    }
}

/// 26M-2, 26M-7, 26J-5: the result, with the state if there is one, and no hints for
/// caches.
#[test]
fn what_asks_for_input_says_so() {
    let requests = RawJson::trusted(r#"{"k":{"method":"roots/list","params":{}}}"#);
    let server = RawJson::trusted(r#"{"name":"t","version":"1"}"#);
    let made = |state| -> Value { input_required(&requests, state, &server).decode().expect("JSON") };
    let expected = json!({
        "resultType": "input_required",
        "inputRequests": {"k": {"method": "roots/list", "params": {}}},
        "requestState": "s\"\\é",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "t", "version": "1"}},
    });
    assert_eq!(made(Some("s\"\\é")), expected);
    assert_eq!(made(None).get("requestState"), None);
}

/// 26T-17: an update names a task and brings answers of any shape.
#[test]
fn an_update_names_a_task_and_brings_answers() {
    let update = |params: &str| update_params(Some(&RawJson::trusted(params.to_owned())));
    let given = r#"{"taskId":"t","inputResponses":{"q1":{"action":"accept"},"unknown":{"ignored":true}}}"#;
    let (id, answers) = update(given).expect("an update");
    assert_eq!((id.as_str(), answers.len()), ("t", 2));
    assert_eq!(answers["q1"].as_str(), r#"{"action":"accept"}"#);
    assert_eq!(update(r#"{"taskId":"t","inputResponses":{}}"#).expect("none").1.len(), 0);
    assert!(update_params(None).is_err());
    let malformed = r#"{} {"taskId":"t"} {"inputResponses":{}} {"taskId":5,"inputResponses":{}}
                     {"taskId":"t","inputResponses":null} {"taskId":"t","inputResponses":[]}
                     {"taskId":"t","taskId":"u","inputResponses":{}}"#;
    for params in malformed.split_whitespace() {
        assert_eq!(update(params).expect_err(params).code, -32602, "{params}");
    }
}
