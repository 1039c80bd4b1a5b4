//! Every item of the checklists of 2025-11-25 and of 2026-07-28 is cited by a test: in its
//! name, as `t_12_` or `_26t_12_`, or in a comment or string, as `T-12` or `26T-12`.

use std::collections::BTreeSet;
use std::path::Path;
use toolyard_tests::guests::root;
use toolyard_tests::schema;

/// The sections of a checklist and how many items each has.
type Sections = &'static [(&'static str, u32)];

const CHECKLISTS: [(&str, Sections); 2] = [
    (
        "mcp-2025-11-25.md",
        &[
            ("J", 9),
            ("L", 10),
            ("S", 5),
            ("H", 29),
            ("TL", 12),
            ("T", 44),
            ("IR", 10),
            ("Q", 12),
            ("P", 3),
            ("C", 6),
            ("G", 2),
            ("N", 1),
            ("E", 9),
            ("M", 5),
            ("F", 8),
            ("R", 8),
            ("PR", 5),
            ("CO", 3),
            ("X", 8),
            ("A", 6),
        ],
    ),
    (
        "mcp-2026-07-28.md",
        &[
            ("26J", 9),
            ("26R", 6),
            ("26D", 9),
            ("26H", 15),
            ("26XH", 2),
            ("26S", 4),
            ("26M", 9),
            ("26SUB", 7),
            ("26C", 7),
            ("26TL", 4),
            ("26T", 26),
            ("26A", 3),
            ("26B", 16),
            ("26X", 12),
        ],
    ),
];

fn sections() -> impl Iterator<Item = (&'static str, u32)> {
    CHECKLISTS.into_iter().flat_map(|(_, sections)| sections.iter().copied())
}

fn items(sections: impl Iterator<Item = (&'static str, u32)>) -> BTreeSet<String> {
    sections
        .flat_map(|(section, count)| (1..=count).map(move |number| format!("{section}-{number}")))
        .collect()
}

/// The part of a file that is tests or test support.
fn tests_of<'a>(name: &str, text: &'a str) -> &'a str {
    let whole = name.starts_with("tests/")
        || name.contains("/tests/")
        || name.ends_with("/tests.rs")
        || name.starts_with("host/crates/store/src/contract");
    match whole {
        true => text,
        false => text.find("#[cfg(test)]").map_or("", |start| &text[start..]),
    }
}

fn test_sources() -> Vec<String> {
    let listed = std::process::Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "host", "plugins", "tests"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listed.status.success(), "git ls-files");
    let listed = String::from_utf8(listed.stdout).expect("plain names");
    listed
        .lines()
        .filter(|name| *name != "tests/checklist.rs")
        .filter(|name| ["rs", "mjs", "py"].map(Some).contains(&extension(name)))
        // Git lists a deleted file until the deletion is committed.
        .filter_map(|name| Some(tests_of(name, &std::fs::read_to_string(root().join(name)).ok()?).to_owned()))
        .collect()
}

fn extension(name: &str) -> Option<&str> {
    Path::new(name).extension().and_then(|extension| extension.to_str())
}

/// The items that a text names, in either spelling.
fn cited(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut cited = BTreeSet::new();
    let mut after_fn = false;
    for word in text.split(|c| !word(c)).filter(|word| !word.is_empty()) {
        let separator = if after_fn { '_' } else { '-' };
        let parts: Vec<_> = word.split(separator).collect();
        for pair in parts.windows(2) {
            let section = pair[0].to_ascii_uppercase();
            let right_case = if after_fn { pair[0] != section } else { pair[0] == section };
            let alone = after_fn || parts.len() == 2;
            if alone && right_case && sections().any(|(known, _)| known == section) {
                cited.extend(pair[1].parse::<u32>().map(|number| format!("{section}-{number}")));
            }
        }
        after_fn = word == "fn" || (after_fn && word == "async");
    }
    cited
}

#[test]
fn every_item_is_cited_by_a_test() {
    let items = items(sections());
    let cited: BTreeSet<_> = test_sources().iter().flat_map(|text| cited(text)).collect();
    let uncited: Vec<_> = items.difference(&cited).map(String::as_str).collect();
    assert!(uncited.is_empty(), "no test cites {uncited:?}");
}

/// The names of all attacks in the tests, as given to `attacks!`, `fails!` and `refused!`.
fn attacks_made() -> BTreeSet<String> {
    let folder = root().join("tests/it/hostile");
    let mut made = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the folder of attacks") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("text");
        for list in text.split("attacks!(stage;").skip(1) {
            let (list, _) = list.split_once(')').expect("the list ends");
            made.extend(list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned));
        }
        for list in ["fails!(stage;", "refused!(stage;"].iter().flat_map(|rows| text.split(rows).skip(1)) {
            let (list, _) = list.split_once("\n    );").expect("the list ends");
            let names = list.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
            made.extend(names.filter(|name| !name.contains([' ', '"'])).map(str::to_owned));
        }
    }
    made
}

#[test]
fn every_attack_of_the_security_page_is_made_by_a_test_of_its_name_and_no_other_is() {
    let page = std::fs::read_to_string(root().join("host/docs/security.md")).expect("the page");
    let (_, section) = page.split_once("## Attacks and what stops them").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: Vec<String> = rows.map(|(name, _)| name.to_owned()).collect();
    let named: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(named.len(), listed.len(), "each is listed once");
    assert_eq!(named, attacks_made());
    assert!(named.len() >= 40, "{} attacks", named.len());
}

#[test]
fn items_are_found_in_names_comments_and_strings() {
    for (text, items) in [
        ("async fn t_38_t_39_progress_of_a_task()", &["T-38", "T-39"][..]),
        ("fn tl_9_unknown_tools()", &["TL-9"]),
        ("// as T-12 and X-4 say", &["T-12", "X-4"]),
        ("\"T-31\", // (H-2, H-3).", &["T-31", "H-2", "H-3"]),
        ("async fn s_26h_4_26xh_2_headers() // 26SUB-7", &["26H-4", "26XH-2", "26SUB-7"]),
        ("fn a_test() { t_1_2(); } // UTF-8, HTTP-17, SEP-1904, 27D-9, T-x, t-1, 26t-1", &[]),
    ] {
        assert_eq!(cited(text), items.iter().map(|item| (*item).to_owned()).collect(), "{text}");
    }
}

/// Compares the counts above with the checklists, if they are on this machine.
#[test]
fn the_sections_are_those_of_the_checklists() {
    for (file, sections) in CHECKLISTS {
        let Ok(checklist) = std::fs::read_to_string(schema::folder().join(file)) else {
            schema::skipped(&format!("{file} is not here: its sections are taken on trust"));
            continue;
        };
        let bullets = checklist.lines().filter_map(|line| line.strip_prefix("- "));
        let named: Vec<_> =
            bullets.flat_map(|line| cited(line.split(' ').next().unwrap_or_default())).collect();
        assert_eq!(
            named.iter().cloned().collect::<BTreeSet<_>>(),
            items(sections.iter().copied()),
            "{file}: an item was added, or taken from it"
        );
        assert_eq!(named.len(), named.iter().collect::<BTreeSet<_>>().len(), "each item stands there once");
    }
}

/// The rows of the table of places where the host computes on foreign data: the place, and the tests that
/// check its bound.
fn computing_places() -> Vec<(String, Vec<String>)> {
    let page = std::fs::read_to_string(root().join("host/docs/security.md")).expect("the page");
    let (_, table) = page.split_once("| place | data of | bound | charged to | test |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [place, _, bound, account, tests] = cells[..] else { panic!("five cells: {row}") };
        assert!(!bound.is_empty() && !account.is_empty(), "{row}");
        let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (place.to_owned(), tests)
    })
    .collect()
}

#[test]
fn every_place_that_computes_on_foreign_data_has_a_bound_that_a_test_holds() {
    let sources = test_sources();
    let places = computing_places();
    assert!(places.len() > 10, "{places:?}");
    for (place, tests) in places {
        assert!(!tests.is_empty(), "{place}: no test");
        for test in tests {
            let name = format!("fn {test}(");
            assert!(sources.iter().any(|text| text.contains(&name)), "{place}: there is no test {test}");
        }
    }
}
