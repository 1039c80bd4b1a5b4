//! The rules against cases written by hand, and against a naive evaluator.

use super::*;
use crate::access::principal::Subject;
use crate::access::principal::tests::bare;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Rules as an operator writes them.
pub(super) fn rules(written: Value) -> AccessRules {
    let written: Vec<RuleSpec> = serde_json::from_value(written).expect("rules");
    AccessRules::new(written).expect("valid rules")
}

/// A rule that allows every tool, changed by these members.
fn allowing_with(members: Value) -> Value {
    let mut rule = json!({"effect": "allow", "tools": ["*"]});
    rule.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    rule
}

fn refusal(rule: Value) -> String {
    match serde_json::from_value::<Vec<RuleSpec>>(json!([rule])) {
        Ok(written) => AccessRules::new(written).expect_err("an invalid rule").to_string(),
        Err(error) => error.to_string(),
    }
}

fn subject(issuer: &str, name: &str, scopes: &[&str], claims: Value) -> Principal {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    Principal::Subject(Subject { client: Some("desk".into()), scopes, claims, ..bare(issuer, name) })
}

pub(super) fn alice() -> Principal {
    subject("https://idp.example", "alice", &["read"], json!({"groups": ["staff", "admins"], "level": 3}))
}

pub(super) fn tool(name: &str) -> Object<'_> {
    Object::Tool(name)
}

pub(super) fn args(value: &str) -> RawJson {
    // The arguments of a client that names something twice.
    RawJson::trusted(value.to_owned())
}

pub(super) fn is_allowed(decision: &Decision) -> bool {
    matches!(decision, Decision::Allowed(_))
}

#[test]
fn without_rules_everything_is_allowed_and_with_any_only_what_they_say() {
    assert_eq!(AccessRules::default().shows(&Principal::Anonymous, tool("x")), Decision::Allowed(None));
    let authority = rules(json!([{"effect": "allow", "tools": ["csv_*"]}]));
    assert_eq!(authority.shows(&alice(), tool("csv_profile")), Decision::Allowed(Some(0)));
    for denied in [tool("jq"), Object::Prompt("csv_profile"), Object::Resource("csv_profile:")] {
        assert_eq!(authority.shows(&alice(), denied), Decision::Denied(None));
    }
}

#[test]
fn a_6_principals_are_named_in_full_and_nobody_can_look_like_another() {
    let is_for = |pattern: &str, principal: &Principal| {
        let authority = rules(json!([{"effect": "allow", "tools": ["*"], "principals": [pattern]}]));
        is_allowed(&authority.shows(principal, tool("x")))
    };
    let named = |issuer: &str, name: &str| subject(issuer, name, &[], Value::Null);
    for (pattern, principal, expected) in [
        ("*", Principal::Anonymous, true),
        ("anonymous", Principal::Anonymous, true),
        ("anonymous", Principal::Local, false),
        ("local", Principal::Local, true),
        ("local", named("https://a.example", "local"), false),
        ("token:ci", named(Subject::TOKENS, "ci"), true),
        ("token:c*", named(Subject::TOKENS, "ci"), true),
        ("token:ci", named("https://a.example", "ci"), false),
        // A subject that ends like the pattern is not the pattern's subject.
        ("https://*#alice", named("https://a.example", "x#alice"), false),
        ("*#alice", named("https://b.example", "alice"), true),
        ("*#ci", named(Subject::TOKENS, "ci"), false),
        ("https://a.example#*", Principal::Anonymous, false),
    ] {
        assert_eq!(is_for(pattern, &principal), expected, "{pattern} for {principal}");
    }
}

#[test]
fn clients_and_claims_are_asked_for_as_well() {
    for (members, expected) in [
        (json!({"clients": ["desk"]}), true),
        (json!({"clients": ["other"]}), false),
        (json!({"claims": {"/groups": "admins"}}), true),
        (json!({"claims": {"/level": "[3-9]", "/groups": "st.*"}}), true),
        (json!({"claims": {"/level": "[3-9]", "/groups": "guests"}}), false),
        // The whole value, not a part of it.
        (json!({"claims": {"/groups": "admin"}}), false),
        (json!({"claims": {"/none": ".*"}}), false),
        (json!({"claims": {"": ".*"}}), false),
    ] {
        let authority = rules(json!([allowing_with(members.clone())]));
        assert_eq!(is_allowed(&authority.shows(&alice(), tool("x"))), expected, "{members}");
    }
}

#[test]
fn a_3_a_scope_that_would_help_is_named_and_one_that_would_not_is_not() {
    let authority = rules(json!([
        {"effect": "deny", "tools": ["secret_*"]},
        {"effect": "allow", "tools": ["write_*", "secret_*"], "scopes": ["read", "write"]},
        {"effect": "allow", "tools": ["read_*"], "scopes": ["read"]},
        {"effect": "allow", "tools": ["team_*"], "scopes": ["team"], "claims": {"/groups": "guests"}},
    ]));
    let of = |name: &str| authority.shows(&alice(), tool(name));
    assert_eq!(of("write_x"), Decision::NeedsScopes(vec!["write".to_owned()]));
    assert_eq!(of("read_x"), Decision::Allowed(Some(2)));
    assert_eq!(of("secret_x"), Decision::Denied(Some(0)));
    assert_eq!(of("team_x"), Decision::Denied(None));
    // A client without a token cannot get a better one.
    assert_eq!(authority.shows(&Principal::Anonymous, tool("write_x")), Decision::Denied(None));
}

#[test]
fn conditions_on_arguments_look_at_whole_values() {
    let allow =
        rules(json!([{"effect": "allow", "tools": ["open"], "arguments": {"/path": "/data/[a-z/]+"}}]));
    let deny = rules(json!([
        {"effect": "deny", "tools": ["open"], "arguments": {"/path": "/etc/.*"}},
        {"effect": "allow", "tools": ["*"]},
    ]));
    for (arguments, by_allow, by_deny) in [
        (r#"{"path":"/data/a"}"#, true, true),
        (r#"{"path":"/etc/passwd"}"#, false, false),
        (r#"{"path":"/x/data/a"}"#, false, true),
        (r#"{"path":"/data/a\n/etc/passwd"}"#, false, true),
        (r#"{"path":["/data/a","/data/b"]}"#, true, true),
        // Of several values, all must be allowed, and none denied.
        (r#"{"path":["/data/a","/etc/passwd"]}"#, false, false),
        (r#"{"path":{"x":[["/etc/passwd"]]}}"#, false, false),
        (r#"{"path":[]}"#, false, true),
        (r"{}", false, true),
        (r#"{"path":5}"#, false, true),
        (r#"{"path":null}"#, false, true),
        (r#"{"path":["/data/a",null]}"#, true, true),
        // A name that occurs twice: the guest may read the other one.
        (r#"{"path":"/data/a","path":"/data/b"}"#, false, false),
        (r#"{"path":"/data/a","x":{"y":1,"y":1}}"#, false, false),
        (r#"{"path":"\u002fdata/a"}"#, true, true),
        (r#"{"p\u0061th":"/etc/passwd"}"#, false, false),
    ] {
        let ask =
            |authority: &AccessRules| is_allowed(&authority.allows(&alice(), tool("open"), &args(arguments)));
        assert_eq!((ask(&allow), ask(&deny)), (by_allow, by_deny), "{arguments}");
    }
    // Lists show objects that are allowed with some arguments.
    assert!(is_allowed(&allow.shows(&alice(), tool("open"))));
    assert!(is_allowed(&deny.shows(&alice(), tool("open"))));
}

#[test]
fn a_resource_that_is_written_in_a_roundabout_way_is_denied() {
    let authority = rules(json!([
        {"effect": "deny", "resources": ["notes://secret/*"]},
        {"effect": "allow", "resources": ["notes://*", "books://{isbn}"]},
    ]));
    for (uri, expected) in [
        ("notes://public/a", true),
        ("notes://secret/a", false),
        ("notes://public/../secret/a", false),
        ("notes://public/%2e%2E/secret/a", false),
        ("notes://public/.%2e%2fsecret/a", false),
        ("notes://public/./a", false),
        ("notes://public/a..b", true),
        ("notes://public/a?x=../b", true),
        ("notes://{name}", true),
        ("books://{isbn}", true),
    ] {
        assert_eq!(is_allowed(&authority.shows(&alice(), Object::Resource(uri))), expected, "{uri}");
    }
}

#[test]
fn a_rule_that_cannot_be_used_is_refused_with_its_place_and_key() {
    for (written, says) in [
        (json!({"tools": null}), "rule 1 (rule 1): `tools`: a rule is about"),
        (json!({"effect": "maybe"}), "unknown variant `maybe`"),
        (json!({"tool": ["*"]}), "unknown field `tool`"),
        (json!({"name": "mine", "tools": []}), "rule 1 (mine): `tools`: an empty list"),
        (json!({"tools": ["a{"]}), "`tools`: error parsing glob"),
        (json!({"principals": ["alice"]}), "`principals`: `alice` names no principal"),
        (json!({"scopes": ["a b"]}), "`scopes`: `a b` is not a scope"),
        (json!({"claims": {"groups": "x"}}), "`groups` is not a JSON pointer"),
        (json!({"claims": {"/~2": "x"}}), "`/~2` is not a JSON pointer"),
        (json!({"arguments": {"/a": "("}}), "`arguments`: `/a`: regex parse error"),
        (json!({"arguments": {"/a": "x)|(?:y"}}), "regex parse error"),
        (json!({"tools": null, "prompts": ["*"], "arguments": {"/a": "x"}}), "for rules about `tools` alone"),
    ] {
        let refusal = refusal(allowing_with(written.clone()));
        assert!(refusal.contains(says), "{written}: {refusal}");
    }
    let many = vec![json!({"effect": "allow", "tools": ["*"]}); MAX_RULES + 1];
    let many: Vec<RuleSpec> = serde_json::from_value(json!(many)).expect("rules");
    assert!(AccessRules::new(many).expect_err("too many").to_string().contains("more than 256 rules"));
}

#[test]
fn every_step_to_a_decision_can_be_told() {
    let authority = rules(json!([
        {"effect": "deny", "tools": ["admin_*"]},
        {"effect": "allow", "tools": ["x"], "principals": ["token:ci"]},
        {"effect": "allow", "tools": ["x"], "scopes": ["write"]},
        {"effect": "allow", "tools": ["x"], "arguments": {"/n": "1"}},
        {"effect": "allow", "tools": ["x"]},
        {"effect": "deny", "tools": ["x"]},
    ]));
    let alice = alice();
    let steps = authority.explain(&alice, tool("x"), Some(&args(r#"{"n":2}"#)));
    let misses: Vec<_> = steps.iter().map(|step| step.miss.clone()).collect();
    let (scopes, argument) =
        (Mismatch::Scopes(vec!["write".to_owned()]), Mismatch::Argument("/n".to_owned()));
    let expected = [Mismatch::Object, Mismatch::Principal, scopes, argument].map(Some);
    assert_eq!(misses, [&expected[..], &[None]].concat());
}

#[test]
fn nobody_is_asked_for_a_list_of_which_nothing_would_be_shown() {
    let authority = rules(json!([
        {"effect": "deny", "resources": ["*"], "principals": ["anonymous"]},
        {"effect": "allow", "resources": ["notes:*"], "principals": ["local"]},
        {"effect": "allow", "tools": ["*"]},
    ]));
    assert!(authority.may_show_any(&Principal::Local, ObjectKind::Resource));
    assert!(!authority.may_show_any(&Principal::Anonymous, ObjectKind::Resource));
    assert!(!authority.may_show_any(&Principal::Local, ObjectKind::Prompt));
    assert!(authority.may_show_any(&Principal::Anonymous, ObjectKind::Tool));
    assert!(AccessRules::default().may_show_any(&Principal::Anonymous, ObjectKind::Prompt));
}

/// Decides by trial: with the scopes of the principal, then with those of each rule added, without any
/// of the shortcuts above.
mod naive {
    use super::*;

    /// `*` and `?`, by trying every way.
    pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.first(), text.first()) {
            (None, None) => true,
            (Some(b'*'), _) => glob(&pattern[1..], text) || (!text.is_empty() && glob(pattern, &text[1..])),
            (Some(b'?'), Some(_)) => glob(&pattern[1..], &text[1..]),
            (Some(one), Some(other)) => one == other && glob(&pattern[1..], &text[1..]),
            _ => false,
        }
    }

    fn any(patterns: &[String], text: &str) -> bool {
        patterns.iter().any(|pattern| glob(pattern.as_bytes(), text.as_bytes()))
    }

    fn holds(rule: &RuleSpec, who: &Subject, scopes: &BTreeSet<String>, name: &str, value: &str) -> bool {
        any(rule.tools.as_deref().unwrap_or_default(), name)
            && rule.principals.as_ref().is_none_or(|patterns| {
                patterns.iter().any(|pattern| match pattern.split_once('#') {
                    Some((issuer, subject)) => {
                        any(&[issuer.to_owned()], &who.issuer) && any(&[subject.to_owned()], &who.subject)
                    }
                    None => pattern == "*",
                })
            })
            && rule.scopes.iter().all(|scope| scopes.contains(scope))
            && rule.claims.iter().all(|(_, wanted)| who.claims["team"] == wanted.as_str())
            && rule.arguments.iter().all(|(_, wanted)| value == wanted)
    }

    fn first(rules: &[RuleSpec], who: &Subject, scopes: &BTreeSet<String>, name: &str, value: &str) -> bool {
        let first = rules.iter().find(|rule| holds(rule, who, scopes, name, value));
        first.is_some_and(|rule| rule.effect == Effect::Allow)
    }

    /// Yes, yes with more scopes, or no.
    pub fn decide(rules: &[RuleSpec], who: &Subject, name: &str, value: &str) -> &'static str {
        if rules.is_empty() || first(rules, who, &who.scopes, name, value) {
            return "allowed";
        }
        let helps = |rule: &&RuleSpec| {
            let more: BTreeSet<String> = who.scopes.union(&rule.scopes).cloned().collect();
            rule.effect == Effect::Allow
                && more != who.scopes
                && holds(rule, who, &more, name, value)
                && first(rules, who, &more, name, value)
        };
        if rules.iter().any(|rule| helps(&rule)) { "scopes" } else { "denied" }
    }
}

fn some<T: Clone + std::fmt::Debug + 'static>(of: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(of)
}

fn texts(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(some(of).prop_map(str::to_owned), 1..3)
}

fn set(of: &'static [&'static str]) -> impl Strategy<Value = BTreeSet<String>> {
    proptest::collection::btree_set(some(of).prop_map(str::to_owned), 0..3)
}

fn pair(key: &'static str, of: &'static [&'static str]) -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::option::weighted(0.3, some(of))
        .prop_map(move |value| value.map(|value| (key.to_owned(), value.to_owned())).into_iter().collect())
}

fn any_rule() -> impl Strategy<Value = RuleSpec> {
    const PRINCIPALS: &[&str] =
        &["*", "https://a#*", "https://a#alice", "https://*#bob", "*#a?ice", "anonymous", "token:alice"];
    (
        some(&[Effect::Allow, Effect::Deny]),
        proptest::option::weighted(0.6, texts(PRINCIPALS)),
        set(&["read", "write", "admin"]),
        pair("/team", &["red", "blue"]),
        texts(&["*", "a*", "*b", "ab", "?b", "b"]),
        pair("/value", &["1", "2"]),
    )
        .prop_map(|(effect, principals, scopes, claims, tools, arguments)| {
            let bare = serde_json::from_value(json!({"effect": "deny"})).expect("a rule");
            RuleSpec { effect, principals, scopes, claims, tools: Some(tools), arguments, ..bare }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_decide_as_a_naive_evaluator_does(
        written in proptest::collection::vec(any_rule(), 0..8),
        issuer in some(&["https://a", "https://b"]),
        name in some(&["alice", "bob"]),
        scopes in set(&["read", "write", "admin"]),
        team in some(&["red", "blue"]),
        called in some(&["ab", "a", "b", "cb"]),
        value in some(&["1", "2"]),
    ) {
        let who = Subject { scopes, claims: json!({"team": team}), ..bare(issuer, name) };
        let expected = naive::decide(&written, &who, called, value);
        let authority = AccessRules::new(written).expect("valid rules");
        let principal = Principal::Subject(who);
        let arguments = args(&json!({"value": value}).to_string());
        let decision = authority.allows(&principal, tool(called), &arguments);
        let found = match &decision {
            Decision::Allowed(_) => "allowed",
            Decision::NeedsScopes(scopes) => {
                prop_assert!(!scopes.is_empty());
                "scopes"
            }
            Decision::Denied(_) => "denied",
        };
        prop_assert_eq!(found, expected);
        // An object that is allowed with some arguments is shown.
        if is_allowed(&decision) {
            prop_assert!(is_allowed(&authority.shows(&principal, tool(called))));
            prop_assert!(authority.may_show_any(&principal, ObjectKind::Tool));
        }
    }
}
