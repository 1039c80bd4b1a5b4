//! Recipes: the code in the folded blocks of their page is that of the projects `desk-*`, which `make examples` builds.

use super::sources;
use toolyard_tests::guests::root;

const PAGE: &str = "host/docs/guides/write-tools/recipes.md";

/// The languages, as the summaries of folded blocks name them, and the projects with their code.
const PROJECTS: [(&str, &str); 6] = [
    ("C", "desk-c"),
    ("Go", "desk-go"),
    ("JavaScript", "desk-javascript"),
    ("Python", "desk-python"),
    ("Rust", "desk-rust"),
    ("TypeScript", "desk-typescript"),
];

/// The languages of the folded block that begins on this line.
fn languages(line: &str) -> Option<Vec<&str>> {
    let summary = line.strip_prefix("<details><summary>")?.strip_suffix("</summary>")?;
    Some(summary.split(", ").collect())
}

/// The lines of code without indentation, empty lines and lines that are comments.
fn code<'a>(lines: impl Iterator<Item = &'a str>, language: &str) -> Vec<&'a str> {
    let comment = if language == "Python" { "#" } else { "//" };
    lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(comment)).collect()
}

/// The code that a page folds under this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<Vec<&'a str>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    let mut is_folded = false;
    while let Some(line) = lines.next() {
        if let Some(languages) = languages(line) {
            is_folded = languages.contains(&language);
        }
        is_folded &= line != "</details>";
        if line.starts_with("```") {
            let block = code(lines.by_ref().take_while(|line| *line != "```"), language);
            if is_folded {
                blocks.push(block);
            }
        }
    }
    blocks
}

fn has(file: &[&str], block: &[&str]) -> bool {
    !block.is_empty() && file.windows(block.len()).any(|lines| lines == block)
}

#[test]
fn recipes_show_the_code_of_their_projects() {
    let page = std::fs::read_to_string(root().join(PAGE)).expect("a page");
    for line in page.lines().filter(|line| line.starts_with("<details>")) {
        let languages = languages(line).unwrap_or_default();
        let is_known = |name: &&str| PROJECTS.iter().any(|(language, _)| language == name);
        assert!(!languages.is_empty() && languages.iter().all(is_known), "{PAGE}: {line}");
    }
    for (language, project) in PROJECTS {
        let folder = root().join("examples/plugins").join(project);
        let paths = sources().into_iter().filter(|path| path.starts_with(&folder));
        let texts: Vec<String> = paths.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        let files: Vec<_> = texts.iter().map(|text| code(text.lines(), language)).collect();
        let blocks = blocks(&page, language);
        assert!(blocks.len() >= 5, "{PAGE} has {} blocks in {language}", blocks.len());
        for block in blocks {
            let is_found = files.iter().any(|file| has(file, &block));
            assert!(is_found, "{PAGE}: {project} has no lines\n{}", block.join("\n"));
        }
    }
}
