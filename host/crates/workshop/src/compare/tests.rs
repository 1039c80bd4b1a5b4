//! Tests of comparing.

use super::*;
use serde_json::json;
use toolyard_dispatch::{RawJson, RpcError};

fn outcome(result: Value) -> Outcome {
    Outcome { ending: Ending::Result(RawJson::of(&result)), progress: 2 }
}

fn greeting() -> Outcome {
    outcome(json!({
        "content": [{"type": "text", "text": "Hello"}, {"type": "image"}, {"type": "text", "text": "World"}],
        "structuredContent": {"a": {"b": [1, 2.0], "c": null}},
        "isError": false,
    }))
}

fn keys(expect: &Expect, outcome: &Outcome) -> Vec<&'static str> {
    compare(expect, outcome).into_iter().map(|wrong| wrong.key).collect()
}

#[test]
fn what_is_as_expected_passes_and_what_is_not_is_named() {
    let of = |change: fn(&mut Expect)| {
        let mut expect = Expect::default();
        change(&mut expect);
        keys(&expect, &greeting())
    };
    assert!(of(|expect| expect.text = Some("Hello\nWorld".into())).is_empty());
    assert!(of(|expect| expect.text_contains = Some("lo\nWo".into())).is_empty());
    assert!(of(|expect| expect.structured = Some(json!({"a": {"c": null, "b": [1.0, 2]}}))).is_empty());
    assert!(of(|expect| expect.structured_contains = Some(json!({"a": {"b": [1, 2]}}))).is_empty());
    assert!(of(|expect| expect.progress = Some(2)).is_empty());
    assert_eq!(of(|expect| expect.text = Some("Hello World".into())), ["text"]);
    assert_eq!(of(|expect| expect.text = Some("Hello\nWorld\n".into())), ["text"], "exactly");
    assert_eq!(of(|expect| expect.text_contains = Some("hello".into())), ["text-contains"]);
    assert_eq!(of(|expect| expect.structured = Some(json!({"a": {"b": [1, 2]}}))), ["structured"]);
    for part in [json!({"a": {"b": [1]}}), json!({"a": {"d": null}}), json!([]), json!({"a": {"b": [2, 1]}})]
    {
        let expect = Expect { structured_contains: Some(part.clone()), ..Expect::default() };
        assert_eq!(keys(&expect, &greeting()), ["structured-contains"], "{part}");
    }
    assert_eq!(of(|expect| expect.is_error = Some(true)), ["is-error"]);
    assert_eq!(of(|expect| expect.progress = Some(3)), ["progress"]);
    assert_eq!(of(|expect| expect.error = Some(ExpectedError::default())), ["error"]);
}

#[test]
fn a_failure_that_nobody_expected_fails_whatever_else_fits() {
    let failed = outcome(json!({"content": [{"type": "text", "text": "no luck"}], "isError": true}));
    let text = Expect { text: Some("no luck".into()), ..Expect::default() };
    assert_eq!(keys(&text, &failed), ["is-error"]);
    assert!(compare(&text, &failed)[0].what.contains("no luck"), "and says why");
    assert!(keys(&Expect { is_error: Some(true), ..text }, &failed).is_empty());
}

#[test]
fn errors_are_held_against_code_and_message() {
    let error = Ending::Error(RpcError::new(-32602, "`n` is missing"));
    let outcome = Outcome { ending: error, progress: 0 };
    let of = |code, message: Option<&str>, part: Option<&str>| {
        let error =
            ExpectedError { code, message: message.map(Into::into), message_contains: part.map(Into::into) };
        keys(&Expect { error: Some(error), ..Expect::default() }, &outcome)
    };
    assert!(of(Some(-32602), Some("`n` is missing"), Some("missing")).is_empty());
    assert_eq!(
        of(Some(-32603), Some("n"), Some("x")),
        ["error.code", "error.message", "error.message-contains"]
    );
    assert_eq!(keys(&Expect::default(), &outcome), ["error"]);
    let stopped = Outcome { ending: Ending::Stopped, progress: 0 };
    assert_eq!(keys(&Expect::default(), &stopped), ["expect"]);
}

#[test]
fn numbers_are_compared_by_value_and_large_ones_exactly() {
    assert!(same(&json!(1), &json!(1.0)) && same(&json!([1e3]), &json!([1000])));
    assert!(!same(&json!(u64::MAX), &json!(u64::MAX - 1)));
    assert!(!same(&json!(1), &json!("1")) && !same(&json!(null), &json!(false)));
}

#[test]
fn a_difference_shows_what_differs_and_little_else_and_members_sorted() {
    let lines = |changed: &str| -> String {
        (0..50).map(|n| if n == 25 { format!("{changed}\n") } else { format!("{n}\n") }).collect()
    };
    let (one, other) = (lines("one"), lines("other"));
    let shown = diff(&one, &other, false).as_str().to_owned();
    assert!(shown.contains("- one\n") && shown.contains("+ other\n"), "{shown}");
    assert!(shown.lines().count() < 12 && !shown.contains('\u{1b}'), "{shown}");
    assert!(diff("a", "b", true).as_str().contains("\u{1b}[31m- a"));
    assert!(diff("a\n", "a", false).as_str().contains("only what was expected ends with a newline"));
    assert!(diff("a", "\u{1b}[2J", false).as_str().contains("\\u{1b}[2J"), "nothing steers the terminal");
    let value: Value = serde_json::from_str(r#"{"b":1,"a":{"d":1,"c":[]}}"#).expect("JSON");
    assert_eq!(pretty(&value), "{\n  \"a\": {\n    \"c\": [],\n    \"d\": 1\n  },\n  \"b\": 1\n}");
    let long: String = (0..5000).map(|n| format!("{n}\n")).collect();
    assert!(diff(&long, "", false).as_str().lines().count() < 210);
}
