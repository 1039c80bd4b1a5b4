//! Every clause in `host/docs/spec` is cited by a test: in its name, as `t_12_` or `_26t_12_`, or in a
//! comment or string, as `T-12` or `26T-12`. Every id that sources, tests and docs cite has its anchor there.

#[path = "tidy/files.rs"]
mod tracked_files;

use std::collections::BTreeSet;
use std::path::Path;
use toolyard_tests::guests::root;
use tracked_files::tracked;

/// The folder of the clauses.
const PAGES: &str = "host/docs/spec";
/// Folders whose texts cite clauses.
const CITING: [&str; 5] = ["host", "tests", "plugins", "wit", "examples"];
/// Kinds of files that hold data rather than prose, where a citation would be a coincidence.
const DATA: [&str; 7] = ["json", "lock", "profdata", "svg", "txt", "wasm", "wat"];
/// Names of standards and licences that look like the section of an id, as in `UTF-8`.
const NOT_SECTIONS: [&str; 5] = ["BSD", "CC0", "DEP", "MPL", "UTF"];

/// The anchors of the pages in `host/docs/spec`, in upper case.
#[derive(Default)]
struct Spec {
    /// Those that end with a number, as `T-12` or `A4`.
    clauses: BTreeSet<String>,
    /// The others, as `T` or `26B`.
    sections: BTreeSet<String>,
    /// Anchors that occur more than once.
    repeated: Vec<String>,
}

impl Spec {
    fn read() -> Self {
        let files = files(&[PAGES]);
        Self::of(
            files.iter().filter(|(name, _)| extension(name) == Some("md")).map(|(_, text)| text.as_str()),
        )
    }

    fn of<'a>(pages: impl Iterator<Item = &'a str>) -> Self {
        let mut spec = Self::default();
        for anchor in pages.flat_map(anchors).map(str::to_ascii_uppercase) {
            let known = match anchor.ends_with(|last: char| last.is_ascii_digit()) {
                true => &mut spec.clauses,
                false => &mut spec.sections,
            };
            if !known.insert(anchor.clone()) {
                spec.repeated.push(anchor);
            }
        }
        spec
    }

    /// The citations of a text that lead nowhere.
    fn dangling(&self, text: &str) -> BTreeSet<String> {
        let resolves = |id: &String| self.clauses.contains(id) || self.sections.contains(id);
        self.cited(text).into_iter().filter(|id| !resolves(id)).collect()
    }

    /// The ids that a text cites, whether or not such clauses exist. A whole section is cited as `T-*` or
    /// `26T`.
    fn cited(&self, text: &str) -> BTreeSet<String> {
        // With `%`, because a percent-encoded character such as `%C3%A9` is not a promise.
        let part = |c: char| c.is_alphanumeric() || "-_*%".contains(c);
        let mut cited = BTreeSet::new();
        let mut after_fn = false;
        for word in text.split(|c| !part(c)) {
            let section = word.strip_suffix("-*");
            let word = word.trim_matches('*');
            if word.is_empty() {
                continue;
            }
            if after_fn {
                cited.extend(self.cited_by_name(word));
            } else if let Some(section) = section.filter(|section| is_section(section)) {
                cited.insert(section.to_owned());
            } else if is_id(word) || is_promise(word) || (word.starts_with("26") && is_section(word)) {
                cited.insert(word.to_owned());
            }
            after_fn = word == "fn" || (after_fn && word == "async");
        }
        cited
    }

    /// The ids in the name of a function. A name has no hyphens, so `a_8` may be `A-8` or the promise `A8`.
    fn cited_by_name(&self, name: &str) -> BTreeSet<String> {
        let parts: Vec<_> = name.split('_').collect();
        let pairs = parts.windows(2).filter_map(|pair| {
            let section = pair[0].to_ascii_uppercase();
            let number = pair[1].parse::<u32>().ok()?;
            let (clause, promise) = (format!("{section}-{number}"), format!("{section}{number}"));
            let id = match !self.clauses.contains(&clause) && self.clauses.contains(&promise) {
                true => promise,
                false => clause,
            };
            (pair[0] != section && self.sections.contains(&section)).then_some(id)
        });
        pairs.collect()
    }
}

/// Whether a word has the form of a section, such as `T` or `26SUB`.
fn is_section(word: &str) -> bool {
    let letters = word.strip_prefix(|c: char| c.is_ascii_digit());
    let letters = letters.and_then(|rest| rest.strip_prefix(|c: char| c.is_ascii_digit())).unwrap_or(word);
    // `22E-1` is a number.
    let exponent = letters == "E" && letters != word;
    (1..=3).contains(&letters.len())
        && letters.chars().all(|c| c.is_ascii_uppercase())
        && !exponent
        && !NOT_SECTIONS.contains(&word)
}

/// Whether a word has the form of an id, such as `T-12`. `SHA-256` and `SEP-1904` do not: no section has a
/// hundred clauses.
fn is_id(word: &str) -> bool {
    word.split_once('-').is_some_and(|(section, number)| is_section(section) && is_number(number))
}

/// Whether a word has the form of a promise of durability, such as `A4`.
fn is_promise(word: &str) -> bool {
    word.strip_prefix('A').is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    (1..=2).contains(&text.len()) && text.chars().all(|c| c.is_ascii_digit())
}

/// The ids of the anchors of a page.
fn anchors(page: &str) -> impl Iterator<Item = &str> {
    page.split("<a id=\"").skip(1).filter_map(|rest| rest.split_once('"').map(|(id, _)| id))
}

/// The text files in these folders, by name.
fn files(folders: &[&str]) -> Vec<(String, String)> {
    let texts = tracked(folders).into_iter().filter_map(|path| {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        Some((name, std::fs::read_to_string(path).ok()?))
    });
    texts.collect()
}

/// The part of a file that is tests or test support.
fn tests_of<'a>(name: &str, text: &'a str) -> &'a str {
    let whole = name.starts_with("tests/") || name.contains("/tests/") || name.ends_with("tests.rs");
    if whole { text } else { text.find("#[cfg(test)]").map_or("", |start| &text[start..]) }
}

fn test_sources() -> Vec<String> {
    let files = files(&["host", "plugins", "tests"]).into_iter().filter(|(of, _)| of != "tests/checklist.rs");
    let sources = files.filter(|(name, _)| ["rs", "mjs", "py"].map(Some).contains(&extension(name)));
    sources.map(|(name, text)| tests_of(&name, &text).to_owned()).collect()
}

fn extension(name: &str) -> Option<&str> {
    Path::new(name).extension().and_then(|extension| extension.to_str())
}

#[test]
fn every_clause_is_cited_by_a_test() {
    let spec = Spec::read();
    assert!(spec.clauses.len() > 200, "{PAGES}");
    let cited: BTreeSet<_> = test_sources().iter().flat_map(|text| spec.cited(text)).collect();
    let uncited: Vec<_> = spec.clauses.difference(&cited).map(String::as_str).collect();
    assert!(uncited.is_empty(), "no test cites {uncited:?}");
}

#[test]
fn every_cited_id_has_an_anchor() {
    let spec = Spec::read();
    assert!(spec.repeated.is_empty(), "more than once in {PAGES}: {:?}", spec.repeated);
    let mut dangling = Vec::new();
    for (name, text) in files(&CITING) {
        // This file cites ids that are wrong on purpose.
        let data = extension(&name).is_some_and(|kind| DATA.contains(&kind));
        if name != "tests/checklist.rs" && !data {
            dangling.extend(spec.dangling(&text).into_iter().map(|id| format!("{id} in {name}")));
        }
    }
    assert!(dangling.is_empty(), "no anchor in {PAGES} for {dangling:#?}");
}

/// The names of all end-to-end attacks, as given to `attacks!` and `fails!`.
fn attacks_made() -> BTreeSet<String> {
    let folder = root().join("tests/it/hostile");
    let mut made = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the folder of attacks") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("text");
        for list in text.split("attacks!(stage;").skip(1) {
            let (list, _) = list.split_once(')').expect("the list ends");
            made.extend(list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned));
        }
        for list in text.split("fails!(stage;").skip(1) {
            let (list, _) = list.split_once("\n    );").expect("the list ends");
            let names = list.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
            made.extend(names.filter(|name| !name.contains([' ', '"'])).map(str::to_owned));
        }
    }
    made
}

/// The pages that list the attacks.
fn attack_pages() -> String {
    let folder = root().join("host/docs/reference/attacks");
    let pages = std::fs::read_dir(folder).expect("the pages of attacks");
    pages.map(|page| std::fs::read_to_string(page.expect("an entry").path()).expect("text")).collect()
}

/// The tests of the engine that make many attacks. Their names are in tables and messages.
const ENGINE_ATTACKS: &str = "host/crates/engine/tests/it/attacks.rs";

#[test]
fn every_attack_of_the_pages_has_a_test_of_its_name_and_every_end_to_end_attack_is_there() {
    let pages = attack_pages();
    let rows = pages.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: Vec<String> = rows.map(|(name, _)| name.to_owned()).collect();
    let named: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(named.len(), listed.len(), "each is listed once");
    let made = attacks_made();
    let unlisted: Vec<_> = made.difference(&named).collect();
    assert!(unlisted.is_empty(), "no page lists {unlisted:?}");
    let (sources, engine) = (test_sources(), std::fs::read_to_string(root().join(ENGINE_ATTACKS)));
    let engine = engine.expect("the attacks on the engine");
    let words: BTreeSet<_> = engine.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for name in named.difference(&made) {
        let is_test = sources.iter().any(|text| text.contains(&format!("fn {name}(")));
        assert!(is_test || words.contains(name.as_str()), "no test makes the attack {name}");
    }
}

/// A made-up specification.
fn made_up() -> Spec {
    let sections = "<a id=\"a\"> <a id=\"t\"> <a id=\"26h\"> <a id=\"tl\"> <a id=\"26xh\">";
    let clauses = "- <a id=\"t-1\"></a>**T-1** - <a id=\"26h-4\"></a>**26H-4** - <a id=\"a4\"></a>**A4**";
    Spec::of([sections, clauses].into_iter())
}

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn citations_without_an_anchor_are_found() {
    let spec = made_up();
    assert_eq!(spec.clauses, set(&["26H-4", "A4", "T-1"]));
    assert_eq!(spec.sections, set(&["26H", "26XH", "A", "T", "TL"]));
    for (text, ids) in [
        ("// T-1, 26H-4, A4, T-* and 26H are there.", &[][..]),
        ("// T-2 is no clause, Z-1 and 27D-9 have no section.", &["T-2", "Z-1", "27D-9"]),
        ("// Neither A5 nor 26Z nor Q-*.", &["A5", "26Z", "Q"]),
        ("fn t_1_t_2_two_clauses() {}", &["T-2"]),
        ("fn of_q_1_there_is_no_section() {}", &[]),
    ] {
        assert_eq!(spec.dangling(text), set(ids), "{text}");
    }
    let twice = Spec::of(["<a id=\"t-1\"></a>", "<a id=\"t-1\"></a>"].into_iter());
    assert_eq!(twice.repeated, ["T-1"]);
}

/// The rows of the table of the page about foreign data that has this head.
fn rows_of_foreign_data<const CELLS: usize>(head: &str) -> Vec<[String; CELLS]> {
    let page = std::fs::read_to_string(root().join("host/docs/explanation/foreign-data.md")).expect("a page");
    let (_, table) = page.split_once(head).expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches(['|', ' ']).split(" | ").map(str::to_owned).collect();
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{row}");
        cells.try_into().unwrap_or_else(|_| panic!("{CELLS} cells: {row}"))
    })
    .collect()
}

/// Asserts that there is at least one test in a cell, and that each of them exists.
fn assert_tests(row: &str, cell: &str, sources: &[String]) {
    let tests: Vec<_> = cell.split('`').skip(1).step_by(2).collect();
    assert!(!tests.is_empty(), "{row}: no test");
    for test in tests {
        let name = format!("fn {test}(");
        assert!(sources.iter().any(|text| text.contains(&name)), "{row}: there is no test {test}");
    }
}

#[test]
fn every_place_that_computes_on_foreign_data_has_a_bound_that_a_test_holds() {
    let sources = test_sources();
    let places = rows_of_foreign_data::<5>("| place | data of | bound | charged to | test |");
    assert!(places.len() > 10, "{places:?}");
    for [place, _, _, _, tests] in places {
        assert_tests(&place, &tests, &sources);
    }
}

#[test]
fn everything_that_is_held_for_others_has_a_bound_that_a_test_holds() {
    let sources = test_sources();
    let head = "| held | bound of a run | of a principal | of all | who is refused, and how | test |";
    let kinds = rows_of_foreign_data::<6>(head);
    assert!(kinds.len() > 25, "{kinds:?}");
    for [held, of_run, of_principal, of_all, refused, tests] in kinds {
        assert!([of_run, of_principal, of_all].iter().any(|bound| bound != "-"), "{held}: no bound");
        assert_ne!(refused, "-", "{held}: no refusal is named");
        assert_tests(&held, &tests, &sources);
    }
}
