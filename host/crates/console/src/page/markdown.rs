//! Markdown of tools. HTML in it is shown as text, nothing is loaded from elsewhere, and links tell their target
//! nothing.

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{Event, Options, Parser, Tag};
use toolyard_protocol::visible;

/// The most elements within each other. Deeper ones are shown without their element.
const DEEPEST: usize = 16;

/// Whether a text looks like Markdown.
pub(super) fn is_likely(text: &str) -> bool {
    let is_marked = |line: &str| {
        let line = line.trim_start();
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len() && heading.starts_with(' '))
            || ["- ", "* ", "1. ", "```", "> "].iter().any(|mark| line.starts_with(mark))
    };
    text.contains("**") || text.contains("](") || text.lines().any(is_marked)
}

/// The rendered text.
pub(super) fn render(text: &str) -> Markup {
    let mut out = String::new();
    // The ends of the open elements.
    let mut open: Vec<&'static str> = Vec::new();
    for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH) {
        match event {
            Event::Start(tag) => {
                let (begin, end) = if open.len() < DEEPEST { element(&tag) } else { (String::new(), "") };
                out.push_str(&begin);
                open.push(end);
            }
            Event::End(_) => out.push_str(open.pop().unwrap_or_default()),
            Event::Code(text) => out.push_str(&html! { code { (visible::line(&text)) } }.into_string()),
            Event::SoftBreak => out.push('\n'),
            Event::HardBreak => out.push_str("<br>"),
            Event::Rule => out.push_str("<hr>"),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => out.push_str(&escaped(&text)),
            Event::TaskListMarker(is_done) => out.push_str(if is_done { "☑ " } else { "☐ " }),
        }
    }
    html! { div.markdown { (PreEscaped(out)) } }
}

fn escaped(text: &str) -> String {
    html! { (visible::text(text)) }.into_string()
}

/// The begin and the end of an element.
fn element(tag: &Tag<'_>) -> (String, &'static str) {
    let plain = |begin: &str, end| (begin.to_owned(), end);
    match tag {
        Tag::Paragraph => plain("<p>", "</p>"),
        // The page has headings of its own.
        Tag::Heading { .. } => plain("<p><strong>", "</strong></p>"),
        Tag::BlockQuote(_) => plain("<blockquote>", "</blockquote>"),
        Tag::CodeBlock(_) => plain("<pre class=\"text\">", "</pre>"),
        Tag::List(None) => plain("<ul>", "</ul>"),
        Tag::List(Some(_)) => plain("<ol>", "</ol>"),
        Tag::Item => plain("<li>", "</li>"),
        Tag::Emphasis => plain("<em>", "</em>"),
        Tag::Strong => plain("<strong>", "</strong>"),
        Tag::Strikethrough => plain("<del>", "</del>"),
        Tag::Link { dest_url, .. } => link(dest_url, ""),
        // An image is not loaded: that would tell its server who reads.
        Tag::Image { dest_url, .. } => link(dest_url, "image: "),
        _ => plain("", ""),
    }
}

fn link(target: &str, before: &str) -> (String, &'static str) {
    let lower = target.to_ascii_lowercase();
    let is_safe = ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
        && target.chars().all(|character| !character.is_control());
    if !is_safe {
        return (format!("{before}<span>"), "</span>");
    }
    let target = html! { (target) }.into_string();
    let begin =
        format!("{before}<a href=\"{target}\" title=\"{target}\" rel=\"noopener noreferrer nofollow\">");
    (begin, "</a>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_recognised_and_plain_text_is_left_alone() {
        for text in ["# Title", "a\n- b", "**bold**", "[a](https://e.example)", "```\ncode\n```", "1. one"] {
            assert!(is_likely(text), "{text}");
        }
        for text in ["plain", "#hashtag", "a-b", "2 * 3", "total: 5 > 4", ""] {
            assert!(!is_likely(text), "{text}");
        }
    }

    #[test]
    fn text_and_links_become_elements() {
        let shown =
            render("# Plan\n\n- **one** `a<b`\n- [two](https://e.example/?a=1&b=\"2\")").into_string();
        for part in [
            "<p><strong>Plan</strong></p>",
            "<strong>one</strong> <code>a&lt;b</code>",
            "<a href=\"https://e.example/?a=1&amp;b=&quot;2&quot;\"",
            "rel=\"noopener noreferrer nofollow\"",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn a_hostile_text_makes_no_element_of_its_own() {
        let hostile = "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n[a](javascript:alert(1)) \
            [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) ![d](https://e.example/pixel.png) \u{202e}[e](//e.example)";
        let shown = render(hostile).into_string();
        for part in ["<script", "<img", "javascript:", "href=\"data:", "href=\"//", "\u{202e}"] {
            assert!(!shown.to_ascii_lowercase().contains(part), "{part} in {shown}");
        }
        assert!(shown.contains("image: <a href=\"https://e.example/pixel.png\""), "{shown}");
    }

    #[test]
    fn a_deep_text_has_a_bounded_depth_and_every_element_ends() {
        let shown = render(&"> ".repeat(1_000)).into_string();
        assert!(shown.matches("<blockquote>").count() <= DEEPEST);
        let nested = format!("{}x", "- ".repeat(200));
        let shown = render(&nested).into_string();
        for name in ["ul", "li", "blockquote", "p"] {
            let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
            assert_eq!(shown.matches(&begin).count(), shown.matches(&end).count(), "{shown}");
        }
    }
}
