//! Foreign text for a message, a terminal or a log: it is shortened, and characters that control a terminal, reorder a
//! line, or are invisible are shown as escapes, such as `\u{1b}`.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// The first `most` characters of a text from outside, for use in a message.
#[must_use]
pub fn clip(text: &str, most: usize) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() { head + "…" } else { head }
}

/// Text over several lines: tabs and line feeds stay, as does the carriage return before a
/// line feed.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    escaped(text, Form::Lines)
}

/// Text within one line, such as a field or a cell of a table: line ends and tabs are shown
/// too.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, Form::Line)
}

/// A JSON text that means the same, with escapes of JSON.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    escaped(text, Form::Json)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Line,
    Json,
}

fn escaped(text: &str, form: Form) -> Cow<'_, str> {
    // Most text is plain ASCII.
    let is_plain = |byte: u8| match byte {
        b'\n' | b'\t' => form != Form::Line,
        byte => matches!(byte, b' '..=b'~'),
    };
    let Some(first) = text.bytes().position(|byte| !is_plain(byte)) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    let mut before = text[..first].chars().next_back();
    let mut rest = text[first..].chars();
    while let Some(char) = rest.next() {
        let after = rest.as_str().chars().next();
        let stays = match char {
            '\n' | '\t' => form != Form::Line,
            '\r' => form == Form::Json || (form == Form::Lines && after == Some('\n')),
            // Joins letters of some scripts, and the parts of emoji.
            '\u{200c}' | '\u{200d}' => joins(before) && joins(after),
            char => !is_unsafe(char),
        };
        match stays {
            true => out.push(char),
            // Writing to a String does not fail.
            false => drop(escape(&mut out, char, form)),
        }
        before = Some(char);
    }
    Cow::Owned(out)
}

/// Whether a joiner next to this character has a function.
pub(crate) fn joins(char: Option<char>) -> bool {
    char.is_some_and(|char| !char.is_ascii() && !is_unsafe(char))
}

fn escape(out: &mut String, char: char, form: Form) -> fmt::Result {
    match form {
        Form::Json => {
            for unit in char.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            Ok(())
        }
        Form::Lines | Form::Line => write!(out, "{}", char.escape_default()),
    }
}

/// Whether a character controls a terminal (C0, DEL, C1), reorders or ends a line, or takes no space,
/// so that different texts look alike or text is hidden in other text.
#[must_use]
pub fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            // Tags, and the selectors that carry hidden bytes.
            | '\u{e0000}'..='\u{e0fff}')
}

/// Writes what is formatted into it as [`line`] shows it.
#[derive(Debug)]
pub struct Line<W>(pub W);

impl<W: Write> Write for Line<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(&line(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_or_hides_is_shown() {
        let unsafe_chars = "\u{1b}\u{7}\0\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\
            \u{202a}\u{202e}\u{2066}\u{2069}\u{200b}\u{200d}\u{feff}\u{e0041}\u{e0100}";
        let shown = unsafe_chars.chars().map(|char| (char, format!("\\u{{{:x}}}", u32::from(char))));
        for (char, shown) in shown.chain([('\r', "\\r".to_owned())]) {
            assert_eq!(text(&format!("a{char}b")), format!("a{shown}b"));
            assert_eq!(line(&format!("a{char}b")), format!("a{shown}b"));
        }
        assert_eq!(text("a\tb\nc\r\nd"), "a\tb\nc\r\nd");
        assert_eq!(line("a\tb\nc\r\nd"), "a\\tb\\nc\\r\\nd");
    }

    #[test]
    fn ordinary_text_of_any_script_stays() {
        for plain in ["plain", "grüße", "שלום", "日本語", "👩‍🚀 ok", "می‌خواهم", "❤️", "naïve — “quote”", ""]
        {
            assert_eq!(text(plain), plain);
            assert_eq!(line(plain), plain);
        }
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"a\u{9b}": "x\u{1b}\u{202e}\u{e0041}\n\u{7f}", "b": ["👩‍🚀", 1]});
        let exact = value.to_string();
        let shown = json(&exact);
        assert!(!shown.chars().any(|char| is_unsafe_but_joiners(char) || char == '\u{200c}'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
    }

    fn is_unsafe_but_joiners(char: char) -> bool {
        is_unsafe(char) && !matches!(char, '\u{200c}' | '\u{200d}')
    }

    proptest::proptest! {
        #[test]
        fn nothing_unsafe_is_left(given in "\\PC{0,8}[\\u{0}-\\u{ff}\\u{2000}-\\u{2070}\\u{e0000}-\\u{e01ff}]{0,8}") {
            let shown = line(&given);
            proptest::prop_assert!(!shown.chars().any(is_unsafe_but_joiners));
            let shown = text(&given);
            let rest: String = shown.replace("\r\n", "").replace(['\n', '\t'], "");
            proptest::prop_assert!(!rest.chars().any(is_unsafe_but_joiners));
        }
    }
}
