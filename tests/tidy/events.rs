//! Events of the log: their names, and the page that explains them.

use super::{code, is_test, sources, without_inline_tests};
use std::collections::{BTreeMap, BTreeSet};
use toolyard_tests::guests::root;

/// The levels whose events need a name, and their macros. The others are for the authors of this program.
const LEVELS: [(&str, &str); 3] =
    [("error", "tracing::error!("), ("warn", "tracing::warn!("), ("info", "tracing::info!(")];

/// The shipped program has no fail points, so no operator meets their events.
const NOT_SHIPPED: &str = "failpoint.";

/// The events that this code logs: their levels, and their names unless the first field is not a constant name.
fn logged_events(text: &str) -> Vec<(&'static str, Option<&str>)> {
    let of_level = |(level, start): (&'static str, &'static str)| {
        text.split(start).skip(1).map(move |rest| {
            let fields = rest.trim_start();
            let fields = fields.strip_prefix("target: \"guest\",").map_or(fields, str::trim_start);
            let name = fields.strip_prefix("event = \"").and_then(|rest| rest.split('"').next());
            (level, name)
        })
    };
    LEVELS.into_iter().flat_map(of_level).collect()
}

/// The names and levels in the tables of a page.
fn explained_events(page: &str) -> Vec<(&str, &str)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows = rows.filter_map(|(name, rest)| Some((name, rest.split_once(" | ")?.0)));
    rows.filter(|(_, level)| LEVELS.iter().any(|(known, _)| known == level)).collect()
}

#[test]
fn every_event_of_the_log_has_a_name_and_the_page_explains_the_warnings() {
    let host = root().join("host");
    let mut levels: BTreeMap<String, &'static str> = BTreeMap::new();
    let is_product = |path: &&std::path::PathBuf| {
        path.starts_with(&host) && path.extension().is_some_and(|kind| kind == "rs") && !is_test(path)
    };
    for path in sources().iter().filter(is_product) {
        let text = std::fs::read_to_string(path).expect("text");
        let text = code(without_inline_tests(&text));
        for (level, name) in logged_events(&text) {
            let name = name.unwrap_or_else(|| panic!("{}: an event has no constant name", path.display()));
            let former = levels.insert(name.to_owned(), level).unwrap_or(level);
            assert_eq!(former, level, "{}: {name} has another level elsewhere", path.display());
        }
    }
    let page = std::fs::read_to_string(host.join("docs/reference/log-events.md")).expect("a page");
    let needed: BTreeSet<(&str, &str)> = levels
        .iter()
        .filter(|(name, level)| **level != "info" && !name.starts_with(NOT_SHIPPED))
        .map(|(name, level)| (name.as_str(), *level))
        .collect();
    let explained = explained_events(&page);
    let rows: BTreeSet<(&str, &str)> = explained.iter().copied().collect();
    assert_eq!(explained.len(), rows.len(), "host/docs/reference/log-events.md: a row is there twice");
    let missing: Vec<_> = needed.difference(&rows).collect();
    let unknown: Vec<_> = rows.difference(&needed).collect();
    assert!(missing.is_empty(), "host/docs/reference/log-events.md lacks {missing:?}");
    assert!(unknown.is_empty(), "host/docs/reference/log-events.md explains what no code logs: {unknown:?}");
    assert!(needed.len() > 50, "the events were not found: {needed:?}");
}

#[test]
fn events_are_found_in_code_and_in_the_page() {
    let text = "tracing::warn!(\n    event = \"store.failed\",\n    %error,\n    \"store failed\"\n);\n\
        tracing::info!(target: \"guest\", event = \"guest.log\", \"{line}\");\ntracing::warn!(event = name, \"a\");";
    let events = [("warn", Some("store.failed")), ("warn", None), ("info", Some("guest.log"))];
    assert_eq!(logged_events(text), events);
    let page = "| event | level |\n| `a.b` | warn | m |\n| `task` | the task |\n| `c.d` | error | m |";
    assert_eq!(explained_events(page), [("a.b", "warn"), ("c.d", "error")]);
}
