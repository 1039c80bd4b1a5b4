//! Doc comments of the host: each names its subject, because a reader may land on it by search.

use super::sources;
use toolyard_tests::guests::root;

/// The words with which no doc comment begins.
const PRONOUNS: [&str; 11] =
    ["He", "It", "Its", "One", "She", "That", "Them", "These", "They", "This", "Those"];

/// Whether a path is of `host/src` or of the `src` of a crate of the host.
fn is_checked(path: &str) -> bool {
    let of_crate = path.strip_prefix("host/crates/").and_then(|rest| rest.split_once('/'));
    path.ends_with(".rs")
        && (path.starts_with("host/src/") || of_crate.is_some_and(|(_, rest)| rest.starts_with("src/")))
}

/// The text of a line of a doc comment.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}

/// The lines that begin a doc comment with a pronoun, by their numbers from 1.
fn without_noun(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |at: usize| at == 0 || doc(lines[at - 1]).is_none();
    let has_pronoun = |text: &str| {
        let word = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
        word.is_some_and(|word| PRONOUNS.contains(&word))
    };
    let found =
        lines.iter().enumerate().filter(|(at, line)| begins(*at) && doc(line).is_some_and(has_pronoun));
    found.map(|(at, line)| (at + 1, line.trim())).collect()
}

#[test]
fn no_doc_comment_begins_with_a_pronoun() {
    let mut found = Vec::new();
    for path in sources() {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        if is_checked(&name) {
            let text = std::fs::read_to_string(&path).expect("text");
            found.extend(without_noun(&text).iter().map(|(line, text)| format!("{name}:{line}: {text}")));
        }
    }
    assert!(found.is_empty(), "write the noun, such as `The id of the task.`:\n{}", found.join("\n"));
}

#[test]
fn a_pronoun_counts_at_the_start_of_a_doc_comment_only() {
    let text = "//! One rule.\n\n/// Its id.\npub id: u64,\n/// The task.\n/// It ends.\nfn end() {}\n// It is no doc.\n";
    assert_eq!(without_noun(text), [(1, "//! One rule."), (3, "/// Its id.")]);
    assert!(without_noun("    /// Items.\n    /// `It`.\n").is_empty());
    let paths = ["host/src/lib.rs", "host/crates/task/src/task.rs", "host/crates/task/tests/it/task.rs"];
    assert_eq!(paths.map(is_checked), [true, true, false]);
}
