//! Completes the names of notes.

use toolyard_plugin::completion::Completions;

use crate::folder::Note;

/// The most values in a completion.
const MOST: usize = 100;

/// The names that begin with `typed`: first those that match exactly, then those that match in another case.
/// Within each group, the latest change comes first.
pub fn complete(notes: &[Note], typed: &str) -> Completions {
    let folded = typed.to_lowercase();
    let mut fitting: Vec<(bool, &Note)> = notes
        .iter()
        .filter(|note| note.name.as_str().to_lowercase().starts_with(&folded))
        .map(|note| (!note.name.as_str().starts_with(typed), note))
        .collect();
    fitting.sort_by(|(one_folded, one), (other_folded, other)| {
        let by_fit = one_folded.cmp(other_folded);
        by_fit.then(other.modified.cmp(&one.modified)).then_with(|| one.name.cmp(&other.name))
    });
    let total = fitting.len();
    let values = fitting.into_iter().take(MOST).map(|(_, note)| note.name.as_str().to_owned()).collect();
    Completions { values, total: u32::try_from(total).ok(), has_more: total > MOST }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::name::Name;

    fn note(name: &str, modified: u64) -> Note {
        let modified = Some(UNIX_EPOCH + Duration::from_secs(modified));
        Note { name: Name::of_file(name).expect("a name"), size: 0, modified }
    }

    #[test]
    fn what_fits_to_the_letter_comes_first_and_then_what_is_newest() {
        let notes = [note("Tea.md", 9), note("tea.md", 1), note("team.md", 5), note("steam.md", 7)];
        let found = complete(&notes, "tea");
        assert_eq!(found.values, ["team.md", "tea.md", "Tea.md"]);
        assert_eq!((found.total, found.has_more), (Some(3), false));
        assert_eq!(complete(&notes, "").values[0], "Tea.md");
        assert!(complete(&notes, "x").values.is_empty());
    }

    #[test]
    fn a_hundred_at_most() {
        let notes: Vec<Note> = (0..101).map(|n| note(&format!("{n}.md"), n)).collect();
        let found = complete(&notes, "");
        assert_eq!((found.values.len(), found.total, found.has_more), (100, Some(101), true));
    }
}
