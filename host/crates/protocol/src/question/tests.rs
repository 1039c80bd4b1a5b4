//! Questions and answers, clause by clause.

use super::*;
use serde_json::json;

fn ask(method: &str, params: Value) -> Result<CheckedQuestion, String> {
    check(method, &RawJson::of(&params), "the-host's-id")
}

fn form(properties: Value) -> Value {
    json!({"message": "m", "requestedSchema": {"type": "object", "properties": properties}})
}

#[test]
fn e_2_a_form_is_a_flat_object_of_primitive_fields() {
    let fields = json!({
        "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 9, "default": "x"},
        "mail": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "score": {"type": "number", "default": 95.5},
        "ok": {"type": "boolean", "default": true},
        "one": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
        "many": {"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1},
        "titled_many": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
    });
    let asked = ask("elicitation/create", form(fields)).expect("legal");
    assert_eq!(asked.kind, Kind::Form);
    for (field, says) in [
        (json!({"type": "object"}), "must be a string"),
        (json!({"type": "string", "format": "ipv4"}), "format"),
        (json!({"type": "array", "items": {"type": "string"}}), "choice"),
        (json!({"type": "string", "enum": [1]}), "enum"),
        (json!({"$ref": "#/x"}), "must be a string"),
        (json!({"type": "boolean", "const": true}), "`const`"),
        (json!(true), "object"),
    ] {
        let error = ask("elicitation/create", form(json!({"f": field}))).expect_err("illegal");
        assert!(error.contains("`f`") && error.contains(says), "{field}: {error}");
    }
    for params in [
        json!({"message": "m"}),
        json!({"requestedSchema": {"type": "object", "properties": {}}}),
        json!({"message": "m", "requestedSchema": {"type": "array", "properties": {}}}),
        json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}, "$defs": {}}}),
        json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}, "required": ["x"]}}),
        json!({"mode": "chat", "message": "m"}),
    ] {
        ask("elicitation/create", params.clone()).expect_err(&params.to_string());
    }
}

#[test]
fn e_4_a_form_does_not_ask_for_secrets() {
    let named = ["password", "user_password", "access-token", "privateKey"].map(|name| (name, "X"));
    for (name, title) in named.into_iter().chain([("x", "Your API key"), ("card", "Credit card")]) {
        let field = json!({"type": "string", "title": title});
        let error = ask("elicitation/create", form(json!({name: field}))).expect_err(name);
        assert!(error.contains("secret") && error.contains("url"), "{error}");
    }
    ask("elicitation/create", form(json!({"passport_country": {"type": "string"}}))).expect("fine");
}

#[test]
fn e_9_e_3_a_page_brings_back_agreement_and_nothing_else() {
    let with_content = json!({"action": "accept", "content": {"token": "t"}});
    let answer = |kind, value: &Value| match given(kind, false, &RawJson::of(value)) {
        Ok(ClientAnswer::Answer(answer)) => answer.decode::<Value>().expect("JSON"),
        other => panic!("{other:?}"),
    };
    assert_eq!(answer(Kind::Url, &with_content), json!({"action": "accept"}));
    assert_eq!(answer(Kind::Form, &with_content), with_content);
    let declined = json!({"action": "decline", "content": {"token": "t"}});
    assert_eq!(answer(Kind::Form, &declined), json!({"action": "decline"}));
}

#[test]
fn e_5_a_url_question_carries_an_id_of_the_host_and_a_url_that_can_be_opened() {
    let url = |url: &str| ask("elicitation/create", json!({"mode": "url", "message": "m", "url": url}));
    let asked = url("https://example.com/connect?x=1").expect("legal");
    assert_eq!(asked.kind, Kind::Url);
    let sent: Value = asked.params.decode().expect("JSON");
    assert_eq!(sent["elicitationId"], "the-host's-id");
    let own = json!({"mode": "url", "message": "m", "url": "https://e.com", "elicitationId": "mine"});
    let sent: Value = ask("elicitation/create", own).expect("legal").params.decode().expect("JSON");
    assert_eq!(sent["elicitationId"], "the-host's-id", "ids are unique to the server, so the host's");
    for wrong in ["", "example.com", "javascript:alert(1)", "file:///etc/passwd", "https://", "https://a b"] {
        url(wrong).expect_err(wrong);
    }
    url("https://user:secret@example.com/").expect_err("E-8: no links with credentials");
}

#[test]
fn m_2_sampling_needs_messages_and_a_number_of_tokens() {
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    ask("sampling/createMessage", json!({"messages": [message], "maxTokens": 5})).expect("legal");
    for params in [
        json!({"messages": [message]}),
        json!({"maxTokens": 5}),
        json!({"messages": [message], "maxTokens": 0}),
        json!({"messages": [{"role": "system", "content": {"type": "text"}}], "maxTokens": 5}),
        json!({"messages": [{"role": "user", "content": "text"}], "maxTokens": 5}),
        json!({"messages": [message], "maxTokens": 5, "systemPrompt": 1}),
        json!({"messages": [message], "maxTokens": 5, "tools": [{}]}),
        json!({"messages": [message], "maxTokens": 5, "toolChoice": {"mode": "some"}}),
        json!({"messages": [message], "maxTokens": 5, "includeContext": "everything"}),
    ] {
        ask("sampling/createMessage", params.clone()).expect_err(&params.to_string());
    }
}

#[test]
fn m_4_results_of_tools_follow_their_use_at_once_and_alone() {
    let used = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "1", "name": "a", "input": {}},
        {"type": "tool_use", "id": "2", "name": "a", "input": {}},
    ]});
    let result = |id: &str| json!({"type": "tool_result", "toolUseId": id, "content": []});
    let send = |list: Value| ask("sampling/createMessage", json!({"messages": list, "maxTokens": 5}));
    send(json!([used, {"role": "user", "content": [result("1"), result("2")]}])).expect("legal");
    let text = json!({"type": "text", "text": "and"});
    for (why, messages) in [
        ("missing", json!([used, {"role": "user", "content": [result("1")]}])),
        ("mixed", json!([used, {"role": "user", "content": [result("1"), result("2"), text]}])),
        ("not the user's", json!([used, {"role": "assistant", "content": [result("1"), result("2")]}])),
        ("never", json!([used])),
        ("unused", json!([{"role": "user", "content": [result("1")]}])),
    ] {
        send(messages).expect_err(why);
    }
}

#[test]
fn ir_2_e_1_m_1_nothing_is_asked_that_the_client_did_not_declare() {
    let none = ClientCapabilities::default();
    let plain = ClientCapabilities { sampling: true, ..none };
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    let asked = |method: &str, params: Value| ask(method, params).expect("legal");
    let sampling = |extra: Value| {
        let mut params = json!({"messages": [message], "maxTokens": 5});
        params.as_object_mut().expect("object").extend(extra.as_object().expect("object").clone());
        asked("sampling/createMessage", params)
    };
    let form = asked("elicitation/create", form(json!({})));
    let url = asked("elicitation/create", json!({"mode": "url", "message": "m", "url": "https://e.com"}));
    let tools = sampling(json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}));
    let context = sampling(json!({"includeContext": "allServers"}));
    for (asked, needs, capability) in [
        (form, ClientCapabilities { form: true, ..none }, "elicitation.form"),
        (url, ClientCapabilities { url: true, ..none }, "elicitation.url"),
        (sampling(json!({})), plain, "sampling"),
        (tools, ClientCapabilities { sampling_tools: true, ..plain }, "sampling"),
        (context, ClientCapabilities { sampling_context: true, ..plain }, "sampling"),
        (asked("roots/list", json!({})), ClientCapabilities { roots: true, ..none }, "roots"),
    ] {
        asked.check_client(&needs).expect("the client has it");
        let error = asked.check_client(&none).expect_err("the client lacks it");
        assert!(error.contains(capability), "{error}");
    }
    sampling(json!({"includeContext": "none"})).check_client(&plain).expect("none is the default");
    sampling(json!({"toolChoice": {"mode": "auto"}})).check_client(&plain).expect_err("M-1");
}

#[test]
fn what_belongs_to_the_host_is_not_a_guests_to_set() {
    for params in [
        json!({"task": {}}),
        json!({"_meta": {"progressToken": 1}}),
        json!({"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "x"}}}),
        json!({"_meta": 5}),
        json!([]),
    ] {
        ask("roots/list", params.clone()).expect_err(&params.to_string());
    }
    ask("tools/call", json!({})).expect_err("no such question");
    ask("roots/list", json!({"_meta": {"example.com/a": 1}})).expect("others may be set");
}

#[test]
fn q_1_the_augmentation_is_added_and_the_rest_kept_to_the_letter() {
    let params = RawJson::trusted(
        r#"{"message":"m", "requestedSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}}"#,
    );
    let asked = check("elicitation/create", &params, "").expect("legal");
    assert_eq!(asked.params(None), params, "the order of fields is the order on the screen");
    let whole = params.as_str().strip_suffix('}').expect("an object");
    assert_eq!(asked.params(Some(500)).as_str(), format!("{whole},\"task\":{{\"ttl\":500}}}}"));
}

#[test]
fn q_2_an_answer_is_told_from_a_task_by_its_shape() {
    let created = RawJson::trusted(r#"{"task":{"taskId":"Y","status":"working","pollInterval":2000.5}}"#);
    let status = crate::tasks::TaskStatus::Working;
    let task = ClientTask { id: "Y".into(), status, poll_interval_ms: Some(2000) };
    assert_eq!(given(Kind::Form, true, &created), Ok(ClientAnswer::Task(task)));
    given(Kind::Form, false, &created).expect_err("none was asked for");
    let ignored = RawJson::trusted(r#"{"action":"decline"}"#);
    assert_eq!(given(Kind::Form, true, &ignored), Ok(ClientAnswer::Answer(ignored.clone())));
    for odd in [r#"{"task":{"taskId":"Y","status":"paused"}}"#, r#"{"task":{"status":"working"}}"#] {
        let error = given(Kind::Sampling, true, &RawJson::trusted(odd)).expect_err("Q-11");
        assert_eq!(error.code, -32602);
    }
}

#[test]
fn e_3_m_3_answers_have_the_form_of_their_question() {
    let text = json!({"type": "text", "text": ""});
    for (kind, fits, answer) in [
        (Kind::Form, true, json!({"action": "accept", "content": {"a": "x", "b": 1, "c": true, "d": ["x"]}})),
        (Kind::Form, true, json!({"action": "cancel"})),
        (Kind::Form, false, json!({"action": "accept", "content": {"a": {"nested": 1}}})),
        (Kind::Form, false, json!({"action": "accept", "content": []})),
        (Kind::Form, false, json!({"action": "agree"})),
        (Kind::Url, true, json!({"action": "accept"})),
        (Kind::Sampling, true, json!({"role": "assistant", "model": "m", "content": text})),
        (Kind::Sampling, true, json!({"role": "assistant", "model": "m", "content": [], "stopReason": "x"})),
        (Kind::Sampling, false, json!({"role": "assistant", "content": text})),
        (Kind::Sampling, false, json!({"role": "assistant", "model": "m", "content": "text"})),
        (Kind::Roots, true, json!({"roots": [{"uri": "file:///a", "name": "a"}]})),
        (Kind::Roots, true, json!({"roots": []})),
        (Kind::Roots, false, json!({"roots": [{"uri": "https://a"}]})),
        (Kind::Roots, false, json!({})),
        (Kind::Roots, false, json!(5)),
    ] {
        assert_eq!(given(kind, false, &RawJson::of(&answer)).is_ok(), fits, "{kind:?} {answer}");
    }
}
