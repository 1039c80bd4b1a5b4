//! Pages: their links, the paths that they name, and their words.

use super::files::tracked;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toolyard_tests::guests::root;

/// The pages outside of `host/docs` that are documentation too.
const OTHER_DOCS: [&str; 4] = ["CONTRIBUTING.md", "README.md", "SECURITY.md", "host/ARCHITECTURE.md"];

/// If a page names a path in one of these folders, the path exists.
const CHECKED_FOLDERS: [&str; 5] = ["host/", "tests/", "plugins/", "examples/", "wit/"];

/// Folders that a build makes. Git does not track them.
const BUILT_FOLDERS: [&str; 2] = ["plugins/dist", "plugins/extra"];

/// The files of the repository, by paths from its root.
struct Tree {
    /// All files, links and folders; the root is the empty path.
    paths: BTreeSet<String>,
    /// The texts of the pages.
    pages: BTreeMap<String, String>,
}

impl Tree {
    fn of_repository() -> Self {
        let path = |file: &Path| file.strip_prefix(root()).expect("below the root").display().to_string();
        let files: Vec<String> = tracked(&[]).iter().map(|file| path(file)).collect();
        let pages = files.iter().filter(|file| file.ends_with(".md"));
        let text = |page: &String| std::fs::read_to_string(root().join(page)).expect("text");
        let pages = pages.map(|page| (page.clone(), text(page))).collect();
        let with_folders = files.iter().flat_map(|file| Path::new(file).ancestors());
        Self { paths: with_folders.map(|path| path.display().to_string()).collect(), pages }
    }

    /// The links of a page whose file, folder or heading does not exist.
    fn broken_links(&self, page: &str) -> Vec<String> {
        let links = links(&self.pages[page]);
        let local = links.into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        local.filter(|link| !self.leads_somewhere(page, link)).collect()
    }

    fn leads_somewhere(&self, page: &str, link: &str) -> bool {
        let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
        let target = if path.is_empty() { Some(page.to_owned()) } else { resolve(page, path) };
        let Some(target) = target.filter(|target| self.paths.contains(target)) else { return false };
        let Some(anchor) = anchor else { return true };
        self.pages.get(&target).is_some_and(|text| anchors(text).contains(anchor))
    }

    /// The paths of the repository that a page names in backticks and that do not exist.
    fn missing_paths(&self, page: &str) -> Vec<String> {
        let paths = code_spans(&self.pages[page]).into_iter().flat_map(|span| named_paths(&span));
        paths.filter(|path| !self.paths.contains(path)).collect()
    }
}

/// The path from the root that a relative path in a page leads to; `None` if it leaves the repository.
fn resolve(page: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The lines of a page that are not in a fenced block.
fn prose(page: &str) -> String {
    let mut in_block = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The pieces of each paragraph between backticks, alternately outside and inside a code span.
fn pieces(page: &str) -> Vec<(bool, String)> {
    let prose = prose(page);
    let paragraphs = prose.split("\n\n");
    let pieces = paragraphs.flat_map(|paragraph| paragraph.split('`').enumerate());
    pieces.map(|(index, piece)| (index % 2 == 1, piece.to_owned())).collect()
}

fn code_spans(page: &str) -> Vec<String> {
    pieces(page).into_iter().filter(|(is_code, _)| *is_code).map(|(_, piece)| piece).collect()
}

/// The targets of the links of a page.
fn links(page: &str) -> Vec<String> {
    let text: String = pieces(page)
        .into_iter()
        .map(|(is_code, piece)| if is_code { String::new() } else { piece })
        .collect();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '\n']).next());
    targets.map(str::to_owned).collect()
}

/// The anchors of a page: those it sets itself, and its headings by the rules of GitHub, where the second
/// heading with the same text gets `-1`.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let prose = prose(page);
    let own = prose.split("<a id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchors = headings.map(|line| {
        let anchor = anchor(line.trim_start_matches('#'));
        let before = seen.entry(anchor.clone()).or_default();
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    });
    anchors.chain(own).collect()
}

fn anchor(heading: &str) -> String {
    let mut text = String::new();
    // A link in a heading counts by its text.
    for (index, part) in heading.split("](").enumerate() {
        let part = if index == 0 { part } else { part.split_once(')').map_or(part, |(_, rest)| rest) };
        text.push_str(part);
    }
    let kept = text.trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The paths of the repository in a code span. Patterns such as `tests/mutations/*.patch` are not paths.
fn named_paths(span: &str) -> Vec<String> {
    let words = span.split_whitespace().map(|word| word.trim_end_matches(['.', ',', ':', ';', '/']));
    let words = words.filter(|word| CHECKED_FOLDERS.iter().any(|folder| word.starts_with(folder)));
    let words = words.filter(|word| !BUILT_FOLDERS.iter().any(|folder| word.starts_with(folder)));
    let words = words.filter(|word| !word.contains(['*', '<', '…']) && !word.contains("NN"));
    words.flat_map(|word| alternatives(word.split("::").next().unwrap_or(word))).collect()
}

/// `a/{b,c}.rs` names two files.
fn alternatives(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (names, after))) = parts else { return vec![path.to_owned()] };
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}

/// The targets of make in the shell blocks of a page that this Makefile does not have.
fn unknown_targets(page: &str, makefile: &str) -> Vec<String> {
    let shell = page.split("```").skip(1).step_by(2);
    let shell = shell.filter(|block| block.starts_with("sh\n") || block.starts_with("console\n"));
    let commands = shell.flat_map(str::lines).map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let words = commands.filter_map(|line| line.strip_prefix("make ")?.split_whitespace().next());
    let has = |target: &str| makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
    words.filter(|target| !has(target)).map(str::to_owned).collect()
}

#[test]
fn links_lead_to_files_folders_and_headings() {
    let tree = Tree::of_repository();
    for page in tree.pages.keys() {
        assert_eq!(tree.broken_links(page), [""; 0], "{page}: these links lead nowhere");
    }
}

#[test]
fn paths_that_pages_name_exist() {
    let tree = Tree::of_repository();
    for page in tree.pages.keys() {
        assert_eq!(tree.missing_paths(page), [""; 0], "{page}: these paths do not exist");
    }
}

#[test]
fn targets_of_make_that_pages_name_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("the Makefile");
    for (page, text) in &Tree::of_repository().pages {
        assert_eq!(unknown_targets(text, &makefile), [""; 0], "{page}: the Makefile has no such targets");
    }
}

/// Bars of tables and marks of lists do not count.
#[test]
fn the_docs_have_at_most_90_000_words() {
    let is_doc = |page: &str| page.starts_with("host/docs/") || OTHER_DOCS.contains(&page);
    let pages = Tree::of_repository().pages;
    let docs = pages.iter().filter(|(page, _)| is_doc(page));
    let words = docs.flat_map(|(_, text)| text.split_whitespace());
    let count = words.filter(|word| word.contains(char::is_alphanumeric)).count();
    assert!(count <= 90_000, "the docs have {count} words");
}
