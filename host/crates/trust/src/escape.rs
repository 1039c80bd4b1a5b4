//! Foreign text for the terminal of a reviewer.

use std::borrow::Cow;

/// Whether a character is invisible, reorders a line, or controls a terminal. Joiners and variation selectors count too:
/// in the diff of a review, two texts that differ must look different.
pub(crate) fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            // Tags, and the selectors that carry hidden bytes.
            | '\u{e0000}'..='\u{e0fff}')
}

/// Shows control, bidirectional and zero-width characters as `\u{…}`. Line feeds are control characters.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match is_hidden(char) {
            true => out.extend(char.escape_unicode()),
            false => out.push(char),
        }
    }
    Cow::Owned(out)
}

/// The most characters of foreign text in an error.
const MAX_BRIEF: usize = 200;

/// The beginning of foreign text, for an error.
pub(crate) fn brief(text: &str) -> String {
    match text.char_indices().nth(MAX_BRIEF) {
        None => escape(text).into_owned(),
        Some((end, _)) => format!("{}…", escape(text.get(..end).unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bidirectional_and_zero_width_characters_alone_are_shown() {
        for hidden in
            "\0\u{7}\u{1b}\t\r\n\u{7f}\u{85}\u{9b}\u{61c}\u{200b}\u{200d}\u{200e}\u{202a}\u{202e}\u{2028}\
            \u{2060}\u{2066}\u{2069}\u{fe00}\u{fe0f}\u{feff}\u{e0041}\u{e0100}"
                .chars()
        {
            let shown = format!("a\\u{{{:x}}}b", u32::from(hidden));
            assert_eq!(escape(&format!("a{hidden}b")), shown);
        }
        for text in ["", "plain", "grüße", "שלום", "日本語", "“quote” – ok"] {
            assert!(matches!(escape(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn errors_have_the_beginning_of_foreign_text() {
        assert_eq!(brief("a\u{202e}"), "a\\u{202e}");
        assert_eq!(brief(&"é".repeat(MAX_BRIEF)), "é".repeat(MAX_BRIEF));
        assert_eq!(brief(&"é".repeat(1 << 20)), format!("{}…", "é".repeat(MAX_BRIEF)));
    }
}
