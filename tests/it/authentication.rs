//! Authentication: every reason to reject a request, and every way to authenticate (A-1 to A-5, H-2, H-3).

use hyper::Method;
use serde_json::{Value, json};
use std::time::Instant;
use toolyard_tests::http::Answer;
use toolyard_tests::identity_provider::{Key, RESOURCE, now, unsigned};
use toolyard_tests::session::{HEADERS, initialize};
use toolyard_tests::{Host, IdentityProvider, LATEST, Session, Setup};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const METADATA: &str = "https://tools.example.com/.well-known/oauth-protected-resource/mcp";

/// Sends an `initialize` with this bearer token.
pub async fn knock_by(host: &Host, token: &str) -> Answer {
    knock(host, &[("authorization", &format!("Bearer {token}"))]).await
}

/// Sends an `initialize` with these additional headers.
async fn knock(host: &Host, more: &[(&str, &str)]) -> Answer {
    let body = initialize(LATEST, json!({})).to_string();
    host.send(Method::POST, "/mcp", &[&HEADERS[..], more].concat(), &body).await
}

/// The expected refusal, to the byte.
struct Refusal {
    status: u16,
    challenge: String,
    message: &'static str,
}

/// The refusal with this challenge before the address of the metadata.
fn refusal(status: u16, challenge: &str, message: &'static str) -> Refusal {
    Refusal { status, challenge: format!("Bearer {challenge}, resource_metadata=\"{METADATA}\""), message }
}

fn missing() -> Refusal {
    refusal(401, r#"scope="tools""#, "Unauthorized: this server needs an access token")
}

fn malformed() -> Refusal {
    let why =
        r#"error="invalid_request", error_description="The Authorization header must be: Bearer TOKEN""#;
    refusal(400, why, "Bad request: the Authorization header must be `Bearer TOKEN`, once")
}

fn invalid() -> Refusal {
    let why = r#"error="invalid_token", error_description="The access token is not valid, or not any more""#;
    let challenge = format!(r#"{why}, scope="tools""#);
    refusal(401, &challenge, "Unauthorized: the access token is not valid, or not any more")
}

async fn check(what: &str, answer: Answer, expected: &Refusal) {
    assert_eq!(answer.status, expected.status, "{what}");
    assert_eq!(answer.header("www-authenticate"), expected.challenge, "{what}");
    assert_eq!(answer.header("content-type"), "application/json", "{what}");
    assert_eq!(answer.header("mcp-session-id"), "", "{what}");
    let body = answer.json().await;
    let error = json!({"code": -32600, "message": expected.message});
    assert_eq!(body, json!({"jsonrpc": "2.0", "error": error}), "{what}");
}

/// The host gives one answer to all tokens that are not valid, whatever their fault.
#[tokio::test]
async fn a_3_a_4_a_5_a_request_needs_one_valid_token_and_no_fault_is_told_from_another() {
    let keys = [Key::rsa("one", 0), Key::ec("two"), Key::ed("three")];
    let [rsa, ec, ed] = &keys;
    let provider = IdentityProvider::with(&[rsa, ec, ed]).await;
    let host = Setup::new().config(&provider.config()).start().await;
    let good = format!("Bearer {}", provider.token(ec, "alice"));
    for (what, headers, expected) in [
        ("nothing", &[][..], missing()),
        ("another scheme", &[("authorization", "Basic dXNlcjpwYXNz")], missing()),
        ("a cookie", &[("cookie", &*good)], missing()),
        ("two words", &[("authorization", "Bearer a b")], malformed()),
        ("two headers", &[("authorization", &*good), ("authorization", &*good)], malformed()),
        ("unknown", &[("authorization", "Bearer abc")], invalid()),
    ] {
        check(what, knock(&host, headers).await, &expected).await;
    }
    let query = format!("/mcp?access_token={}", good.trim_start_matches("Bearer "));
    let answer = host.send(Method::POST, &query, &HEADERS, PING).await;
    check("A-5: a token in the query", answer, &missing()).await;
    assert_eq!(provider.fetches(), 0, "none of them was worth a look at the keys");
    for key in &keys {
        assert_eq!(knock_by(&host, &provider.token(key, "alice")).await.status, 200, "{}", key.alg);
    }
    let claims = |name: &str, value: Value| {
        let mut claims = provider.claims("alice");
        claims[name] = value;
        ec.sign(&claims)
    };
    let (body, signature) = good.trim_start_matches("Bearer ").rsplit_once('.').expect("a token");
    for (what, token) in [
        ("expired", claims("exp", json!(now() - 1))),
        ("another audience", claims("aud", json!("https://other.example.com/mcp"))),
        ("another issuer", claims("iss", json!("https://idp.example.com"))),
        ("no signature", format!("{body}.")),
        ("another body", format!("{}.{signature}", unsigned(&ec.header(), &provider.claims("bob")))),
        ("a stranger's key of a known name", Key::ec("two").sign(&provider.claims("alice"))),
    ] {
        check(what, knock_by(&host, &token).await, &invalid()).await;
    }
    assert_eq!(provider.fetches(), 1);
    // Strangers cannot make the host ask the issuer more often than once in ten seconds.
    let began = Instant::now();
    for stranger in 0..20 {
        let token = provider.token(&Key::ec(&format!("stranger-{stranger}")), "alice");
        check("an unknown key", knock_by(&host, &token).await, &invalid()).await;
    }
    assert!(provider.fetches() as u64 <= 2 + began.elapsed().as_secs() / 10, "{}", provider.fetches());
    // Before that, the answer depends neither on the path nor on anything else in the request.
    assert_eq!(host.send(Method::POST, "/mcpx", &[], PING).await.status, 404);
    for (method, headers) in [(Method::PUT, &[][..]), (Method::POST, &[("accept", "text/html")])] {
        check("a strange request", host.send(method, "/mcp", headers, "{").await, &missing()).await;
    }
}

/// H-25: a session opens neither without a token nor with that of another principal, to whom it is as unknown as one
/// that never existed.
#[tokio::test]
async fn a_5_h_25_every_message_of_a_session_needs_a_token_of_its_principal() {
    let (provider, key) = IdentityProvider::of(Key::ed("one")).await;
    let host = Setup::probe().config(&provider.config()).start().await;
    let session = Session::open_with(host.port(), &provider.token(&key, "alice")).await;
    let (tokenless, stolen) =
        (session.bearing(None), session.bearing(Some(&provider.token(&key, "mallory"))));
    for (method, body) in [
        (Method::POST, PING),
        (Method::POST, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        (Method::POST, r#"{"jsonrpc":"2.0","id":"s-1","result":{}}"#),
        (Method::GET, ""),
        (Method::DELETE, ""),
    ] {
        let answer = host.send(method.clone(), "/mcp", &tokenless.headers(), body).await;
        check(&format!("{method} {body}"), answer, &missing()).await;
        let answer = host.send(method.clone(), "/mcp", &stolen.headers(), body).await;
        let mut unknown = stolen.headers();
        unknown.retain(|(name, _)| *name != "mcp-session-id");
        unknown.push(("mcp-session-id", "00000000000000000000000000000000"));
        let never = host.send(method, "/mcp", &unknown, body).await;
        assert_eq!(answer.status, 404, "{body}");
        assert_eq!((answer.status, answer.headers.len()), (never.status, never.headers.len()));
        assert_eq!(answer.bytes().await, never.bytes().await);
    }
    assert_eq!(session.request("ping", json!({})).await["result"], json!({}), "nothing was ended");
}

#[tokio::test]
async fn a_3_a_required_scope_that_is_missing_is_named() {
    let (provider, key) = IdentityProvider::of(Key::ed("one")).await;
    let config = provider.config().replace("leeway", "required-scopes = [\"tools\", \"more\"]\nleeway");
    let host = Setup::new().config(&config).start().await;
    let why =
        r#"error="insufficient_scope", error_description="The access token lacks a scope that this needs""#;
    let challenge = format!(r#"{why}, scope="tools more""#);
    let expected = refusal(403, &challenge, "Forbidden: the access token lacks a scope that this needs");
    check("one is missing", knock_by(&host, &provider.token(&key, "alice")).await, &expected).await;
    let mut claims = provider.claims("alice");
    claims["scope"] = json!("more tools");
    assert_eq!(knock_by(&host, &key.sign(&claims)).await.status, 200);
}

#[tokio::test]
async fn a_1_a_2_h_2_the_metadata_says_who_issues_tokens_and_pages_that_may_call_can_read_every_answer() {
    let (provider, key) = IdentityProvider::of(Key::ed("one")).await;
    let config = format!(
        "[http]\nhosts = [\"tools.example.com\"]\norigins = [\"https://app.example.com\"]\n{}",
        provider.config()
    );
    let host = Setup::new().config(&config).start().await;
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let answer = host.send(Method::GET, path, &[], "").await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        let metadata = json!({
            "resource": RESOURCE, "authorization_servers": [provider.issuer()], "scopes_supported": ["tools"],
            "bearer_methods_supported": ["header"], "resource_name": "toolyard",
        });
        assert_eq!(answer.json().await, metadata);
        let head = host.send(Method::HEAD, path, &[], "").await;
        assert_eq!(head.status, 200);
        assert!(head.bytes().await.is_empty());
        let preflight = [("origin", "http://localhost:1"), ("access-control-request-method", "GET")];
        assert_eq!(host.send(Method::OPTIONS, path, &preflight, "").await.status, 204);
        assert_eq!(host.send(Method::POST, path, &[], "").await.status, 405);
        assert_eq!(host.send(Method::GET, path, &[("host", "evil.example")], "").await.status, 403);
    }
    let anonymous = Host::with(&[]).await;
    let path = "/.well-known/oauth-protected-resource";
    assert_eq!(anonymous.send(Method::GET, path, &[], "").await.status, 404);

    let token = format!("Bearer {}", provider.token(&key, "alice"));
    for origin in ["https://app.example.com", "http://localhost:6274"] {
        let ask = [
            ("host", "tools.example.com"),
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type"),
        ];
        let preflight = host.send(Method::OPTIONS, "/mcp", &ask, "").await;
        assert_eq!(preflight.status, 204, "{origin}: without a token");
        assert_eq!(preflight.header("access-control-allow-origin"), origin);
        assert_eq!(preflight.header("access-control-allow-methods"), "POST, GET, DELETE");
        assert_eq!(preflight.header("vary"), "Origin");
        assert!(!preflight.header("access-control-max-age").is_empty());
        let allowed = preflight.header("access-control-allow-headers").to_lowercase();
        for name in
            "authorization content-type accept mcp-session-id mcp-protocol-version last-event-id".split(' ')
        {
            assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}");
        }
        let refused = knock(&host, &[("origin", origin)]).await;
        let opened = knock(&host, &[("origin", origin), ("authorization", &token)]).await;
        let id = opened.header("mcp-session-id").to_owned();
        let of_session = [("authorization", &*token), ("mcp-session-id", &*id)];
        let headers = [&of_session[..], &[("origin", origin), ("accept", "text/event-stream")]].concat();
        let stream = host.send(Method::GET, "/mcp", &headers, "").await;
        assert!(stream.is_events());
        for (status, answer) in [(401, refused), (200, opened), (200, stream)] {
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("access-control-allow-origin"), origin, "{status}");
            let exposed = answer.header("access-control-expose-headers");
            assert_eq!(exposed, "Mcp-Session-Id, WWW-Authenticate, Retry-After", "{status}");
            assert_eq!(answer.header("vary"), "Origin");
        }
    }
    let plain = knock(&host, &[("authorization", &token)]).await;
    assert_eq!(plain.header("access-control-allow-origin"), "", "no page asked");
}
