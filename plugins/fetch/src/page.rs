//! The page: its type, its encoding, and the conversion of HTML to text.

use encoding_rs::{Encoding, UTF_8};
use htmd::{HtmlToMarkdown, Node};
use markup5ever_rcdom::NodeData;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// The number of bytes in which a `meta` element may name the encoding.
const PROLOGUE: usize = 1 << 10;

/// The format that HTML is converted to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Markdown,
    Text,
    Raw,
}

/// The type of a page.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    Html,
    Text,
    Image(String),
    Other,
}

/// The type of a page with this `Content-Type`, which may be empty.
pub fn kind(content_type: &str, body: &[u8]) -> Kind {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.split_once('/') {
        Some(("text", "html")) | Some(("application", "xhtml+xml")) => Kind::Html,
        Some(("image", "svg+xml")) => Kind::Text,
        Some(("image", _)) => Kind::Image(essence),
        Some(("text", _)) => Kind::Text,
        Some(("application", name)) if is_text(name) => Kind::Text,
        Some(_) => Kind::Other,
        None if body.contains(&0) => Kind::Other,
        None if starts_as_html(body) => Kind::Html,
        None => Kind::Text,
    }
}

fn is_text(name: &str) -> bool {
    matches!(name, "json" | "xml" | "javascript" | "yaml" | "toml" | "x-ndjson" | "sql" | "graphql")
        || name.ends_with("+json")
        || name.ends_with("+xml")
        || name.ends_with("+yaml")
}

fn starts_as_html(body: &[u8]) -> bool {
    let begin = String::from_utf8_lossy(&body[..body.len().min(PROLOGUE)]).trim_start().to_ascii_lowercase();
    begin.starts_with("<!doctype html") || begin.starts_with("<html")
}

/// Decodes a page by its byte order mark, its `Content-Type`, a `meta` element of HTML, or else as UTF-8.
pub fn decode(content_type: &str, body: &[u8], is_html: bool) -> String {
    let named = charset(content_type).or_else(|| {
        let prologue = String::from_utf8_lossy(&body[..body.len().min(PROLOGUE)]);
        is_html.then(|| charset(&prologue)).flatten()
    });
    named.unwrap_or(UTF_8).decode(body).0.into_owned()
}

fn charset(text: &str) -> Option<&'static Encoding> {
    let lower = text.to_ascii_lowercase();
    let after = lower.split_once("charset=")?.1.trim_start_matches(['"', '\'', ' ']);
    let end = after.find(|char: char| !(char.is_ascii_alphanumeric() || "-_:.".contains(char)));
    Encoding::for_label(&after.as_bytes()[..end.unwrap_or(after.len())])
}

/// Converts HTML to text. Also returns its title.
pub fn convert(html: &str, format: Format) -> (String, Option<String>) {
    let converter = HtmlToMarkdown::builder()
        .skip_tags(vec!["head", "script", "style", "noscript", "template", "iframe", "svg"])
        .build();
    let Ok(tree) = converter.html_to_tree(html) else { return (html.to_owned(), None) };
    let title = title(&tree);
    let text = match format {
        Format::Raw => html.to_owned(),
        Format::Markdown => converter.tree_to_markdown(&tree),
        Format::Text => {
            let mut text = String::new();
            gather(&tree, &mut text);
            tidy(&text)
        }
    };
    (text, title)
}

fn tag(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        _ => None,
    }
}

fn title(node: &Rc<Node>) -> Option<String> {
    if tag(node) == Some("body") {
        return None;
    }
    if tag(node) == Some("title") {
        let mut text = String::new();
        node.children.borrow().iter().for_each(|child| gather(child, &mut text));
        let words: Vec<&str> = text.split_whitespace().collect();
        return (!words.is_empty()).then(|| words.join(" "));
    }
    node.children.borrow().iter().find_map(title)
}

fn gather(node: &Rc<Node>, text: &mut String) {
    if let NodeData::Text { contents } = &node.data {
        text.push_str(&contents.borrow());
        return;
    }
    let tag = tag(node).unwrap_or_default();
    if matches!(tag, "head" | "script" | "style" | "noscript" | "template" | "iframe" | "svg") {
        return;
    }
    let is_inline = matches!(
        tag,
        "" | "a"
            | "abbr"
            | "b"
            | "bdi"
            | "bdo"
            | "cite"
            | "code"
            | "data"
            | "del"
            | "dfn"
            | "em"
            | "font"
            | "i"
            | "ins"
            | "kbd"
            | "label"
            | "mark"
            | "q"
            | "s"
            | "samp"
            | "small"
            | "span"
            | "strong"
            | "sub"
            | "sup"
            | "time"
            | "tt"
            | "u"
            | "var"
            | "wbr"
    );
    // A line feed in the source is only white space.
    let edge = if is_inline { "" } else { "\u{0}" };
    text.push_str(edge);
    node.children.borrow().iter().for_each(|child| gather(child, text));
    text.push_str(edge);
}

/// One line for each block, with one space between words.
fn tidy(text: &str) -> String {
    let lines = text.split('\u{0}').map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<!DOCTYPE html><html><head><title> A\n page </title><style>p{}</style></head><body>\
        <script>let x = '<p>';</script><h1>Hello</h1><p>Some <b>bold</b>\nwords &amp; a <a href='/x'>link</a>.</p>\
        <ul><li>one</li><li>two</li></ul></body></html>";

    #[test]
    fn html_becomes_markdown_or_text_or_stays() {
        let (markdown, title) = convert(PAGE, Format::Markdown);
        assert_eq!(title.as_deref(), Some("A page"));
        for part in ["# Hello", "**bold**", "[link](/x)"] {
            assert!(markdown.contains(part), "{markdown}");
        }
        assert!(!markdown.contains("let x") && !markdown.contains("p{}"), "{markdown}");
        let (text, _) = convert(PAGE, Format::Text);
        assert_eq!(text, "Hello\nSome bold words & a link.\none\ntwo");
        assert_eq!(convert(PAGE, Format::Raw).0, PAGE);
        assert_eq!(convert("<p>no title</p>", Format::Text), ("no title".to_owned(), None));
    }

    #[test]
    fn kinds_are_told_by_their_type_and_else_by_their_look() {
        for (content_type, body, kind_of_it) in [
            ("text/html; charset=utf-8", &b""[..], Kind::Html),
            ("Application/XHTML+XML", b"", Kind::Html),
            ("text/plain", b"<html>", Kind::Text),
            ("application/json", b"", Kind::Text),
            ("application/problem+json", b"", Kind::Text),
            ("application/rss+xml", b"", Kind::Text),
            ("image/svg+xml", b"", Kind::Text),
            ("image/PNG", b"", Kind::Image("image/png".into())),
            ("application/pdf", b"", Kind::Other),
            ("application/octet-stream", b"text", Kind::Other),
            ("", b"  <!DOCTYPE HTML>", Kind::Html),
            ("", b"plain", Kind::Text),
            ("", b"\x00\x01", Kind::Other),
        ] {
            assert_eq!(kind(content_type, body), kind_of_it, "{content_type}");
        }
    }

    #[test]
    fn characters_are_read_as_they_are_said_to_be() {
        for (content_type, body, text) in [
            ("text/plain", "caf\u{e9}".as_bytes(), "caf\u{e9}"),
            ("text/plain; charset=ISO-8859-1", b"caf\xe9", "caf\u{e9}"),
            ("text/plain; charset=\"windows-1252\"", b"\x80", "\u{20ac}"),
            ("text/html", b"<meta charset='shift_jis'>\x82\xa0", "<meta charset='shift_jis'>\u{3042}"),
            ("text/plain; charset=nonsense", b"a\xff", "a\u{fffd}"),
            ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xa9", "\u{e9}"),
        ] {
            assert_eq!(decode(content_type, body, content_type == "text/html"), text, "{content_type}");
        }
    }
}
