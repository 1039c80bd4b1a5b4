//! Events of the log: their names, and the page that explains them.

use super::{code, is_test, sources, without_inline_tests};
use std::collections::{BTreeMap, BTreeSet};
use toolyard_tests::guests::root;

/// The levels whose events need a name, and their macros. The others are for the authors of this program.
const LEVELS: [(&str, &str); 3] =
    [("error", "tracing::error!("), ("warn", "tracing::warn!("), ("info", "tracing::info!(")];

/// The shipped program has no fail points, so no operator meets their events.
const NOT_SHIPPED: &str = "failpoint.";

/// An event that a source logs.
#[derive(Debug, PartialEq)]
struct LoggedEvent<'a> {
    level: &'static str,
    /// `None` if its first field is not a constant name.
    name: Option<&'a str>,
    /// The format string of its message.
    message: &'a str,
}

/// The end of the macro call whose arguments begin with this text.
fn end_of_arguments(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut is_escaped) = (1, false, false);
    text.char_indices().find_map(|(at, c)| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            '(' | '[' | '{' if !in_string => depth += 1,
            ')' | ']' | '}' if !in_string => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// The events that this code logs.
fn logged_events(text: &str) -> Vec<LoggedEvent<'_>> {
    let of_level = |(level, start): (&'static str, &'static str)| {
        text.split(start).skip(1).map(move |rest| {
            let arguments = &rest[..end_of_arguments(rest).expect("the call ends")];
            let fields = match arguments.trim_start().strip_prefix("target: \"guest\",") {
                Some(fields) => fields.trim_start(),
                None => arguments.trim_start(),
            };
            let name = fields.strip_prefix("event = \"").and_then(|rest| rest.split('"').next());
            // The message is the last string that is not the value of a field.
            let strings = arguments.split('"').collect::<Vec<_>>();
            let message = strings.chunks_exact(2).rfind(|pair| !pair[0].trim_end().ends_with(['=', ':']));
            LoggedEvent { level, name, message: message.map_or("", |pair| pair[1]) }
        })
    };
    LEVELS.into_iter().flat_map(of_level).collect()
}

/// The complaint about this event, if it has one.
fn complaint(event: &LoggedEvent<'_>) -> Option<&'static str> {
    let Some(name) = event.name else { return Some("the first field is `event = \"area.what_happened\"`") };
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    if name.split('.').count() != 2 || !name.split('.').all(is_word) {
        return Some("a name is `area.what_happened`, lower case");
    }
    // The message of this one is the text of a guest.
    if name == "guest.log" {
        return None;
    }
    let message = event.message;
    if message.is_empty() || message.contains('{') {
        return Some("a message is a constant text; data goes into fields");
    }
    let is_plain = !message.starts_with(|c: char| c.is_uppercase()) && !message.ends_with('.');
    (!is_plain).then_some("a message begins in lower case and ends without a full stop")
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
        for event in logged_events(&text) {
            assert_eq!(complaint(&event), None, "{}: {event:?}", path.display());
            let name = event.name.expect("it has one").to_owned();
            let former = levels.insert(name, event.level).unwrap_or(event.level);
            assert_eq!(former, event.level, "{}: {event:?} has another level elsewhere", path.display());
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
fn bad_events_are_noticed() {
    let complains = |arguments: &str| {
        let text = format!("tracing::warn!({arguments});");
        let events = logged_events(&text);
        assert_eq!(events.len(), 1, "{arguments}");
        complaint(&events[0])
    };
    assert_eq!(complains(r#"event = "store.failed", task = f(id, "("), %error, "store failed""#), None);
    assert_eq!(complains(r#"target: "guest", event = "guest.log", "{line}""#), None);
    for arguments in [
        r#""store failed""#,
        r#"task, event = "store.failed", "store failed""#,
        r#"event = name, "store failed""#,
        r#"event = "store", "store failed""#,
        r#"event = "store.Failed", "store failed""#,
        r#"event = "store.failed.again", "store failed""#,
        r#"event = "store.failed""#,
        r#"event = "store.failed", "store failed: {error}""#,
        r#"event = "store.failed", "Store failed""#,
        r#"event = "store.failed", "store failed.""#,
    ] {
        assert!(complains(arguments).is_some(), "{arguments}");
    }
    let page = "| event | level |\n| `a.b` | warn | m |\n| `task` | the task |\n| `c.d` | error | m |";
    assert_eq!(explained_events(page), [("a.b", "warn"), ("c.d", "error")]);
}
