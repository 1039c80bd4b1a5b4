use super::*;

fn resolve(text: &str) -> anyhow::Result<AuthSettings> {
    let auth: Auth = toml::from_str(text)?;
    auth.resolve(Path::new("/base"), &Limits::default())
}

const HASH: &str = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef";

#[test]
fn what_is_not_said_has_a_default() {
    let settings = resolve(
        "resource = \"https://tools.example.com/mcp\"\n[[issuers]]\nissuer = \"https://idp.example.com/r\"\n\
         [[issuers]]\nissuer = \"http://other.example.com\"\njwks-file = \"keys.json\"\naudience = [\"a\", \"b\"]\n\
         algorithms = [\"ES256\"]",
    )
    .expect("valid");
    assert_eq!(settings.leeway, Duration::from_secs(60));
    let [first, second] = settings.issuers.as_slice() else { panic!("two issuers") };
    assert_eq!(first.audience, ["https://tools.example.com/mcp"], "A-4: the resource is the audience");
    assert_eq!(first.algorithms.len(), Algorithm::ALL.len());
    assert!(matches!(&first.keys, KeySource::Metadata(at) if at.as_str() == "https://idp.example.com/r"));
    assert_eq!(second.audience, ["a", "b"]);
    assert!(matches!(&second.keys, KeySource::File(path) if path == Path::new("/base/keys.json")));
    let settings = resolve(&format!(
        "leeway = \"5s\"\n[[tokens]]\nname = \"ci\"\nsha256 = \"{HASH}\"\nexpires = \"2027-01-01T00:00:00Z\"\nscopes = [\"tools\"]"
    ))
    .expect("valid");
    assert_eq!(settings.tokens[0].sha256[..2], [0x01, 0x23]);
    assert_eq!(settings.tokens[0].expires, Some(Timestamp(1_798_761_600_000)));
    assert_eq!(settings.leeway, Duration::from_secs(5));
}

#[test]
fn a_4_what_would_weaken_the_check_is_refused_by_name() {
    let issuer = |more: &str| {
        format!("resource = \"https://t.example/mcp\"\n[[issuers]]\nissuer = \"https://i.example\"\n{more}")
    };
    let token = |more: &str| format!("[[tokens]]\nname = \"ci\"\n{more}");
    let hashed = |more: &str| token(&format!("sha256 = \"{HASH}\"\n{more}"));
    for (text, says) in [
        ("[[issuers]]\nissuer = \"https://i.example\"".to_owned(), "`auth.resource`"),
        ("resource = \"t.example\"".to_owned(), "`auth.resource`: expected a URL"),
        ("resource = \"https://t.example/#x\"".to_owned(), "without query and fragment"),
        (issuer("algorithms = [\"HS256\"]"), "expected some of RS256"),
        (issuer("algorithms = [\"none\"]"), "expected some of RS256"),
        (issuer("algorithms = []"), "expected at least one"),
        (issuer("jwks-url = \"http://i.example/k\""), "expected an https URL"),
        (issuer("jwks-url = \"https://i.example/k\"\njwks-file = \"k\""), "not both"),
        (issuer("jwks = \"k\""), "unknown field `jwks`"),
        (issuer("audience = [\"\"]"), "expected a text"),
        (issuer("[[issuers]]\nissuer = \"https://i.example\""), "listed twice"),
        (issuer("[[issuers]]\nissuer = \"http://j.example\""), "expected an https URL"),
        (issuer("[[issuers]]\nissuer = \"i\""), "expected a URL"),
        (token("token = \"secret\""), "`toolyard token ci`"),
        (token(""), "64 hexadecimal digits"),
        (token("sha256 = \"abc\""), "64 hexadecimal digits"),
        (token(&format!("sha256 = \"{}\"", &HASH.replace('0', "x"))), "64 hexadecimal digits"),
        (hashed("expires = \"soon\""), "expected a time"),
        (hashed("scopes = [\"a b\"]"), "expected scopes"),
        (hashed("local = true\nscopes = [\"a\"]"), "has no scopes"),
        (hashed(&format!("[[tokens]]\nname = \"b\"\nsha256 = \"{HASH}\"")), "same name or hash"),
        (format!("[[tokens]]\nname = \"a b\"\nsha256 = \"{HASH}\""), "`name`"),
        ("scopes = [\"a\\\"b\"]".to_owned(), "`auth.scopes`"),
        ("required-scopes = [\"\"]".to_owned(), "`auth.required-scopes`"),
        ("leeway = \"soon\"".to_owned(), "expected a duration"),
        ("tokens = [\"abc\"]".to_owned(), "a table [[auth.tokens]], which `toolyard token NAME` prints"),
        ("anonymous = true".to_owned(), "unknown field `anonymous`"),
    ] {
        let refusal = format!("{:#}", resolve(&text).expect_err(&text));
        assert!(refusal.contains(says), "{text}: {refusal}");
        assert!(!refusal.contains("secret"), "A-4: {refusal}");
    }
}
