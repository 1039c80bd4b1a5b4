//! Authentication: every reason to reject a request, and every way to authenticate (A-1 to A-5, H-2, H-3).

use hyper::Method;
use serde_json::{Value, json};
use toolyard_tests::host::Setup;
use toolyard_tests::http::{Answer, Connection};
use toolyard_tests::identity_provider::{Key, RESOURCE, now, sign_with_secret, unsigned};
use toolyard_tests::session::{HEADERS, LATEST, initialize};
use toolyard_tests::{Host, IdentityProvider, Session};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const METADATA: &str = "https://tools.example.com/.well-known/oauth-protected-resource/mcp";

async fn send(host: &Host, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    Connection::open(host.port()).await.send(method, path, headers, body.to_owned()).await
}

/// Sends an `initialize` with these additional headers.
async fn knock(host: &Host, more: &[(&str, &str)]) -> Answer {
    let headers = [&HEADERS[..], more].concat();
    send(host, Method::POST, "/mcp", &headers, &initialize(LATEST, json!({})).to_string()).await
}

/// A copy with these changes; `null` removes a member.
fn with(value: &Value, changes: Value) -> Value {
    let mut value = value.clone();
    for (name, change) in changes.as_object().expect("an object") {
        match change {
            Value::Null => drop(value.as_object_mut().expect("an object").remove(name)),
            change => value[name] = change.clone(),
        }
    }
    value
}

/// The expected refusal, to the byte.
struct Refusal {
    status: u16,
    challenge: String,
    message: &'static str,
}

fn missing() -> Refusal {
    Refusal {
        status: 401,
        challenge: format!("Bearer scope=\"tools\", resource_metadata=\"{METADATA}\""),
        message: "Unauthorized: this server needs an access token",
    }
}

fn malformed() -> Refusal {
    Refusal {
        status: 400,
        challenge: format!(
            "Bearer error=\"invalid_request\", error_description=\"The Authorization header must be: Bearer \
             TOKEN\", resource_metadata=\"{METADATA}\""
        ),
        message: "Bad request: the Authorization header must be `Bearer TOKEN`, once",
    }
}

fn invalid() -> Refusal {
    Refusal {
        status: 401,
        challenge: format!(
            "Bearer error=\"invalid_token\", error_description=\"The access token is not valid, or not any \
             more\", scope=\"tools\", resource_metadata=\"{METADATA}\""
        ),
        message: "Unauthorized: the access token is not valid, or not any more",
    }
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

#[tokio::test]
async fn a_3_a_5_a_request_without_one_readable_token_is_refused() {
    let (provider, key) = IdentityProvider::of(Key::ed("one")).await;
    let host = Setup::new().config(&provider.config()).start().await;
    let good = format!("Bearer {}", provider.token(&key, "alice"));
    let huge = format!("Bearer {}", "x".repeat(9000));
    for (what, headers, expected) in [
        ("nothing", &[][..], missing()),
        ("another scheme", &[("authorization", "Basic dXNlcjpwYXNz")], missing()),
        ("no scheme", &[("authorization", good.trim_start_matches("Bearer "))], missing()),
        ("a cookie", &[("cookie", &*good)], missing()),
        ("empty", &[("authorization", "")], malformed()),
        ("no token", &[("authorization", "Bearer")], malformed()),
        ("two words", &[("authorization", "Bearer a b")], malformed()),
        ("not base64", &[("authorization", "Bearer a\"b")], malformed()),
        ("two headers", &[("authorization", &*good), ("authorization", &*good)], malformed()),
        ("a good one second", &[("authorization", "Bearer x"), ("authorization", &*good)], malformed()),
        ("huge", &[("authorization", &*huge)], malformed()),
        ("unknown", &[("authorization", "Bearer abc")], invalid()),
    ] {
        check(what, knock(&host, headers).await, &expected).await;
    }
    let token = good.trim_start_matches("Bearer ");
    for query in
        [format!("/mcp?access_token={token}"), format!("/mcp?token={token}&Authorization=Bearer+{token}")]
    {
        let answer = send(&host, Method::POST, &query, &HEADERS, PING).await;
        check("A-5: a token in the query", answer, &missing()).await;
    }
    assert_eq!(provider.fetches(), 0, "none of them was worth a look at the keys");
    for scheme in ["Bearer", "bearer", "BEARER  "] {
        let header = good.replacen("Bearer", scheme, 1);
        assert_eq!(knock(&host, &[("authorization", &header)]).await.status, 200, "{scheme}");
    }
    assert_eq!(provider.fetches(), 1);
    // Before that, the answer depends neither on the path nor on anything else in the request.
    assert_eq!(send(&host, Method::POST, "/mcpx", &[], PING).await.status, 404);
    for (method, headers) in
        [(Method::PUT, &[][..]), (Method::POST, &[("accept", "text/html")]), (Method::OPTIONS, &[])]
    {
        check("a strange request", send(&host, method, "/mcp", headers, "{").await, &missing()).await;
    }
}

/// Tokens with faults of each kind. The host gives the same answer to all.
fn wrong_tokens(provider: &IdentityProvider, keys: &[Key; 3], rotated: &Key) -> Vec<(&'static str, String)> {
    let [rsa, ec, _] = keys;
    let good = provider.claims("alice");
    let claims = |changes| ec.sign(&with(&good, changes));
    let header = |key: &Key, changes| key.sign_as(&with(&key.header(), changes), &good);
    let signed = ec.sign(&good);
    let (body, signature) = signed.rsplit_once('.').expect("a token");
    let other_body = unsigned(&ec.header(), &provider.claims("bob"));
    let public = rsa.jwk["n"].as_str().expect("a modulus");
    let stranger = Key::ec("two");
    vec![
        ("expired", claims(json!({"exp": now() - 1}))),
        ("another audience", claims(json!({"aud": "https://other.example.com/mcp"}))),
        ("another issuer", claims(json!({"iss": "https://idp.example.com"}))),
        ("none", format!("{}.", unsigned(&json!({"alg": "none"}), &good))),
        ("no signature", format!("{body}.")),
        ("another body", format!("{other_body}.{signature}")),
        (
            "the public key as a secret",
            sign_with_secret(public.as_bytes(), &with(&rsa.header(), json!({"alg": "HS256"})), &good),
        ),
        ("the RSA key named for ES256", header(ec, json!({"kid": "one"}))),
        ("an unknown key", header(ec, json!({"kid": "four"}))),
        ("a stranger's key of a known name", stranger.sign(&good)),
        (
            "a key that it brings along",
            stranger.sign_as(&json!({"alg": "ES256", "kid": "new", "jwk": stranger.jwk}), &good),
        ),
        ("a key that was taken back", rotated.sign(&good)),
    ]
}

#[tokio::test]
async fn a_3_a_4_every_wrong_token_is_refused_alike() {
    let keys = [Key::rsa("one", 0), Key::ec("two"), Key::ed("three")];
    let [rsa, ec, ed] = &keys;
    let rotated = Key::ec("zero");
    let provider = IdentityProvider::with(&[rsa, ec, ed]).await;
    let host = Setup::new().config(&provider.config()).set("jwks.cool-down", "1h").start().await;
    for key in &keys {
        let good = format!("Bearer {}", provider.token(key, "alice"));
        assert_eq!(knock(&host, &[("authorization", &good)]).await.status, 200, "{}", key.alg);
    }
    for accepted in [
        with(&provider.claims("alice"), json!({"aud": ["https://a.example", RESOURCE]})),
        with(&provider.claims("alice"), json!({"scope": null, "scp": ["a"], "nbf": now() - 10})),
    ] {
        let token = format!("Bearer {}", ec.sign(&accepted));
        assert_eq!(knock(&host, &[("authorization", &token)]).await.status, 200, "{accepted}");
    }
    for (what, token) in wrong_tokens(&provider, &keys, &rotated) {
        let authorization = format!("Bearer {token}");
        check(what, knock(&host, &[("authorization", &authorization)]).await, &invalid()).await;
    }
    assert_eq!(provider.fetches(), 1);
}

#[tokio::test]
async fn a_5_every_method_and_every_message_needs_a_token() {
    let (provider, key) = IdentityProvider::of(Key::ed("one")).await;
    let host = Setup::probe().config(&provider.config()).start().await;
    let session = Session::open_with(host.port(), &provider.token(&key, "alice")).await;
    let stolen = session.bearing(None);
    for (method, body) in [
        (Method::POST, PING),
        (Method::POST, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        (Method::POST, r#"{"jsonrpc":"2.0","id":"s-1","result":{}}"#),
        (Method::POST, r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#),
        (Method::POST, "{"),
        (Method::GET, ""),
        (Method::DELETE, ""),
    ] {
        let answer = send(&host, method.clone(), "/mcp", &stolen.headers(), body).await;
        check(&format!("H-25: {method} {body}"), answer, &missing()).await;
    }
    assert_eq!(session.request("ping", json!({})).await["result"], json!({}), "nothing was ended");
}

/// H-25: another principal's session is as unknown as one that never existed.
#[tokio::test]
async fn h_25_a_session_id_opens_nothing_to_another_principal() {
    let (provider, key) = IdentityProvider::of(Key::ed("one")).await;
    let host = Setup::probe().config(&provider.config()).start().await;
    let session = Session::open_with(host.port(), &provider.token(&key, "alice")).await;
    let other = provider.token(&key, "mallory");
    let stolen = session.bearing(Some(&other));
    for (method, body) in [(Method::POST, PING), (Method::GET, ""), (Method::DELETE, "")] {
        let answer = send(&host, method.clone(), "/mcp", &stolen.headers(), body).await;
        let mut unknown = stolen.headers();
        unknown.retain(|(name, _)| *name != "mcp-session-id");
        unknown.push(("mcp-session-id", "00000000000000000000000000000000"));
        let never = send(&host, method, "/mcp", &unknown, body).await;
        assert_eq!(answer.status, 404);
        assert_eq!((answer.status, answer.headers.len()), (never.status, never.headers.len()));
        assert_eq!(answer.bytes().await, never.bytes().await);
    }
    assert_eq!(session.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn a_3_a_required_scope_that_is_missing_is_named() {
    let (provider, key) = IdentityProvider::of(Key::ed("one")).await;
    let config = provider.config().replace("leeway", "required-scopes = [\"tools\", \"more\"]\nleeway");
    let host = Setup::new().config(&config).start().await;
    let expected = Refusal {
        status: 403,
        challenge: format!(
            "Bearer error=\"insufficient_scope\", error_description=\"The access token lacks a scope that this \
             needs\", scope=\"tools more\", resource_metadata=\"{METADATA}\""
        ),
        message: "Forbidden: the access token lacks a scope that this needs",
    };
    let token = format!("Bearer {}", provider.token(&key, "alice"));
    check("one is missing", knock(&host, &[("authorization", &token)]).await, &expected).await;
    let claims = with(&provider.claims("alice"), json!({"scope": "more tools"}));
    let token = format!("Bearer {}", key.sign(&claims));
    assert_eq!(knock(&host, &[("authorization", &token)]).await.status, 200);
}

#[tokio::test]
async fn a_1_a_2_the_metadata_says_who_issues_tokens() {
    let (provider, _) = IdentityProvider::of(Key::ed("one")).await;
    let host = Setup::new().config(&provider.config()).start().await;
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let answer = send(&host, Method::GET, path, &[], "").await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        assert_eq!(
            answer.json().await,
            json!({
                "resource": RESOURCE,
                "authorization_servers": [provider.issuer()],
                "scopes_supported": ["tools"],
                "bearer_methods_supported": ["header"],
                "resource_name": "toolyard",
            })
        );
        let head = send(&host, Method::HEAD, path, &[], "").await;
        assert_eq!(head.status, 200);
        assert!(head.bytes().await.is_empty());
        let preflight = [("origin", "http://localhost:1"), ("access-control-request-method", "GET")];
        assert_eq!(send(&host, Method::OPTIONS, path, &preflight, "").await.status, 204);
        assert_eq!(send(&host, Method::POST, path, &[], "").await.status, 405);
        assert_eq!(send(&host, Method::GET, path, &[("host", "evil.example")], "").await.status, 403);
    }
    let anonymous = Host::with(&[]).await;
    let path = "/.well-known/oauth-protected-resource";
    assert_eq!(send(&anonymous, Method::GET, path, &[], "").await.status, 404);
}

#[tokio::test]
async fn h_2_pages_that_may_call_can_read_every_answer() {
    let (provider, key) = IdentityProvider::of(Key::ed("one")).await;
    let config = format!(
        "[http]\nhosts = [\"tools.example.com\"]\norigins = [\"https://app.example.com\"]\n{}",
        provider.config()
    );
    let host = Setup::new().config(&config).start().await;
    let token = format!("Bearer {}", provider.token(&key, "alice"));
    for origin in ["https://app.example.com", "http://localhost:6274"] {
        let ask = [
            ("host", "tools.example.com"),
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type"),
        ];
        let preflight = send(&host, Method::OPTIONS, "/mcp", &ask, "").await;
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
        let headers = [
            ("origin", origin),
            ("authorization", &*token),
            ("mcp-session-id", &*id),
            ("accept", "text/event-stream"),
        ];
        let stream = send(&host, Method::GET, "/mcp", &headers, "").await;
        assert!(stream.is_events());
        for (status, answer) in [(401, refused), (200, opened), (200, stream)] {
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("access-control-allow-origin"), origin, "{status}");
            let exposed = answer.header("access-control-expose-headers");
            assert_eq!(exposed, "Mcp-Session-Id, WWW-Authenticate, Retry-After", "{status}");
            assert_eq!(answer.header("vary"), "Origin");
        }
    }
    for (name, value) in [("origin", "https://evil.example"), ("origin", "null"), ("host", "evil.example")] {
        let answer = knock(&host, &[(name, value), ("authorization", &token)]).await;
        assert_eq!(answer.status, 403, "{name}: {value}");
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
    let plain = knock(&host, &[("authorization", &token)]).await;
    assert_eq!(plain.header("access-control-allow-origin"), "", "no page asked");
}

#[tokio::test]
async fn a_4_what_is_listened_on_beyond_this_machine_needs_tokens_or_a_word() {
    let listen = ["serve", "--listen", "0.0.0.0:0"];
    let host = Host::with(&[]).await;
    let refused = host.command(&listen).await;
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("anonymous-on-network") && said.contains("[[auth.tokens]]"), "{said}");
    std::fs::write(host.folder().join("toolyard.toml"), "[[auth.tokens]]\nname = \"ci\"\ntoken = \"s3cret\"")
        .expect("a configuration");
    let refused = host.command(&["serve"]).await;
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("toolyard token ci") && !said.contains("s3cret"), "{said}");
}
