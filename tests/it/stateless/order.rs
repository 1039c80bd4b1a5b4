//! The order of the checks (26H-14): for a request with every fault, the host reports the first one; once
//! that is corrected, the next one.

use super::{post, refusal, scripted_as};
use serde_json::json;
use toolyard_tests::guests;
use toolyard_tests::host::Setup;
use toolyard_tests::stateless::{Client, Request, VERSION, key, tasks};
use toolyard_tests::tokens::{stanza, token};

#[tokio::test]
async fn h_26h_14_what_is_wrong_is_said_in_this_order() {
    let setup = Setup::new().with(&[guests::fixture("headed")]);
    let setup = setup.manifest("headed", "[tools.headed]\ntask-support = \"required\"\n");
    let host = setup.config(&stanza("alice", &[])).start().await;
    let client = Client::new(host.port()).bearing(&token("alice"));
    let params = json!({"name": "headed", "arguments": {"region": "north", "count": "many"}});
    let request = client.request("tools/call", params).numbered(json!("o"));
    let wrong = request
        .meta(key::VERSION, json!("1900-01-01"))
        .without_meta(key::CAPABILITIES)
        .header("mcp-method", "prompts/get")
        .header("mcp-name", "other")
        .header("content-type", "text/plain")
        .header("origin", "https://evil.example")
        .without("authorization");
    let said = async |request: Request| {
        let answer = client.send(&request).await;
        let status = answer.status.as_u16();
        // An early rejection does not echo the request id.
        let body = answer.json().await;
        (status, body["error"]["code"].as_i64().unwrap_or_default())
    };
    // 26H-2: first the Origin, then the token, then all else.
    assert_eq!(said(wrong.clone()).await.0, 403);
    let wrong = wrong.without("origin");
    assert_eq!(said(wrong.clone()).await.0, 401, "26A-1");
    let wrong = wrong.header("authorization", &format!("Bearer {}", token("alice")));
    assert_eq!(said(wrong.clone()).await.0, 415);
    let wrong = wrong.header("content-type", "application/json");
    let wrong = wrong.member("jsonrpc", json!("1.0"));
    assert_eq!(said(wrong.clone()).await, (400, -32600), "the shape");
    let wrong = wrong.member("jsonrpc", json!("2.0"));
    assert_eq!(said(wrong.clone()).await, (400, -32020), "the header of the version");
    let wrong = wrong.header("mcp-protocol-version", "1900-01-01");
    assert_eq!(said(wrong.clone()).await, (400, -32602), "the envelope");
    let wrong = wrong.meta(key::CAPABILITIES, json!({}));
    assert_eq!(said(wrong.clone()).await, (400, -32022), "the version");
    let wrong = wrong.header("mcp-protocol-version", VERSION).meta(key::VERSION, json!(VERSION));
    assert_eq!(said(wrong.clone()).await, (400, -32020), "the method's header");
    let unknown = wrong.clone().member("method", json!("no/such")).header("mcp-method", "no/such");
    assert_eq!(said(unknown).await, (404, -32601), "the method");
    let wrong = wrong.header("mcp-method", "tools/call");
    assert_eq!(said(wrong.clone()).await, (400, -32020), "the name's header");
    let wrong = wrong.header("mcp-name", "headed");
    assert_eq!(said(wrong.clone()).await, (400, -32021), "the capability");
    let wrong = wrong.meta(key::CAPABILITIES, tasks());
    assert_eq!(said(wrong.clone()).await, (400, -32020), "the headers of the arguments");
    let nearly = wrong.header("mcp-param-region", "north").header("mcp-param-count", "many");
    let reply = client.reply(&nearly).await;
    assert_eq!(reply.message["result"]["isError"], true, "the arguments: {}", reply.message);
}

#[tokio::test]
async fn h_26h_9_refusals_of_the_shape_have_the_status_400_and_echo_what_could_be_read() {
    let host = scripted_as(Setup::new(), "s", "").start().await;
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", VERSION),
        ("mcp-method", "tools/list"),
    ];
    let meta = json!({key::VERSION: VERSION, key::CAPABILITIES: {}});
    for (body, code, id) in [
        ("{".to_owned(), -32700, json!(null)),
        (String::new(), -32700, json!(null)),
        ("5".to_owned(), -32600, json!(null)),
        ("[]".to_owned(), -32600, json!(null)),
        (json!({"id": 1, "method": "tools/list", "params": {"_meta": meta}}).to_string(), -32600, json!(1)),
        (
            json!({"jsonrpc": "2.0", "id": null, "method": "tools/list", "params": {"_meta": meta}})
                .to_string(),
            -32600,
            json!(null),
        ),
        (
            json!({"jsonrpc": "2.0", "id": 1.5, "method": "tools/list", "params": {"_meta": meta}})
                .to_string(),
            -32600,
            json!(null),
        ),
        (json!({"jsonrpc": "2.0", "id": 1, "params": {"_meta": meta}}).to_string(), -32600, json!(1)),
        (
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": [meta]}).to_string(),
            -32600,
            json!(1),
        ),
    ] {
        let answer = post(host.port(), &headers, body.clone()).await;
        let whole = answer.status;
        let (status, said, echoed) = refusal(answer).await;
        assert_eq!((status, said), (400, code), "{body}: {whole}");
        // 26J-6: the id is never `null`, which the tap checks.
        assert_eq!(echoed, id, "{body}");
    }
}
