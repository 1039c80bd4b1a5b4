//! JSON as nested elements that open and close without JavaScript.

use crate::text::line;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;
use toolyard_dispatch::RawJson;
use toolyard_protocol::visible;

/// The most values that are shown.
const MOST: usize = 2_000;
/// The members of one array or object that are shown.
const CHUNK: usize = 100;
/// The levels that are open at first.
const OPEN: usize = 2;
/// A longer text is shown by its beginning (bytes).
const TEXT: usize = 4 << 10;

/// Shows a JSON text.
pub(super) fn of(json: &RawJson) -> Markup {
    match json.decode::<Value>() {
        Ok(value) => of_value(&value),
        Err(_) => html! { p.bad { "This JSON cannot be read." } },
    }
}

/// Shows a JSON value.
pub(super) fn of_value(value: &Value) -> Markup {
    let mut left = MOST;
    html! {
        div.json { (node(None, value, 0, &mut left)) }
        @if left == 0 { p.muted { "Only the first " (MOST) " values are shown." } }
        details.raw { summary { "Raw" } pre.text { (raw(value)) } }
    }
}

fn raw(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let end = text.floor_char_boundary(64 << 10);
    let cut = if end < text.len() { "\n…" } else { "" };
    format!("{}{cut}", visible::text(&text[..end]))
}

fn node(name: Option<&str>, value: &Value, depth: usize, left: &mut usize) -> Markup {
    if *left == 0 {
        return PreEscaped(String::new());
    }
    *left -= 1;
    let label = html! { @if let Some(name) = name { span.key { (line(name)) } ": " } };
    match value {
        Value::Object(members) if !members.is_empty() => {
            let more = members.len().saturating_sub(CHUNK);
            html! {
                details open[depth < OPEN] {
                    summary { (label) span.muted { "{" (members.len()) "}" } }
                    ul {
                        @for (name, member) in members.iter().take(CHUNK) { li { (node(Some(name), member, depth + 1, left)) } }
                        @if more > 0 { li.muted { (more) " more" } }
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let more = items.len().saturating_sub(CHUNK);
            html! {
                details open[depth < OPEN] {
                    summary { (label) span.muted { "[" (items.len()) "]" } }
                    ul {
                        @for (number, item) in items.iter().take(CHUNK).enumerate() {
                            li { (node(Some(&number.to_string()), item, depth + 1, left)) }
                        }
                        @if more > 0 { li.muted { (more) " more" } }
                    }
                }
            }
        }
        Value::String(text) => {
            let end = text.floor_char_boundary(TEXT);
            html! {
                (label) span.string { (visible::text(&text[..end])) }
                @if end < text.len() { span.muted { " … " (text.len()) " bytes" } }
            }
        }
        other => html! { (label) span.scalar { (other.to_string()) } },
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
        assert!(
            page.contains("200 more") && page.contains("Only the first 2000 values are shown."),
            "{page}"
        );
        let long = of_value(&json!("é".repeat(10_000))).into_string();
        assert!(long.contains(" … 20000 bytes"));
    }

    #[test]
    fn deep_levels_are_closed() {
        let page = of_value(&json!({"a": {"b": {"c": {"d": 1}}}})).into_string();
        assert_eq!(page.matches("<details open").count(), 2, "{page}");
    }
}
