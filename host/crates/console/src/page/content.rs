//! Results of tools: text, images, files, structured content.

use super::{json_tree, markdown};
use crate::html::error;
use crate::text::{block, line};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use serde_json::Value;
use toolyard_dispatch::RawJson;

/// A larger image is offered as a file (bytes).
const LARGEST_IMAGE: usize = 8 << 20;
/// The longest text that is shown (bytes).
const LONGEST_TEXT: usize = 64 << 10;

/// Shows a `CallToolResult`. `address` is where its files are: block N at `address/N`. Without one, files are only
/// named.
pub(super) fn result(result: &RawJson, address: Option<&str>) -> Markup {
    let Ok(value) = result.decode::<Value>() else {
        return html! { p.bad { "The result cannot be read." } };
    };
    let blocks = value["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let structured = value.get("structuredContent").filter(|structured| !structured.is_null());
    let shown = html! {
        @for (number, shown) in blocks.iter().enumerate() { (one(shown, address.map(|address| format!("{address}/{number}")).as_deref())) }
        @if blocks.is_empty() && structured.is_none() { p.muted { "The result is empty." } }
        @if let Some(structured) = structured { h3 { "Structured content" } (json_tree::of_value(structured)) }
    };
    if value["isError"] == true {
        error(html! { p { strong { "The tool reports an error" } } (shown) })
    } else {
        shown
    }
}

fn one(value: &Value, address: Option<&str>) -> Markup {
    match value["type"].as_str() {
        Some("text") => text(value["text"].as_str().unwrap_or_default()),
        Some("image") => match decoded(value).map(|bytes| (image_kind(&bytes), bytes.len())) {
            Some((Some(_), size)) if size <= LARGEST_IMAGE && address.is_some() => {
                html! { figure { img src=[address] alt="An image of the tool" loading="lazy"; } }
            }
            Some((_, size)) => saved(address, "image", size),
            None => unreadable(),
        },
        Some("audio") => decoded(value).map_or_else(unreadable, |bytes| saved(address, "sound", bytes.len())),
        Some("resource") => {
            let resource = &value["resource"];
            let uri = resource["uri"].as_str().unwrap_or_default();
            html! {
                p { "File " code { (line(uri)) } }
                @match resource["text"].as_str() {
                    Some(content) => (text(content)),
                    None => (decoded(resource).map_or_else(unreadable, |bytes| saved(address, "file", bytes.len()))),
                }
            }
        }
        Some("resource_link") => html! {
            p {
                "Link to " code { (line(value["uri"].as_str().unwrap_or_default())) }
                @if let Some(name) = value["title"].as_str().or(value["name"].as_str()) { ": " (line(name)) }
            }
        },
        _ => json_tree::of_value(value),
    }
}

/// A text as what it seems to be: JSON, Markdown or text.
fn text(text: &str) -> Markup {
    if text.len() > LONGEST_TEXT {
        return plain(text);
    }
    let is_json = text.trim_start().starts_with(['{', '[']);
    if let Some(value) = is_json.then(|| serde_json::from_str::<Value>(text).ok()).flatten() {
        return json_tree::of_value(&value);
    }
    match markdown::is_likely(text) {
        true => html! {
            (markdown::render(text))
            details.raw { summary { "As it was written" } (block(text)) }
        },
        false => block(text),
    }
}

fn plain(text: &str) -> Markup {
    let end = text.floor_char_boundary(LONGEST_TEXT);
    html! {
        (block(&text[..end]))
        @if end < text.len() { p.muted { "The first " (end) " of " (text.len()) " bytes." } }
    }
}

fn saved(address: Option<&str>, what: &str, size: usize) -> Markup {
    html! {
        @match address {
            Some(address) => p { a href=(address) download { "Save the " (what) } " (" (size) " bytes)" },
            None => p.muted { "One " (what) " of " (size) " bytes. Call the tool as a task to see or save it." },
        }
    }
}

fn unreadable() -> Markup {
    html! { p.bad { "This content cannot be read." } }
}

/// The bytes of a block, from base64.
fn decoded(value: &Value) -> Option<Vec<u8>> {
    let text = value["data"].as_str().or(value["blob"].as_str())?;
    STANDARD.decode(text).ok()
}

/// The type of an image that browsers show, by its first bytes. The media type that a tool gives is ignored. SVG is
/// not among them: it may contain scripts.
fn image_kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// A block of a result, as a file.
pub(super) struct File {
    pub kind: &'static str,
    pub bytes: Vec<u8>,
    pub is_image: bool,
}

/// The block of this number.
pub(super) fn file(result: &RawJson, number: usize) -> Option<File> {
    let value: Value = result.decode().ok()?;
    let value = value["content"].as_array()?.get(number)?;
    let source = if value["type"] == "resource" { &value["resource"] } else { value };
    let bytes = decoded(source)?;
    let image = image_kind(&bytes).filter(|_| bytes.len() <= LARGEST_IMAGE);
    Some(File { kind: image.unwrap_or("application/octet-stream"), is_image: image.is_some(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(value: Value) -> String {
        result(&RawJson::of(&value), Some("/tasks/7/content")).into_string()
    }

    #[test]
    fn an_image_is_shown_by_its_first_bytes_only() {
        let block =
            |bytes: &[u8]| json!({"type": "image", "mimeType": "image/png", "data": STANDARD.encode(bytes)});
        let png = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', 0];
        let svg = b"<svg onload=alert(1)>".as_slice();
        let both = json!({"content": [block(&png), block(svg)]});
        let page = shown(both.clone());
        assert!(page.contains("<img src=\"/tasks/7/content/0\""), "{page}");
        assert!(page.contains("href=\"/tasks/7/content/1\" download"), "{page}");
        let both = RawJson::of(&both);
        let kinds = [0, 1, 2].map(|number| file(&both, number).map(|file| (file.kind, file.is_image)));
        assert_eq!(kinds, [Some(("image/png", true)), Some(("application/octet-stream", false)), None]);
    }

    #[test]
    fn what_a_tool_says_is_text() {
        let page = shown(json!({"isError": true, "content": [
            {"type": "text", "text": "<script>alert(1)</script>\u{202e}"},
            {"type": "resource_link", "uri": "javascript:alert(1)", "name": "<b>"},
            {"type": "unknown", "x": "<i>"},
        ], "structuredContent": {"<k>": "<v>"}}));
        for tag in ["<script", "<b>", "<i>", "<k>", "<v>", "href", "\u{202e}"] {
            assert!(!page.contains(tag), "{tag} in {page}");
        }
        assert!(page.contains("The tool reports an error"));
    }
}
