//! The order of the checks of a request over HTTP (26H).

use serde_json::json;
use toolyard_tests::stateless::Client;
use toolyard_tests::{Setup, token};

#[tokio::test]
async fn h_26h_2_a_26a_1_a_26a_3_strangers_and_what_they_accept_come_before_all() {
    let host = Setup::probe().principals(&["alice"]).start().await;
    let anonymous = Client::new(host.port());
    let alice = Client::new(host.port()).bearing(&token("alice"));
    let request = || alice.request("no/such", json!({}));
    for (request, status) in [
        (request().header("origin", "https://evil.example"), 403),
        (request().header("host", "evil.example"), 403),
        (request().without("authorization"), 401),
        (request().header("authorization", "Bearer nonsense"), 401),
        (request().header("authorization", "Basic nonsense"), 401),
        (request().header("accept", "application/json"), 406),
        (request().header("accept", "text/html"), 406),
        (request().header("content-type", "text/plain"), 415),
        (request().header("content-encoding", "gzip"), 415),
        (request().header("mcp-method", "tools/list"), 400),
        (request(), 404),
    ] {
        let answer = anonymous.send(&request).await;
        assert_eq!(answer.status, status, "{:?}", request.headers());
        // 26A-2: the answer also says how to authenticate.
        assert_eq!(answer.header("www-authenticate").starts_with("Bearer"), status == 401);
    }
    // Each request authenticates again: the host remembers nothing of the last one (26J-2).
    assert_eq!(alice.ask("tools/list", json!({})).await.status, 200);
    assert_eq!(anonymous.send(&anonymous.request("tools/list", json!({}))).await.status, 401);
}
