//! JSON as nested elements that open and close without JavaScript.

use crate::text::line;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;
use serde_json::value::RawValue;
use toolyard_dispatch::RawJson;
use toolyard_protocol::{members, visible};

/// The most values that are shown.
const MAX_VALUES: usize = 2_000;
/// The members of one array or object that are shown.
const CHUNK: usize = 100;
/// The levels that are open at first.
const OPEN: usize = 2;
/// A larger value has no tree (bytes): each level of one is read again.
const MAX_TREE: usize = 256 << 10;
/// The beginning of a raw text that is shown (bytes).
const RAW: usize = 64 << 10;
/// A longer text is shown by its beginning (bytes).
const TEXT: usize = 4 << 10;

/// Shows a JSON text: numbers and texts as they are written.
pub(super) fn of(json: &RawJson) -> Markup {
    let mut left = MAX_VALUES;
    let has_tree = json.as_str().len() <= MAX_TREE;
    html! {
        @if has_tree { div.json { (node(None, json.as_str(), 0, &mut left)) } }
        @if left == 0 { p.muted { "Only the first " (MAX_VALUES) " values are shown." } }
        details.raw open[!has_tree] { summary { "Raw" } pre.text { (raw(json)) } }
    }
}

/// Shows a JSON text to its end.
pub(super) fn whole(json: &RawJson) -> Markup {
    html! { pre.text.whole { (visible::text(&json.pretty())) } }
}

/// Shows a JSON value.
pub(super) fn of_value(value: &Value) -> Markup {
    of(&RawJson::of(value))
}

fn raw(json: &RawJson) -> String {
    let text = json.as_str();
    let text = RawJson::trusted(text[..text.floor_char_boundary(RAW)].to_owned()).pretty();
    let end = text.floor_char_boundary(RAW);
    let cut = if json.as_str().len() > RAW || end < text.len() { "\n…" } else { "" };
    format!("{}{cut}", visible::text(&text[..end]))
}

/// The members of an object, or the items of an array, as they are written; `None` for anything else.
fn parts(json: &str) -> Option<Vec<(String, &str)>> {
    let mut parts = Vec::new();
    match json.as_bytes().first()? {
        b'{' => {
            members::each(json, |member| parts.push((member.text().unwrap_or_default(), member.value.get())))
                .ok()?
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            parts.extend(items.into_iter().enumerate().map(|(place, item)| (place.to_string(), item.get())));
        }
        _ => return None,
    }
    Some(parts)
}

fn node(name: Option<&str>, json: &str, depth: usize, left: &mut usize) -> Markup {
    if *left == 0 {
        return PreEscaped(String::new());
    }
    *left -= 1;
    let label = html! { @if let Some(name) = name { span.key { (line(name)) } ": " } };
    if let Some(parts) = parts(json).filter(|parts| !parts.is_empty()) {
        let more = parts.len().saturating_sub(CHUNK);
        let [begin, end] = if json.starts_with('{') { ["{", "}"] } else { ["[", "]"] };
        return html! {
            details open[depth < OPEN] {
                summary { (label) span.muted { (begin) (parts.len()) (end) } }
                ul {
                    @for (name, part) in parts.iter().take(CHUNK) { li { (node(Some(name), part, depth + 1, left)) } }
                    @if more > 0 { li.muted { (more) " more" } }
                }
            }
        };
    }
    let end = json.floor_char_boundary(TEXT);
    let kind = if json.starts_with('"') { "string" } else { "scalar" };
    html! {
        (label) span class=(kind) { (visible::line(&json[..end])) }
        @if end < json.len() { span.muted { " … " (json.len()) " bytes" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_large_value_is_shown_by_its_beginning() {
        let wide: Vec<_> = (0..300).map(|row| json!({"row": row, "cells": vec![0; 50]})).collect();
        let page = of_value(&json!(wide)).into_string();
        for shown in ["200 more", "Only the first 2000 values are shown."] {
            assert!(page.contains(shown), "{shown}: {page}");
        }
        let long = of_value(&json!("é".repeat(10_000))).into_string();
        assert!(long.contains(" … 20002 bytes"));
    }

    #[test]
    fn what_is_written_is_what_is_shown() {
        let text = r#"{"id":12345678901234567890123,"n":1e2,"version":"2.1\ntarget: staging","one":"1"}"#;
        let page = of(&RawJson::trusted(text)).into_string();
        for shown in
            ["12345678901234567890123<", ">1e2<", r"&quot;2.1\ntarget: staging&quot;", "&quot;1&quot;"]
        {
            assert!(page.contains(shown), "{shown}: {page}");
        }
    }

    #[test]
    fn a_value_of_many_levels_around_a_large_text_is_read_once() {
        let deep = format!("{}\"{}\"{}", "[".repeat(110), "x".repeat(7 << 20), "]".repeat(110));
        let page = of(&RawJson::trusted(deep)).into_string();
        assert!(page.len() < 200 << 10 && page.contains("<details class=\"raw\" open"));
        assert!(!page.contains("div class=\"json\""));
    }

    #[test]
    fn deep_levels_are_closed() {
        let page = of_value(&json!({"a": {"b": {"c": {"d": 1}}}})).into_string();
        assert_eq!(page.matches("<details open").count(), 2, "{page}");
    }
}
