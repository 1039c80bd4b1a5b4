//! The names of notes, and their URIs.

use crate::folder::Fault;

/// The longest name, in bytes.
const LONGEST: usize = 128;
const ENDING: &str = ".md";
const SCHEME: &str = "notes:///";

/// The name of a note: a file directly in the folder, never a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

/// Whether a character has no look of its own: a name with it would look like another one.
fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

impl Name {
    /// The name of a file, if it is a valid note name.
    pub fn of_file(name: &str) -> Option<Self> {
        let fits = name.len() <= LONGEST
            && name.len() > ENDING.len()
            && name.ends_with(ENDING)
            && !name.starts_with('.')
            && !name.contains(['/', '\\'])
            && !name.chars().any(is_invisible);
        fits.then(|| Self(name.to_owned()))
    }

    /// The name that a caller gave; `.md` may be omitted.
    pub fn of_argument(name: &str) -> Result<Self, Fault> {
        let whole = if name.ends_with(ENDING) { name.to_owned() } else { format!("{name}{ENDING}") };
        Self::of_file(&whole).ok_or_else(|| {
            Fault::Refused(format!(
                "A note's name has at most {LONGEST} bytes with its ending {ENDING}, does not begin with a dot, \
                 and has no slashes and no invisible characters."
            ))
        })
    }

    /// The name in a URI of this plugin.
    pub fn of_uri(uri: &str) -> Option<Self> {
        Self::of_file(&decoded(uri.strip_prefix(SCHEME)?)?)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The note's URI.
    pub fn uri(&self) -> String {
        let mut uri = SCHEME.to_owned();
        for byte in self.0.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                uri.push(char::from(byte));
            } else {
                uri.push_str(&format!("%{byte:02X}"));
            }
        }
        uri
    }
}

/// Decodes percent-encoding; `None` if it is malformed or not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        out.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_files_of_the_folder_itself() {
        for name in ["a.md", "Zoë & co.md", "a.b.md", "x..md", &format!("{}.md", "x".repeat(125))] {
            assert!(Name::of_file(name).is_some(), "{name}");
        }
        let paths = "|.md|a|a.txt|.hidden.md|../a.md|/a.md|a/b.md|a\\b.md";
        let hidden = "a\n.md|a\0.md|a\u{202e}gpj.md|a\u{200b}.md|\u{feff}a.md";
        let long = format!("{}.md", "x".repeat(126));
        for name in paths.split('|').chain(hidden.split('|')).chain([long.as_str()]) {
            assert!(Name::of_file(name).is_none(), "{name:?}");
        }
    }

    #[test]
    fn the_ending_may_be_left_out_by_a_caller() {
        assert_eq!(Name::of_argument("todo").ok(), Name::of_file("todo.md"));
        assert_eq!(Name::of_argument("todo.md").ok(), Name::of_file("todo.md"));
        for name in ["", "../x", ".x", "a/b"] {
            assert!(matches!(Name::of_argument(name), Err(Fault::Refused(_))), "{name}");
        }
    }

    #[test]
    fn uris_and_names_are_the_same_thing() {
        for (name, uri) in [
            ("a.md", "notes:///a.md"),
            ("a b.md", "notes:///a%20b.md"),
            ("é%?#.md", "notes:///%C3%A9%25%3F%23.md"),
        ] {
            let name = Name::of_file(name).expect("a name");
            assert_eq!(name.uri(), uri);
            assert_eq!(Name::of_uri(uri), Some(name));
        }
        let uris = "notes:///..%2Fa.md notes:///%2e%2e%2Fa.md notes:///a%2.md notes:///%ff.md notes:///%00.md \
            notes://a.md file:///a.md";
        for uri in uris.split(' ') {
            assert_eq!(Name::of_uri(uri), None, "{uri}");
        }
    }
}
