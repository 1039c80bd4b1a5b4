//! Pages of resources. A cursor is the last name of the page before it, so notes that are created or removed
//! between two pages neither repeat nor hide others.

use std::path::Path;

use serde_json::json;
use toolyard_plugin::resources::{Entry, Page};

use crate::MARKDOWN;
use crate::folder::{self, Fault, Note};
use crate::moment;

/// The number of notes on one page.
const PAGE: usize = 100;

/// The page after `cursor`.
pub fn page(root: &Path, cursor: Option<&str>) -> Result<Page, Fault> {
    let notes = folder::notes(root)?;
    let from = cursor.map_or(0, |cursor| notes.partition_point(|note| note.name.as_str() <= cursor));
    let rest = &notes[from..];
    let shown = &rest[..rest.len().min(PAGE)];
    let next = (rest.len() > PAGE).then(|| shown.last().map(|note| note.name.as_str().to_owned())).flatten();
    Ok(Page { entries: shown.iter().map(entry).collect(), next })
}

fn entry(note: &Note) -> Entry {
    let mut more = json!({ "mimeType": MARKDOWN, "size": note.size });
    if let Some(modified) = note.modified.and_then(moment::written) {
        more["annotations"] = json!({ "lastModified": modified });
    }
    Entry { uri: note.name.uri(), name: note.name.as_str().to_owned(), more: more.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_and_in_order_even_when_a_note_goes() {
        let root = tempfile::tempdir().expect("a folder");
        for n in 0..250 {
            std::fs::write(root.path().join(format!("{n:03}.md")), "x").expect("writes");
        }
        let (mut cursor, mut names) = (None, Vec::new());
        loop {
            let page = page(root.path(), cursor.as_deref()).expect("listed");
            names.extend(page.entries.iter().map(|entry| entry.name.clone()));
            let Some(next) = page.next else { break };
            // The note that the cursor names is no longer there.
            std::fs::remove_file(root.path().join(&next)).expect("removes");
            cursor = Some(next);
        }
        assert_eq!(names, (0..250).map(|n| format!("{n:03}.md")).collect::<Vec<_>>());
    }

    #[test]
    fn a_resource_says_its_size_and_when_it_changed() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::write(root.path().join("a b.md"), "four").expect("writes");
        let page = page(root.path(), None).expect("listed");
        let [entry] = &page.entries[..] else { panic!("one") };
        assert_eq!((entry.uri.as_str(), entry.name.as_str()), ("notes:///a%20b.md", "a b.md"));
        let more: serde_json::Value = serde_json::from_str(&entry.more).expect("JSON");
        assert_eq!((&more["size"], &more["mimeType"]), (&json!(4), &json!("text/markdown")));
        assert!(more["annotations"]["lastModified"].as_str().is_some_and(|moment| moment.ends_with('Z')));
        assert!(page.next.is_none());
    }
}
