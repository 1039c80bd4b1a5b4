//! Tests of `[http]`, `[sockets]` and `[secrets]`.

use super::*;

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (text, line, says) in [
        ("[http]\nallow = \"x\"", 2, &["`http.allow`", "an array"][..]),
        ("[http]\nallow = [\n\"a.example\",\n\"b/c\"]", 4, &["`http.allow[1]`", "paths and users"]),
        ("[http]\nallow = [5]", 2, &["`http.allow[0]`", "text in quotes"]),
        ("[http]\nallow = [{ port = 1 }]", 2, &["no `host`"]),
        ("[http]\nallow = [{ host = \"a:1\", port = 1 }]", 2, &["`http.allow[0].port`", "already"]),
        ("[http]\nallow = [{ host = \"a\", port = 0 }]", 2, &["from 1 to 65535"]),
        ("[http]\nallow = [{ host = \"a\", grant = \"yes\" }]", 2, &["`http.allow[0].grant`", "\"ask\""]),
        ("[http]\nallow = [{ host = \"a\", methods = [] }]", 2, &["grant nothing"]),
        ("[http]\nallow = [{ host = \"a\", methods = [\"get\"] }]", 2, &["methods[0]`", "\"GET\""]),
        ("[http]\nallow = [{ host = \"*\", private = true }]", 2, &["every network"]),
        ("[http]\nallow = [\"bücher.example\"]", 2, &["xn--"]),
        ("[http.inject.\"a.example\"]\nX = \"{K}\"", 1, &["`http.inject.a.example`", "not in `http.allow`"]),
        ("[http]\nallow = [\"*.a.b\"]\n[http.inject.\"*.a.b\"]\nX = \"1\"", 3, &["goes to one host"]),
        ("[sockets]\ntcp = [\"a.example\"]", 2, &["`sockets.tcp[0]`", "no port"]),
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
        ("[secrets]\nK = \"the value\"", 2, &["a table such as { env = \"KEY\" }"]),
        ("[env]\nK = \"x\"\n[secrets]\nK = { env = \"A\" }", 2, &["`env.K`", "`K` is in `secrets` as well"]),
    ] {
        let shown = tests::refused(text, line, says);
        assert!(!shown.contains("the value"), "{shown}");
    }
    let allowed = "[http]\nallow = [\"a.example\"]\n[http.inject.\"a.example\"]\n";
    for (header, says) in [
        ("X = \"{K}\"", &["`http.inject.a.example.X`", "`x`", "`{K}`", "not in `secrets`"][..]),
        ("Host = \"x\"", &["connection's own"]),
        ("X = \"{K\"", &["without a `}`"]),
    ] {
        tests::refused(&format!("{allowed}{header}"), 4, says);
    }
}
