//! The language of pages, comments and messages: sentences that a reader must read twice are refused.

use super::tracked;
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;
use toolyard_tests::guests::root;

/// Sentences that are right as they are: `path: sentence # reason`.
const ALLOWED: &str = "tests/prose.allow";
/// The most lines of that file.
const MAX_ALLOWED: usize = 20;

/// Folders and files that others wrote, and this file, which lists the forbidden words.
const SKIPPED: [&str; 7] = [
    "fixtures/",
    "corpus/",
    "dictionaries/",
    "schemas/",
    "host/docs/spec/",
    "LICENSE",
    "tests/tidy/prose.rs",
];

/// Clauses with which no sentence begins, unless it is a question.
static OPENINGS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        "^(What|Whatever|Whoever|Who|Whom|Whose|That which|With what|Of what|To whom|For whom|By which|Since what)\\b",
    )
    .expect("a pattern")
});

/// Words and phrases that hide who does what.
static PHRASES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        "(?i)\\b(whoever|whatever it|anew|(is|are|was) told|(is|are|be) seen to|sees to|see to it|of ours|comes by|\
         come by it|stands in|is had|be had|nobody|somebody|is no (text|json|file|component|plugin|word|token|number|\
         name)|makes good|that is there|as it stands|put aside|parted with|looks on|looking on|wants in|wanted in|\
         given out)\\b",
    )
    .expect("a pattern")
});

/// The end of a sentence, or of a cell of a table.
static ENDS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[.!?:;]\s|\s\|\s").expect("a pattern"));

/// Uses of these words that are plain English.
const PLAIN: [&str; 10] = [
    "told apart",
    "stands in for",
    "as nobody",
    "user nobody",
    "there is no text",
    "there is no file",
    "there is no plugin",
    "there is no component",
    "there is no name",
    "there is no token",
];

/// The sentences of a text: of pages without code and headings, else of comments and string literals.
fn sentences(path: &str, text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = vec![String::new()];
    let mark = match Path::new(path).extension().and_then(|extension| extension.to_str()) {
        Some("md") => None,
        Some("rs" | "wit" | "js" | "mjs" | "ts" | "go" | "c" | "h") => Some("//"),
        _ => Some("#"),
    };
    let mut in_code = false;
    for line in text.lines() {
        let line = line.trim();
        let prose = match mark {
            Some(mark) => line.strip_prefix(mark).map(|rest| rest.trim_start_matches(['/', '!', '#', ' '])),
            None if line.starts_with("```") => {
                in_code = !in_code;
                None
            }
            None => (!in_code && !line.is_empty() && !line.starts_with('#')).then_some(line),
        };
        match prose {
            Some(prose) if !prose.is_empty() => {
                let block = blocks.last_mut().expect("there is one");
                block.push_str(prose);
                block.push(' ');
            }
            _ => blocks.push(String::new()),
        }
        if mark == Some("//") && prose.is_none() {
            // A literal over several lines counts by its pieces.
            blocks.extend(
                line.split('"').skip(1).step_by(2).filter(|text| text.contains(' ')).map(str::to_owned),
            );
            blocks.push(String::new());
        }
    }
    let mut sentences = Vec::new();
    for block in &blocks {
        let mut from = 0;
        // The final punctuation belongs to the sentence: it identifies a question.
        for found in ENDS.find_iter(block) {
            sentences.push(&block[from..=found.start()]);
            from = found.end();
        }
        sentences.push(&block[from..]);
    }
    let trimmed = sentences.iter().map(|text| text.trim_matches([' ', '*', '-', '#', '>', '|']).to_owned());
    trimmed.filter(|sentence| !sentence.is_empty()).collect()
}

/// Whether a reader must read this sentence twice.
fn is_odd(sentence: &str) -> bool {
    if OPENINGS.is_match(sentence) && !sentence.contains('?') {
        return true;
    }
    let mut rest = sentence.to_lowercase();
    PLAIN.iter().for_each(|plain| rest = rest.replace(plain, ""));
    PHRASES.is_match(&rest)
}

#[test]
fn every_sentence_is_understood_at_the_first_reading() {
    let text = |path: &str| std::fs::read_to_string(root().join(path));
    let list = text(ALLOWED).expect("the list");
    let allowed: BTreeSet<&str> =
        list.lines().map(|line| line.split(" # ").next().unwrap_or(line).trim()).collect();
    assert!(allowed.len() <= MAX_ALLOWED, "{ALLOWED} has more than {MAX_ALLOWED} lines");
    let mut odd = BTreeSet::new();
    for file in tracked() {
        let path = file.strip_prefix(root()).expect("below the root").display().to_string();
        let is_prose = [
            ".md", ".rs", ".wit", ".toml", ".sh", ".js", ".mjs", ".ts", ".py", ".go", ".c", ".h", "Makefile",
        ]
        .iter()
        .any(|end| path.ends_with(end));
        if !is_prose || SKIPPED.iter().any(|skipped| path.contains(skipped)) {
            continue;
        }
        // A symbolic link may lead to a folder.
        let Ok(text) = text(&path) else { continue };
        let found = sentences(&path, &text).into_iter().filter(|sentence| is_odd(sentence));
        odd.extend(found.map(|sentence| format!("{path}: {sentence}")));
    }
    let unlisted: Vec<_> = odd.iter().filter(|line| !allowed.contains(line.as_str())).collect();
    assert!(unlisted.is_empty(), "rewrite these, or list them in {ALLOWED} with a reason:\n{unlisted:#?}");
    let unused: Vec<_> = allowed.iter().filter(|line| !odd.contains(**line)).collect();
    assert!(unused.is_empty(), "these are gone: {unused:#?}");
}

#[test]
fn an_odd_sentence_is_found_wherever_it_stands() {
    for (path, text) in [
        ("a.md", "A page.\n\n- What is over is\n  forgotten.\n"),
        ("a.md", "| a | the table is written anew |\n"),
        ("a.rs", "fn f() {\n    // Fine. Whoever calls\n    // waits.\n}\n"),
        ("a.rs", "fn f() -> &'static str { \"nobody is there\" }\n"),
        ("a.sh", "# Sees to it that it runs.\nrun\n"),
    ] {
        assert_eq!(sentences(path, text).iter().filter(|sentence| is_odd(sentence)).count(), 1, "{text}");
    }
    for (path, text) in [
        ("a.md", "# What it is\n\nWhat is a task? The two are told apart by name.\n\n```text\nnobody\n```\n"),
        ("a.rs", "let nobody = whoever();\n"),
    ] {
        assert!(!sentences(path, text).iter().any(|sentence| is_odd(sentence)), "{text}");
    }
}
