//! The case files of a folder.

use crate::case::SUFFIX;
use std::path::{Path, PathBuf};

/// The depth to which folders are searched.
const MAX_DEPTH: usize = 16;
/// The most cases.
const MAX_CASES: usize = 10_000;
/// Folders with files of others.
const NOT_OURS: [&str; 2] = ["node_modules", "target"];

/// A case file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseFile {
    /// The name of the case: the path below the folder, without the ending.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// The cases in this folder and below whose names contain any of these words, sorted by name. Skips hidden
/// folders, links, and the folders of package managers and compilers.
///
/// # Errors
/// A folder that cannot be read, or too many cases.
pub fn cases(folder: &Path, words: &[String]) -> Result<Vec<CaseFile>, String> {
    let mut found = Vec::new();
    look(folder, "", 0, &mut found)?;
    found.retain(|case| words.is_empty() || words.iter().any(|word| case.name.contains(word.as_str())));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn look(folder: &Path, below: &str, depth: usize, found: &mut Vec<CaseFile>) -> Result<(), String> {
    let unreadable =
        |error: std::io::Error| format!("the folder {} cannot be read: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type().map_err(unreadable)?;
        let whole = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if kind.is_dir() {
            if depth < MAX_DEPTH && !name.starts_with('.') && !NOT_OURS.contains(&name.as_str()) {
                look(&entry.path(), &whole, depth + 1, found)?;
            }
        } else if let Some(stem) = whole.strip_suffix(SUFFIX)
            && !kind.is_symlink()
        {
            if found.len() == MAX_CASES {
                return Err(format!("there are more than {MAX_CASES} cases"));
            }
            found.push(CaseFile { name: stem.to_owned(), path: entry.path() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_found_below_and_elsewhere_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in "b.case.toml cases/a.case.toml cases/deep/c.case.toml cases/plain.toml \
                     node_modules/x.case.toml target/x.case.toml .hidden/x.case.toml"
            .split(' ')
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "").expect("written");
        }
        let names = |words: &[&str]| -> Vec<String> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            cases(folder.path(), &words).expect("read").into_iter().map(|case| case.name).collect()
        };
        assert_eq!(names(&[]), ["b", "cases/a", "cases/deep/c"]);
        assert_eq!(names(&["deep", "b"]), ["b", "cases/deep/c"]);
        assert!(names(&["nothing"]).is_empty());
    }
}
