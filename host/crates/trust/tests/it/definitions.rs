//! Definitions and the diff of their changes.

use serde_json::{Value, json};
use toolyard_trust::Digest;
use toolyard_trust::definition::{Definition, Effect, Kind, canonical, compare};

fn tool(name: &str, value: Value) -> Definition {
    Definition { kind: Kind::Tool, name: name.to_owned(), value }
}

fn fetch(description: &str) -> Definition {
    let schema = json!({"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]});
    tool("fetch", json!({"description": description, "inputSchema": schema}))
}

#[test]
fn equal_lists_in_any_order_have_no_changes_and_digests_are_over_the_canonical_form() {
    let definition = fetch("Fetches a page.");
    assert_eq!(definition.digest(), Digest::of(canonical(&definition.value).as_bytes()));
    let (a, b) = (fetch("a"), tool("b", json!({})));
    assert!(compare(&[a.clone(), b.clone()], &[b, a]).is_empty());
    assert!(compare(&[], &[]).is_empty());
    assert!(compare(&[tool("n", json!({"maximum": 1.0}))], &[tool("n", json!({"maximum": 1}))]).is_empty());
}

#[test]
fn each_changed_part_has_a_diff_with_the_lines_around() {
    let mut new = fetch("Fetches a page.");
    new.value["inputSchema"]["properties"]["token"] = json!({"type": "string"});
    assert_eq!(
        compare(&[fetch("Fetches a page.")], &[new]).to_string(),
        concat!(
            "tool fetch: inputSchema changed\n",
            "    {\n",
            "      \"properties\": {\n",
            "  +     \"token\": {\n",
            "  +       \"type\": \"string\"\n",
            "  +     },\n",
            "        \"url\": {\n",
            "          \"type\": \"string\"\n",
        )
    );
    let new = tool("fetch", json!({"title": "Fetch", "description": "b"}));
    let old = tool("fetch", json!({"description": "a", "annotations": {"readOnlyHint": true}}));
    assert_eq!(
        compare(&[old], &[new]).to_string(),
        concat!(
            "tool fetch: annotations changed\n",
            "  - {\n",
            "  -   \"readOnlyHint\": true\n",
            "  - }\n",
            "tool fetch: description changed\n",
            "  - a\n",
            "  + b\n",
            "tool fetch: title changed\n",
            "  + Fetch\n",
        )
    );
}

#[test]
fn added_and_removed_definitions_are_named_also_a_second_one_of_a_name() {
    let prompt = Definition { kind: Kind::Prompt, ..tool("fetch", json!({"description": "p"})) };
    let changes = compare(&[tool("gone", json!({}))], &[prompt, tool("new", json!({"description": "n"}))]);
    assert_eq!(
        changes.to_string(),
        "tool gone: removed\ntool new: added\n  description\n  + n\nprompt fetch: added\n  description\n  + p\n"
    );
    let effects: Vec<_> = changes.iter().map(|change| (change.kind, &*change.name, change.effect)).collect();
    assert_eq!(
        effects,
        [
            (Kind::Tool, "gone", Effect::Removed),
            (Kind::Tool, "new", Effect::Added),
            (Kind::Prompt, "fetch", Effect::Added)
        ]
    );
    let second = compare(&[fetch("a")], &[fetch("a"), fetch("evil")]);
    assert_eq!(second.iter().map(|change| change.effect).collect::<Vec<_>>(), [Effect::Added]);
}

#[test]
fn hidden_characters_are_shown() {
    let changes =
        compare(&[fetch("Fetches a page.")], &[fetch("Fetches a\u{200b} page.\u{1b}[2J\r\u{202e}")]);
    assert_eq!(
        changes.to_string(),
        "tool fetch: description changed\n  - Fetches a page.\n  + Fetches a\\u{200b} page.\\u{1b}[2J\\u{d}\\u{202e}\n"
    );
    let evil = tool("a\nb\u{202e}", json!({"x\u{7}": "y"}));
    let text = compare(&[], &[evil]).to_string();
    assert_eq!(text, "tool a\\u{a}b\\u{202e}: added\n  x\\u{7}\n  + y\n");
    let deep = compare(
        &[tool("t", json!({"a": {"k": "x"}}))],
        &[tool("t", json!({"a": {"k": "x\u{2066}\u{e0041}"}}))],
    );
    assert!(deep.to_string().contains("  +   \"k\": \"x\\u2066\\udb40\\udc41\""), "{deep}");
}

#[test]
fn long_texts_are_shown_and_definitions_that_are_not_objects_compared_whole() {
    let changes = compare(&[tool("t", json!("a"))], &[tool("t", json!({"a": 1}))]);
    assert_eq!(changes.to_string(), "tool t: definition changed\n  - a\n  + {\n  +   \"a\": 1\n  + }\n");
    let lines =
        |from: usize| (from..from + 2_000).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
    let text = compare(&[fetch(&lines(0))], &[fetch(&lines(1))]).to_string();
    assert_eq!(text.lines().count(), 4_001);
    assert!(text.lines().filter(|line| line.starts_with("  -")).count() == 2_000);
}
