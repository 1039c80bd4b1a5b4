//! The envelope of every request (26R), and the shape of the answers (26J).

use super::{probe, script, steps};
use crate::questions::scripted;
use serde_json::json;
use toolyard_tests::Session;
use toolyard_tests::exchange::outcome;
use toolyard_tests::stateless::key;

#[tokio::test]
async fn r_26r_1_r_26r_2_what_the_envelope_lacks_is_named() {
    let (_host, client) = probe().await;
    let request = || client.request("tools/list", json!({}));
    for (request, says) in [
        (request().without_meta(key::CAPABILITIES), key::CAPABILITIES),
        // The header alone tells the revision.
        (request().without_meta(key::VERSION), key::VERSION),
        // 26C-4: an unknown level.
        (request().meta(key::LOG_LEVEL, json!("loud")), "log level"),
    ] {
        let reply = client.reply(&request).await;
        assert_eq!(reply.refusal(), (400, -32602), "{}", request.message());
        let error = &reply.message["error"]["message"];
        assert!(error.as_str().is_some_and(|text| text.contains(says)), "{says}: {error}");
        assert_eq!(reply.message["id"], request.message()["id"], "26J-6");
    }
    // 26J-9 and J-7: the host accepts other keys.
    let request = request()
        .meta("traceparent", json!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
        .meta("baggage", json!("a=b"))
        .meta("com.example/x", json!([null]));
    assert_eq!(client.reply(&request).await.status, 200);
}

#[tokio::test]
async fn r_26r_3_d_26d_5_versions_that_are_not_served_are_refused_with_those_that_are() {
    let (_host, client) = probe().await;
    let discovered = client.result("server/discover", json!({})).await;
    for version in ["1900-01-01", "2025-11-25", "2025-06-18", "2026-07-29", "DRAFT-2026", " 2026-07-28"] {
        let request = client.request("tools/list", json!({})).meta(key::VERSION, json!(version));
        // 26X-12: exactly as the client wrote it. In a header, a leading space does not count.
        let reply = client.reply(&request.header("mcp-protocol-version", version)).await;
        let expected = if version.trim() == version { -32022 } else { -32020 };
        assert_eq!(reply.refusal(), (400, expected), "{version:?}");
        if expected == -32022 {
            // 26X-5: the codes of the published revision.
            let data = &reply.message["error"]["data"];
            assert_eq!(data["requested"], version);
            assert_eq!(data["supported"], discovered["supportedVersions"]);
        }
    }
}

#[tokio::test]
async fn j_26j_3_an_id_may_be_used_again_while_a_request_of_the_same_id_runs() {
    let (_host, client) = script().await;
    let slow =
        client.request("tools/call", steps(json!([{"sleep": 300}, {"info": null}]))).numbered(json!(5));
    let quick = client.request("tools/call", steps(json!([]))).numbered(json!(5));
    let (slow, quick) = tokio::join!(client.reply(&slow), client.reply(&quick));
    assert_eq!(outcome(&quick.result()), json!([]));
    assert_eq!(outcome(&slow.result()).as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn j_26j_4_j_26j_5_every_result_says_its_type_and_whose_it_is() {
    let (_host, client) =
        super::patient(scripted()).with(&[toolyard_tests::guests::fixture("library")]).serve_client().await;
    let about = json!({"ref": {"type": "ref/prompt", "name": "recommend"}, "argument": {"name": "genre", "value": "x"}});
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("tools/call", steps(json!([]))),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "book:/1"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "recommend", "arguments": {"genre": "x"}})),
        ("completion/complete", about),
    ] {
        let result = client.result(method, params).await;
        assert_eq!(result["resultType"], "complete", "{method}");
        let server = &result["_meta"][key::SERVER];
        assert_eq!(
            (&server["name"], &server["version"]),
            (&json!("toolyard"), &json!(toolyard_tests::guests::version()))
        );
    }
}

/// 26J-7: reserved codes of a guest do not reach a client of 2026-07-28; a session receives them unchanged.
#[tokio::test]
async fn j_26j_7_codes_that_belong_to_the_specification_are_not_a_guests() {
    let (host, client) = probe().await;
    let session = Session::open(host.port()).await;
    for (code, shown) in [(-32602, -32602), (5, 5), (-32002, -32602), (-32020, -32603)] {
        let params = json!({"name": "protocol_error", "arguments": {"code": code, "message": "odd"}});
        let reply = client.ask("tools/call", params.clone()).await;
        let error = &reply.message["error"];
        assert_eq!((reply.status, &error["code"]), (200, &json!(shown)), "{code}");
        assert_eq!(error["message"], "odd");
        if code != shown && code != -32002 {
            assert_eq!(error["data"]["guestCode"], code, "{error}");
        }
        assert_eq!(session.error("tools/call", params).await["code"], code, "as ever");
    }
    // 26M-8: nor does an error send a client to a page.
    let (_host, client) = script().await;
    let data = json!({"elicitations": [
        {"mode": "url", "message": "m", "url": "https://e.com", "elicitationId": "x"},
    ]});
    let first = steps(json!([{"fail": {"code": -32042, "message": "Sign in first", "data": data}}]));
    let error = client.error("tools/call", first).await;
    assert_eq!((&error["code"], &error["data"]["guestCode"]), (&json!(-32603), &json!(-32042)), "{error}");
}

#[tokio::test]
async fn r_26r_4_a_capability_that_a_guest_needs_is_named_with_the_status_400() {
    let (host, client) = script().await;
    let needs = steps(json!([{"missing": {"sampling": {}}}]));
    let reply = client.ask("tools/call", needs.clone()).await;
    assert_eq!(reply.refusal(), (400, -32021), "{}", reply.message);
    assert_eq!(reply.message["error"]["data"]["requiredCapabilities"], json!({"sampling": {}}));
    // Once the response head is sent, only the code tells the error.
    let request = client
        .request("tools/call", steps(json!([{"progress": {"progress": 1}}, {"missing": {"roots": {}}}])));
    let reply = client.reply(&request.meta("progressToken", json!(1))).await;
    assert!(reply.streamed, "{}", reply.message);
    assert_eq!(reply.refusal(), (200, -32021));
    // A session receives the former result.
    let session = Session::open(host.port()).await;
    let result = session.result("tools/call", needs).await;
    assert_eq!(result["isError"], true);
}

#[tokio::test]
async fn tl_26tl_4_unknown_params_are_passed_over_and_a_wish_for_a_task_is_none() {
    let (_host, client) = script().await;
    for task in [json!({}), json!({"ttl": 5000}), json!("nonsense"), json!(null)] {
        let mut params = steps(json!([]));
        params["task"] = task;
        params["other"] = json!([1]);
        let result = client.result("tools/call", params).await;
        assert_eq!(result["resultType"], "complete", "{result}");
    }
    // Nor does the declaration of a session count (26T-2): clients without the extension get results (26B-15,
    // 26B-16).
    let request = client
        .request("tools/call", steps(json!([{"begin": null}, {"info": null}])))
        .meta(key::CAPABILITIES, json!({"tasks": {"requests": {"tools": {"call": {}}}}}));
    let result = client.reply(&request).await.result();
    assert!(outcome(&result)[1].get("taskId").is_none(), "{result}");
}

/// The opposite of T-14 in sessions: the model has to correct arguments that do not match the schema.
#[tokio::test]
async fn h_26h_9_what_is_wrong_with_params_is_said_under_the_status_200() {
    let (_host, client) = probe().await;
    for (method, params) in [
        ("tools/call", json!({"name": "nobody", "arguments": {}})),
        ("tools/list", json!({"cursor": "nonsense"})),
    ] {
        let reply = client.ask(method, params.clone()).await;
        assert_eq!(reply.refusal(), (200, -32602), "{method} {params}: {}", reply.message);
    }
    for arguments in [json!({"ms": "long"}), json!({})] {
        let result = client.call("wait", arguments.clone()).await;
        assert_eq!(
            (&result["resultType"], &result["isError"]),
            (&json!("complete"), &json!(true)),
            "{arguments}"
        );
        let created = client.call("batch", arguments).await;
        assert_eq!(created["isError"], true, "and no task: {created}");
    }
}
