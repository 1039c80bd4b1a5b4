//! Recipes: the code on their pages is that of the projects `desk-*`, which `make examples` builds.

use super::sources;
use toolyard_tests::guests::root;

/// The pages of the recipes, and the language of their blocks.
const RECIPES: [(&str, &str); 6] = [
    ("c", "c"),
    ("go", "go"),
    ("javascript", "js"),
    ("python", "python"),
    ("rust", "rust"),
    ("typescript", "ts"),
];

/// A comment in a page; the block that follows it is not in the project.
const NOT_IN_PROJECT: &str = "<!-- not in the project:";

/// The lines of code without indentation, empty lines and lines that are comments.
fn code<'a>(lines: impl Iterator<Item = &'a str>, language: &str) -> Vec<&'a str> {
    let comment = if language == "python" { "#" } else { "//" };
    lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(comment)).collect()
}

/// The blocks of a page in this language that are in its project.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<Vec<&'a str>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    let mut in_project = true;
    while let Some(line) = lines.next() {
        in_project &= !line.starts_with(NOT_IN_PROJECT);
        let Some(info) = line.strip_prefix("```") else { continue };
        let block = code(lines.by_ref().take_while(|line| *line != "```"), language);
        if info == language && in_project {
            blocks.push(block);
        }
        in_project = true;
    }
    blocks
}

fn has(file: &[&str], block: &[&str]) -> bool {
    !block.is_empty() && file.windows(block.len()).any(|lines| lines == block)
}

#[test]
fn recipes_show_the_code_of_their_projects() {
    for (name, language) in RECIPES {
        let page = root().join(format!("host/docs/guides/write-tools/recipes/{name}.md"));
        let page = std::fs::read_to_string(page).expect("a page");
        let project = root().join(format!("examples/plugins/desk-{name}"));
        let paths = sources().into_iter().filter(|path| path.starts_with(&project));
        let texts: Vec<String> = paths.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        let files: Vec<_> = texts.iter().map(|text| code(text.lines(), language)).collect();
        let blocks = blocks(&page, language);
        assert!(blocks.len() >= 5, "{name}.md has {} blocks in {language}", blocks.len());
        for block in blocks {
            let is_found = files.iter().any(|file| has(file, &block));
            assert!(is_found, "{name}.md: desk-{name} has no lines\n{}", block.join("\n"));
        }
    }
}
