//! Access rules: which principal may use which tools, resources and prompts. To a caller, anything that it
//! may not use does not exist. If only a scope is missing, the host names that scope (A-3).

use crate::command_line::{err, out};
use serde_json::{Value, json};
use toolyard_tests::exchange::next_of;
use toolyard_tests::host::run;
use toolyard_tests::http::Answer;
use toolyard_tests::identity_provider::Key;
use toolyard_tests::tokens::stanza;
use toolyard_tests::{Host, IdentityProvider, Session, Setup, guests};

const RULES: &str = r#"
[[rules]]
name = "no traps"
effect = "deny"
tools = ["trap"]

[[rules]]
name = "alice"
effect = "allow"
principals = ["token:alice"]
tools = ["*"]
resources = ["book:/*"]
prompts = ["*"]

[[rules]]
name = "writers"
effect = "allow"
scopes = ["write"]
tools = ["count", "imaginary"]
prompts = ["unable"]
resources = ["book:/blob"]

[[rules]]
name = "readers echo what is short"
effect = "allow"
principals = ["token:bob"]
tools = ["echo"]
arguments = { "/text" = "[a-z]{1,5}" }

[[rules]]
name = "readers"
effect = "allow"
principals = ["token:bob"]
resources = ["book:/1", "book:/2", "book:/{n}"]
prompts = ["recommend"]
"#;

/// A host with access rules: alice may use everything but one tool, bob may use little.
async fn ruled() -> Host {
    let config = [stanza("alice", &["read"]), stanza("bob", &["read"]), RULES.to_owned()].concat();
    let components = [guests::plugin("probe"), guests::fixture("library")];
    Setup::new().with(&components).config(&config).start().await
}

pub async fn both(host: &Host) -> (Session, Session) {
    (host.session_of("alice").await, host.session_of("bob").await)
}

/// The names on all pages. No page is empty only because others see more (N-1).
async fn listed(session: &Session, method: &str, list: &str, member: &str) -> Vec<String> {
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let page = session.result(method, params.clone()).await;
        let entries = page[list].as_array().expect("a list");
        names.extend(entries.iter().map(|entry| entry[member].as_str().expect("a text").to_owned()));
        let Some(cursor) = page.get("nextCursor") else { return names };
        assert!(!entries.is_empty(), "{page}");
        params = json!({ "cursor": cursor });
    }
}

pub async fn post(session: &Session, method: &str, params: Value) -> Answer {
    session.post(&json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})).await
}

#[tokio::test]
async fn lists_show_what_the_caller_may_use_and_nothing_else() {
    let host = ruled().await;
    let (alice, bob) = both(&host).await;
    let tools = listed(&alice, "tools/list", "tools", "name").await;
    assert!(tools.contains(&"count".to_owned()) && !tools.contains(&"trap".to_owned()), "{tools:?}");
    assert_eq!(listed(&bob, "tools/list", "tools", "name").await, ["echo"]);
    assert_eq!(listed(&alice, "resources/list", "resources", "uri").await.len(), 5);
    assert_eq!(listed(&bob, "resources/list", "resources", "uri").await, ["book:/1", "book:/2"]);
    assert_eq!(listed(&bob, "prompts/list", "prompts", "name").await, ["recommend"]);
    assert_eq!(listed(&alice, "prompts/list", "prompts", "name").await, ["recommend", "unable"]);
    let templates = listed(&bob, "resources/templates/list", "resourceTemplates", "uriTemplate").await;
    assert_eq!(templates, ["book:/{n}"]);
}

/// The answer to a call, without the requested name.
async fn nameless(session: &Session, method: &str, params: Value, name: &str) -> (u16, String) {
    let answer = post(session, method, params).await;
    (answer.status.as_u16(), answer.text().await.replace(name, "NAME"))
}

#[tokio::test]
async fn what_is_denied_is_answered_like_what_does_not_exist() {
    let host = ruled().await;
    let (alice, bob) = both(&host).await;
    for task in [json!(null), json!({})] {
        let call = |name: &str| match &task {
            Value::Null => json!({"name": name, "arguments": {}}),
            task => json!({"name": name, "arguments": {}, "task": task}),
        };
        let unknown = nameless(&bob, "tools/call", call("nothing"), "nothing").await;
        assert_eq!(unknown.0, 200);
        assert!(unknown.1.contains("Unknown tool"), "{unknown:?}");
        for denied in ["wait", "trap", "confirm"] {
            assert_eq!(nameless(&bob, "tools/call", call(denied), denied).await, unknown, "{denied}");
        }
        assert_eq!(nameless(&alice, "tools/call", call("trap"), "trap").await, unknown);
    }
    let read = |uri: &str| json!({"uri": uri});
    let unknown = nameless(&bob, "resources/read", read("book:/2"), "book:/2").await;
    assert!(unknown.1.contains("-32002"), "{unknown:?}");
    for denied in ["book:/info", "book:/forbidden", "book:/3"] {
        assert_eq!(nameless(&bob, "resources/read", read(denied), denied).await, unknown, "{denied}");
    }
    assert_eq!(bob.result("resources/read", read("book:/1")).await["contents"][0]["text"], "the first");
    let complete = |name: &str| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "genre", "value": "1"}});
    let get = |name: &str| json!({"name": name, "arguments": {"genre": "crime"}});
    // No rule of this host asks for a scope, which would change the answers: a forbidden name and an unknown
    // one look the same.
    let host = Setup::new()
        .with(&[guests::fixture("library")])
        .config(
            &[stanza("bob", &[]), RULES.replace("scopes = [\"write\"]", "principals = [\"local\"]")].concat(),
        )
        .start()
        .await;
    let bob = host.session_of("bob").await;
    for (method, params) in
        [("prompts/get", &get as &dyn Fn(&str) -> Value), ("completion/complete", &complete)]
    {
        let unknown = nameless(&bob, method, params("nobody"), "nobody").await;
        assert!(unknown.1.contains("-32602"), "{unknown:?}");
        assert_eq!(nameless(&bob, method, params("unable"), "unable").await, unknown);
        assert!(bob.result(method, params("recommend")).await.is_object());
    }
}

#[tokio::test]
async fn a_3_where_a_scope_would_help_it_is_named_whether_the_thing_exists_or_not() {
    let host = ruled().await;
    let (_, bob) = both(&host).await;
    for (method, params) in [
        ("tools/call", json!({"name": "count", "arguments": {}})),
        ("tools/call", json!({"name": "imaginary", "arguments": {}})),
        ("tools/call", json!({"name": "count", "arguments": {}, "task": {}})),
        ("prompts/get", json!({"name": "unable", "arguments": {"genre": "x"}})),
        ("resources/read", json!({"uri": "book:/blob"})),
        ("resources/subscribe", json!({"uri": "book:/blob"})),
    ] {
        let answer = post(&bob, method, params).await;
        assert_eq!(answer.status, 403, "{method}");
        let challenge = answer.header("www-authenticate").to_owned();
        for part in ["Bearer ", "error=\"insufficient_scope\"", "scope=\"write\""] {
            assert!(challenge.contains(part), "{challenge}");
        }
        let body = answer.json().await;
        assert_eq!(body["id"], 7);
        assert_eq!(body["error"]["code"], -32600);
        assert_eq!(body["error"]["data"], json!({"requiredScopes": ["write"]}));
    }
    assert_eq!(bob.call("echo", json!({"text": "short"})).await["isError"], false);
    let too_long = json!({"name": "echo", "arguments": {"text": "abcdef"}});
    let denied = bob.error("tools/call", too_long).await;
    assert_eq!(denied["code"], -32602);
    assert_eq!(denied["message"], "The tool `echo` may not be called with these arguments");
    let seen = host.lines(&["tasks", "list", "--json"]).await;
    assert!(seen.is_empty(), "the host made no task for any of it: {seen:?}");
}

#[tokio::test]
async fn a_subscriber_hears_only_of_what_it_may_read() {
    let config = [
        stanza("alice", &[]),
        stanza("bob", &[]),
        "[[rules]]\neffect = \"allow\"\nprincipals = [\"token:alice\"]\ntools = [\"*\"]\nresources = [\"*\"]\n".into(),
        "[[rules]]\neffect = \"allow\"\nprincipals = [\"token:bob\"]\ntools = [\"*\"]\nresources = [\"test://public\"]\n".into(),
    ];
    let components = [guests::fixture("script"), guests::fixture("library")];
    let host = Setup::new().with(&components).config(&config.concat()).start().await;
    let (alice, bob) = both(&host).await;
    for uri in ["test://public", "test://secret"] {
        for session in [&alice, &bob] {
            assert_eq!(session.result("resources/subscribe", json!({"uri": uri})).await, json!({}));
        }
    }
    let (mut alice_hears, mut bob_hears) = (alice.listen().await, bob.listen().await);
    for uri in ["test://secret", "test://public"] {
        alice.call("script", json!({"steps": [{"changed": uri}]})).await;
    }
    let mut heard = vec![updated(&mut alice_hears).await];
    heard.push(updated(&mut alice_hears).await);
    heard.sort();
    assert_eq!(heard, ["test://public", "test://secret"]);
    assert_eq!(updated(&mut bob_hears).await, "test://public", "and nothing before it");
}

/// The URI of the next resource update that a client receives.
async fn updated(events: &mut toolyard_tests::http::Events) -> String {
    let message = next_of(events, "notifications/resources/updated").await;
    message["params"]["uri"].as_str().expect("a URI").to_owned()
}

/// The code and the output of `toolyard rules explain` with this configuration.
async fn explained(config: &str, args: &[&str]) -> (Option<i32>, String) {
    let setup = Setup::new().config(config);
    let output = run("rules", setup.folder(), &[&["explain"], args].concat()).await;
    (output.status.code(), out(&output) + &err(&output))
}

#[tokio::test]
async fn explain_says_which_rule_decides_and_why() {
    let config = [stanza("alice", &["read"]), stanza("wendy", &["write"]), RULES.to_owned()].concat();
    let explain = async |args: &[&str]| explained(&config, args).await;
    for (args, says) in [
        (&["token:alice", "echo"][..], "allowed: rule 2 (alice) says so"),
        (&["token:bob", "count"], "needs the scope write"),
        // The command knows the scopes of a token in the configuration.
        (&["token:wendy", "count"], "allowed: rule 3 (writers) says so"),
        (&["token:bob", "echo"], "Some rules look at arguments"),
        (
            &["token:bob", "echo", "--arguments", r#"{"text":"LONG"}"#],
            "the argument at `/text` does not match",
        ),
        (&["token:bob", "book:/1", "--resource"], "allowed: rule 5 (readers) says so"),
    ] {
        let (code, said) = explain(args).await;
        let expected = if said.contains("`: allowed") { 0 } else { 3 };
        assert!(code == Some(expected) && said.contains(says), "{args:?}: {code:?} {said}");
    }
    let (_, said) = explain(&["token:bob", "count", "--json"]).await;
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["decision"], &said["scopes"]), (&json!("needs-scopes"), &json!(["write"])));
    assert_eq!(said["steps"][2]["why"], "the token has not the scope write");
    assert_eq!(explain(&["alice", "echo"]).await.0, Some(2));
}

#[tokio::test]
async fn a_3_a_6_rules_read_the_issuer_the_claims_and_the_scopes_of_a_token() {
    let (provider, key) = IdentityProvider::of(Key::ec("one")).await;
    let issuer = provider.issuer();
    let rules = format!(
        "[[rules]]\neffect = \"allow\"\nprincipals = [\"{issuer}#*\"]\nclaims = {{ \"/groups\" = \"finance\" }}\n\
         tools = [\"echo\"]\n\
         [[rules]]\neffect = \"allow\"\nprincipals = [\"{issuer}#alice\"]\nscopes = [\"long\"]\ntools = [\"wait\"]\n"
    );
    let host = Setup::probe().config(&(provider.config() + &rules)).start().await;
    let token = |subject: &str, more: Value| {
        let mut claims = provider.claims(subject);
        for (name, value) in more.as_object().expect("claims") {
            claims[name] = value.clone();
        }
        key.sign(&claims)
    };
    let open = async |name: &str, more: Value| Session::open_with(host.port(), &token(name, more)).await;
    let finance = open("carol", json!({"groups": ["staff", "finance"]})).await;
    assert_eq!(listed(&finance, "tools/list", "tools", "name").await, ["echo"]);
    let staff = open("dave", json!({"groups": ["staff"]})).await;
    assert_eq!(listed(&staff, "tools/list", "tools", "name").await, [""; 0]);
    // Alice lacks a scope, and the host names it to her and to no other caller.
    let alice = open("alice", json!({})).await;
    let wait = || json!({"name": "wait", "arguments": {"ms": 1}});
    let answer = post(&alice, "tools/call", wait()).await;
    let challenge = answer.header("www-authenticate").to_owned();
    assert!(challenge.contains("scope=\"long\", resource_metadata=\"https://"), "{challenge}");
    assert_eq!(staff.error("tools/call", wait()).await["message"], "Unknown tool: wait");
    // With a better token she continues in the same session, and sees more tools.
    let better = alice.bearing(Some(&token("alice", json!({"scope": "tools long"}))));
    assert_eq!(better.call("wait", json!({"ms": 1})).await["isError"], false);
    assert_eq!(listed(&better, "tools/list", "tools", "name").await, ["wait"]);
    assert_eq!(post(&alice, "tools/call", wait()).await.status, 403, "the old token is no better for that");
}

/// The first block of TOML after this heading.
fn toml_after<'a>(page: &'a str, heading: &str) -> &'a str {
    let rest = &page[page.find(heading).expect("the heading")..];
    let (_, rest) = rest.split_once("```toml\n").expect("a block");
    rest.split_once("```").expect("its end").0
}

#[tokio::test]
async fn the_configurations_on_the_pages_are_valid() {
    let page = |name: &str| std::fs::read_to_string(guests::root().join(name)).expect("the page");
    let readme = page("README.md").replace("6d4c\u{2026}", &"0".repeat(64));
    let rules = page("host/docs/guides/secure/access-rules.md");
    for (config, args, says) in [
        (toml_after(&rules, "## Rules"), ["local", "jq"], "allowed: rule 4 says so"),
        (toml_after(&readme, "## Let others in"), ["token:ci", "read_note"], "allowed: rule 2 says so"),
        (toml_after(&readme, "## Let others in"), ["token:ci", "jq"], "denied: no rule allows it"),
    ] {
        let (_, said) = explained(config, &args).await;
        assert!(said.contains(says), "{said}");
    }
}
