//! Checks that the program accepts each of its command lines that a page shows.

use super::command;
use clap::error::ErrorKind;
use std::path::{Path, PathBuf};

/// Folders with pages of this repository.
const FOLDERS: [&str; 5] = ["host/docs", "host/templates", "plugins", "examples", "tests"];

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_foreign = name == "node_modules" || name == "target" || name == ".venv";
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !is_foreign => pages(&path, found),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") => {
                found.push(path);
            }
            _ => {}
        }
    }
}

/// The words of each command of this program in the shell blocks of a page.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut in_shell = false;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.trim().strip_prefix("```") {
            in_shell = matches!(language, "sh" | "console");
            continue;
        }
        let line = line.strip_prefix("$ ").unwrap_or(line);
        if !in_shell || !line.starts_with("toolyard ") {
            continue;
        }
        let mut text = line.to_owned();
        // A command continues after a backslash and within quotes.
        let words = loop {
            match shlex::split(&text) {
                Some(words) if !text.ends_with('\\') => break words,
                _ => {}
            }
            text = text.strip_suffix('\\').unwrap_or(&text).to_owned();
            let Some(next) = lines.next().filter(|next| !next.starts_with("```")) else { break Vec::new() };
            text = format!("{text}\n{next}");
        };
        let own = words.into_iter().take_while(|word| !matches!(word.as_str(), "|" | ">" | "<" | "&&" | "&"));
        commands.push(own.collect());
    }
    commands
}

/// The reason why the program refuses this command line, if it does.
fn refusal(words: &[String]) -> Option<String> {
    let error = command().try_get_matches_from(words).err()?;
    (!matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)).then(|| error.to_string())
}

#[test]
fn every_command_of_the_pages_is_one_that_the_program_accepts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let mut found = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    FOLDERS.iter().for_each(|folder| pages(&root.join(folder), &mut found));
    let mut seen = 0;
    for page in found {
        let text = std::fs::read_to_string(&page).expect("text");
        for words in commands(&text) {
            seen += 1;
            assert_eq!(refusal(&words), None, "{}: {words:?}", page.display());
        }
    }
    assert!(seen > 50, "only {seen} commands were found");
}
