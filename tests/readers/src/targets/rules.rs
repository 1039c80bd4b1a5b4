//! Unusual rules, principals, names and arguments: none causes a panic, and the host allows nothing that no
//! rule allows.

use serde::Deserialize;
use std::collections::BTreeSet;
use toolyard_dispatch::rules::{AccessRules, Decision, Effect, Object, RuleSpec};
use toolyard_dispatch::{Principal, RawJson, Subject};

#[derive(Deserialize)]
struct Input {
    rules: Vec<RuleSpec>,
    issuer: String,
    subject: String,
    scopes: BTreeSet<String>,
    claims: serde_json::Value,
    name: String,
    /// Text, because it need not be JSON for our parser.
    arguments: String,
}

/// The part of an input that the reader with a budget receives.
pub(super) fn arguments(data: &[u8]) -> Option<String> {
    serde_json::from_slice(data).ok().map(|input: Input| input.arguments)
}

pub(super) fn check(data: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Input>(data) else { return };
    let any_rule = !input.rules.is_empty();
    let Ok(authority) = AccessRules::new(input.rules) else { return };
    let Ok(arguments) = RawJson::parse(input.arguments) else { return };
    let principal = Principal::Subject(Subject {
        issuer: input.issuer,
        subject: input.subject,
        client: None,
        scopes: input.scopes,
        claims: input.claims,
        expires_at: None,
    });
    for object in [Object::Tool(&input.name), Object::Resource(&input.name), Object::Prompt(&input.name)] {
        let shown = authority.shows(&principal, object);
        let decision = authority.allows(&principal, object, &arguments);
        for decision in [&shown, &decision] {
            match decision {
                Decision::Allowed(None) => assert!(!any_rule, "allowed by no rule"),
                Decision::Allowed(Some(place)) => {
                    assert_eq!(authority.rules()[*place].effect, Effect::Allow, "allowed by a denial");
                }
                Decision::NeedsScopes(scopes) => assert!(!scopes.is_empty(), "needs nothing"),
                Decision::Denied(_) => {}
            }
        }
        if matches!(decision, Decision::Allowed(_)) {
            assert!(matches!(shown, Decision::Allowed(_)), "allowed, but not shown");
            assert!(authority.may_show_any(&principal, object.kind()));
        }
        let steps = authority.explain(&principal, object, Some(&arguments));
        let is_last = steps.iter().rev().skip(1).all(|step| step.miss.is_some());
        assert!(is_last, "a rule that decides is the last");
    }
}
