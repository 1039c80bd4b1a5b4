//! Finds lines that contain every word of a query.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::folder::{self, Fault};
use crate::name::Name;

/// Longer lines are shortened, in characters.
const LONGEST_LINE: usize = 200;
/// The number of notes between two progress reports.
const STEP: usize = 16;

/// The matches.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Found {
    matches: Vec<Match>,
    /// The number of notes searched.
    searched: usize,
    /// The number of notes that were too large or not readable.
    skipped: usize,
    /// Whether there are more matches.
    more: bool,
    #[serde(skip)]
    skipped_names: Vec<Name>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Match {
    name: String,
    /// The URI of the note as a resource.
    uri: String,
    #[schemars(range(min = 1))]
    line: usize,
    /// The line, shortened if it is long.
    text: String,
}

/// Searches the notes in the order of their names. `step` receives the number of notes done and the total,
/// and returns whether to stop.
pub fn search(
    root: &Path,
    query: &str,
    limit: usize,
    step: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Found, Fault> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    if words.is_empty() {
        return Err(Fault::Refused("The query has no words.".to_owned()));
    }
    let notes = folder::notes(root)?;
    let mut found = Found::default();
    for (index, note) in notes.iter().enumerate() {
        if index % STEP == 0 && index > 0 && step(index, notes.len()) {
            return Err(Fault::Refused("The search was stopped.".to_owned()));
        }
        let Ok(bytes) = folder::read(root, &note.name) else {
            found.skipped += 1;
            found.skipped_names.push(note.name.clone());
            continue;
        };
        found.searched += 1;
        for (line, text) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            let folded = text.to_lowercase();
            if !words.iter().all(|word| folded.contains(word)) {
                continue;
            }
            if found.matches.len() == limit {
                found.more = true;
                return Ok(found);
            }
            let (name, uri) = (note.name.as_str().to_owned(), note.name.uri());
            found.matches.push(Match { name, uri, line: line + 1, text: cut(text) });
        }
    }
    if notes.len() > STEP {
        step(notes.len(), notes.len());
    }
    Ok(found)
}

fn cut(line: &str) -> String {
    let line = line.trim();
    let mut characters = line.chars();
    let mut cut: String = characters.by_ref().take(LONGEST_LINE).collect();
    if characters.next().is_some() {
        cut.push('…');
    }
    cut
}

impl Found {
    /// The result as text.
    pub fn text(&self) -> String {
        let line = |Match { name, line, text, .. }: &Match| format!("{name}:{line}: {text}\n");
        let mut text: String = self.matches.iter().map(line).collect();
        if self.matches.is_empty() {
            text.push_str(&format!("Nothing found in {} notes.\n", self.searched));
        }
        if self.more {
            text.push_str("There is more; ask for more with `limit`, or for less with another word.\n");
        }
        if self.skipped > 0 {
            let names: Vec<&str> = self.skipped_names.iter().map(Name::as_str).take(10).collect();
            text.push_str(&format!(
                "Too large or not readable: {} notes, such as {}.\n",
                self.skipped,
                names.join(", ")
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(notes: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (name, bytes) in notes {
            std::fs::write(root.path().join(name), bytes).expect("writes");
        }
        root
    }

    fn lines(found: &Found) -> Vec<(&str, usize, &str)> {
        found.matches.iter().map(|found| (found.name.as_str(), found.line, found.text.as_str())).collect()
    }

    fn quiet(root: &Path, query: &str, limit: usize) -> Result<Found, Fault> {
        search(root, query, limit, &mut |_, _| false)
    }

    #[test]
    fn a_line_holds_every_word_in_any_order_and_case() {
        let root =
            with(&[("b.md", b"# Shop\n  milk and BREAD \nmilk"), ("a.md", "Brot\n\u{c4}pfel\n".as_bytes())]);
        let found = quiet(root.path(), "bread  Milk", 10).expect("searched");
        assert_eq!(lines(&found), [("b.md", 2, "milk and BREAD")]);
        assert_eq!((found.searched, found.more), (2, false));
        assert_eq!(
            lines(&quiet(root.path(), "\u{e4}PFEL", 10).expect("searched")),
            [("a.md", 2, "\u{c4}pfel")]
        );
        assert!(lines(&quiet(root.path(), "tea", 10).expect("searched")).is_empty());
        assert!(matches!(quiet(root.path(), " \n", 10), Err(Fault::Refused(_))));
    }

    #[test]
    fn matches_are_cut_at_the_limit_and_lines_at_their_length() {
        let long = "x ".repeat(500);
        let root = with(&[("a.md", long.as_bytes()), ("b.md", b"x\nx")]);
        let found = quiet(root.path(), "x", 2).expect("searched");
        assert!(found.more);
        assert_eq!(found.matches[0].text.chars().count(), LONGEST_LINE + 1);
        assert!(!quiet(root.path(), "x", 3).expect("searched").more);
    }

    #[test]
    fn what_is_not_utf_8_is_searched_and_what_is_too_large_is_counted() {
        let large = vec![b'x'; folder::LARGEST as usize + 1];
        let root = with(&[("latin.md", b"caf\xe9 menu"), ("large.md", &large)]);
        let found = quiet(root.path(), "menu", 5).expect("searched");
        assert_eq!(lines(&found), [("latin.md", 1, "caf\u{fffd} menu")]);
        assert!(found.text().ends_with("1 notes, such as large.md.\n"), "{}", found.text());
        let object = json!(found);
        assert_eq!((&object["searched"], &object["skipped"]), (&json!(1), &json!(1)));
        assert_eq!(object["matches"][0]["uri"], "notes:///latin.md");
    }

    #[test]
    fn many_notes_give_signs_of_life_and_can_be_stopped() {
        let names: Vec<String> = (0..40).map(|n| format!("{n}.md")).collect();
        let root = with(&names.iter().map(|name| (name.as_str(), &b"x"[..])).collect::<Vec<_>>());
        let mut seen = Vec::new();
        search(root.path(), "y", 1, &mut |done, of| {
            seen.push((done, of));
            false
        })
        .expect("searched");
        assert_eq!(seen, [(16, 40), (32, 40), (40, 40)]);
        assert!(search(root.path(), "y", 1, &mut |_, _| true).is_err());
    }
}
