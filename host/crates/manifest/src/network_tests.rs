//! Tests of `[http]`, `[sockets]` and `[secrets]`.

use super::*;

use ::http::Method;

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    Manifest::parse("p.toml", text, &Limits::default())
}

#[test]
fn all_that_is_granted_of_the_network() {
    let text = r#"
[http]
allow = [
    "api.example.com",
    { host = "api.example.com", port = 8443, methods = ["GET", "POST"], scheme = "https" },
    { host = "intranet.corp", private = true },
    { host = "*.example.org", grant = "ask" },
    { host = "a.example.org", grant = "always" },
]
[http.inject."api.example.com"]
Authorization = "Bearer {API_KEY}"
X-Plain = "plain"
[sockets]
tcp = ["10.0.0.5:6379", { to = "db.corp:5432", private = true }]
udp = ["1.1.1.1:53"]
[secrets]
API_KEY = { env = "EXAMPLE_API_KEY" }
FILE = { file = "./api.key", expose = true }
"#;
    let manifest = parse(text).expect("valid");
    let [bare, long, private, asked, own] = &manifest.http.rules[..] else { panic!("{manifest:?}") };
    assert_eq!((bare.written.port, bare.written.scheme, bare.private), (None, None, false));
    assert_eq!((long.written.port, long.written.scheme), (Some(8443), Some(Scheme::Https)));
    assert_eq!(long.methods, [Method::GET, Method::POST]);
    assert!(private.private);
    let by = [bare, long, private, asked, own].map(|rule| rule.by);
    let operator = GrantedBy::Operator;
    assert_eq!(by, [operator, operator, operator, GrantedBy::Person, operator]);
    let [injection] = &manifest.http.injections[..] else { panic!("{manifest:?}") };
    assert_eq!(injection.headers[0].name, "authorization");
    assert_eq!(manifest.http.secrets().map(|(name, _)| name).collect::<Vec<_>>(), ["API_KEY"]);
    assert_eq!(manifest.sockets.tcp[0].to_string(), "10.0.0.5:6379");
    assert!(manifest.sockets.tcp[1].private);
    assert_eq!(manifest.sockets.udp.len(), 1);
    assert_eq!(manifest.secrets[0].source, Source::Variable("EXAMPLE_API_KEY".into()));
    assert_eq!((manifest.secrets[0].expose, manifest.secrets[0].line), (None, Some(17)));
    assert_eq!(manifest.secrets[1].source, Source::File("./api.key".into()));
    assert_eq!(manifest.secrets[1].expose, Some(true));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (text, line, says) in [
        ("[http]\nalow = []", 2, &["`http.alow`", "`allow`"][..]),
        ("[http]\nallow = \"x\"", 2, &["`http.allow`", "an array"]),
        ("[http]\nallow = [\n\"a.example\",\n\"b/c\"]", 4, &["`http.allow[1]`", "paths and users"]),
        ("[http]\nallow = [5]", 2, &["`http.allow[0]`", "text in quotes"]),
        ("[http]\nallow = [{ port = 1 }]", 2, &["no `host`"]),
        ("[http]\nallow = [{ host = \"a:1\", port = 1 }]", 2, &["`http.allow[0].port`", "already"]),
        ("[http]\nallow = [{ host = \"a\", port = 0 }]", 2, &["from 1 to 65535"]),
        ("[http]\nallow = [{ host = \"a\", grant = \"yes\" }]", 2, &["`http.allow[0].grant`", "\"ask\""]),
        ("[http]\nallow = [{ host = \"a\", methods = [] }]", 2, &["grant nothing"]),
        ("[http]\nallow = [{ host = \"a\", methods = [\"get\"] }]", 2, &["methods[0]`", "\"GET\""]),
        ("[http]\nallow = [{ host = \"a\", method = [] }]", 2, &["`methods`"]),
        ("[http]\nallow = [{ host = \"*\", private = true }]", 2, &["every network"]),
        ("[http]\nallow = [\"bücher.example\"]", 2, &["xn--"]),
        ("[http.inject.\"a.example\"]\nX = \"{K}\"", 1, &["`http.inject.a.example`", "not in `http.allow`"]),
        (
            "[http]\nallow = [\"*.a.example\"]\n[http.inject.\"*.a.example\"]\nX = \"1\"",
            3,
            &["goes to one host"],
        ),
        (
            "[http]\nallow = [\"a.example\"]\n[http.inject.\"a.example\"]\nX = \"{K}\"",
            4,
            &["`http.inject.a.example.X`", "`x`", "`{K}`", "not in `secrets`"],
        ),
        (
            "[http]\nallow = [\"a.example\"]\n[http.inject.\"a.example\"]\nHost = \"x\"",
            4,
            &["connection's own"],
        ),
        ("[http]\nallow = [\"a.example\"]\n[http.inject.\"a.example\"]\nX = \"{K\"", 4, &["without a `}`"]),
        ("[sockets]\ntcp = [\"a.example\"]", 2, &["`sockets.tcp[0]`", "no port"]),
        ("[sockets]\ntpc = []", 2, &["`sockets.tpc`", "`tcp`"]),
        ("[sockets]\ntcp = [{ to = \"1.1.1.1:1\", private = true }]", 2, &["is for names"]),
        (
            "[secrets]\nK = { env = \"A\", file = \"b\" }",
            2,
            &["`secrets.K`", "more than one of `env`, `file` and `command`"],
        ),
        ("[secrets]\nK = { env = \"A\", command = \"b\" }", 2, &["`secrets.K`", "more than one of"]),
        ("[secrets]\nK = { command = \"\" }", 2, &["`secrets.K.command`", "the name of a command"]),
        ("[secrets]\nK = {}", 2, &["none of `env`, `file` and `command`"]),
        ("[secrets]\n\"a b\" = { env = \"A\" }", 2, &["letters, digits"]),
        ("[secrets]\nK = { evn = \"A\" }", 2, &["`env`"]),
        ("[secrets]\nK = \"the value\"", 2, &["a table"]),
        ("[env]\nK = \"x\"\n[secrets]\nK = { env = \"A\" }", 2, &["`env.K`", "`K` is in `secrets` as well"]),
    ] {
        let error = parse(text).expect_err(text);
        let shown = error.to_string();
        assert_eq!(error.line, Some(line), "{text}: {shown}");
        for word in says {
            assert!(shown.contains(word), "{text}: {shown}");
        }
        assert!(!shown.contains("the value"), "{shown}");
    }
}
