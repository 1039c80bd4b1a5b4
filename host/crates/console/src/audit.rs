//! The search of the audit log.

use crate::form::{Pairs, value};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The longest text of a filter (bytes).
const MAX_FILTER: usize = 512;

/// A search of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSearch {
    /// Only actions that begin with this text.
    pub action: Option<String>,
    /// Only principals that contain this text.
    pub principal: Option<String>,
    /// Only tasks whose ids begin with this text.
    pub task: Option<String>,
    /// Only this tool.
    pub tool: Option<String>,
    /// Only entries from this time on: the beginning of a time such as `2026-11-27T09:14`, in UTC.
    pub from: Option<String>,
    /// Only entries up to this time, which may be the beginning of a time as well.
    pub until: Option<String>,
    /// The number of hits to leave out.
    pub skip: usize,
    /// The maximum number of hits to return.
    pub limit: usize,
}

/// The hits of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditHits {
    /// The lines of the log, the newest first.
    pub lines: Vec<String>,
    /// Whether there may be further ones.
    pub has_more: bool,
    /// The reason why the search ended before the end of the log, or found no log.
    pub incomplete: Option<String>,
}

/// An entry of the log, as far as filters look at it.
#[derive(Deserialize)]
pub(crate) struct AuditEntry<'a> {
    #[serde(borrow)]
    pub at: Cow<'a, str>,
    #[serde(borrow)]
    pub action: Cow<'a, str>,
    #[serde(borrow)]
    pub principal: Cow<'a, str>,
    #[serde(borrow, default)]
    pub task: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub tool: Option<Cow<'a, str>>,
}

/// The other members of an entry.
pub(crate) fn other_members(line: &str) -> Map<String, Value> {
    let mut members: Map<String, Value> = serde_json::from_str(line).unwrap_or_default();
    members.retain(|name, _| !["at", "action", "principal", "task", "tool"].contains(&name.as_str()));
    members
}

impl AuditSearch {
    /// The names of the filters in the address of the page.
    pub(crate) const FILTERS: [&'static str; 6] = ["action", "principal", "task", "tool", "from", "until"];

    /// The search of a query. Filters without a text are left out.
    pub(crate) fn of(query: &Pairs, limit: usize) -> Self {
        let text = |name: &str| {
            let text = value(query, name)?.trim();
            (!text.is_empty()).then(|| text[..text.floor_char_boundary(MAX_FILTER)].to_owned())
        };
        let [action, principal, task, tool, from, until] = Self::FILTERS.map(text);
        let skip = value(query, "skip").and_then(|skip| skip.parse().ok()).unwrap_or_default();
        Self { action, principal, task, tool, from, until, skip, limit }
    }

    /// The value of each filter, in the order of [`Self::FILTERS`].
    pub(crate) fn filters(&self) -> [Option<&str>; 6] {
        [&self.action, &self.principal, &self.task, &self.tool, &self.from, &self.until].map(Option::as_deref)
    }

    /// Whether a line of the log is a hit. A line that is not an entry is not a hit.
    #[must_use]
    pub fn has(&self, line: &str) -> bool {
        // Few lines are hits, and a search for a text costs far less than reading JSON.
        let texts = [&self.action, &self.principal, &self.task, &self.tool];
        if texts.into_iter().flatten().any(|text| is_plain(text) && !line.contains(text.as_str())) {
            return false;
        }
        let Ok(entry) = serde_json::from_str::<AuditEntry<'_>>(line) else { return false };
        let at = &*entry.at;
        self.action.as_deref().is_none_or(|action| entry.action.starts_with(action))
            && self.principal.as_deref().is_none_or(|principal| entry.principal.contains(principal))
            && self.task.as_deref().is_none_or(|id| entry.task.as_deref().is_some_and(|task| task.starts_with(id)))
            && self.tool.as_deref().is_none_or(|tool| entry.tool.as_deref() == Some(tool))
            // Times of this form are in the order of their texts.
            && self.from.as_deref().is_none_or(|from| at >= from)
            && self.until.as_deref().is_none_or(|until| at <= until || at.starts_with(until))
    }
}

/// Whether JSON writes this text as it is.
fn is_plain(text: &str) -> bool {
    !text.contains(|char: char| char == '"' || char == '\\' || char.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"id":"9f3c2a1b-17-0","at":"2026-03-02T09:14:07.321Z","action":"task.created","principal":"https://idp.example#al\"ice","task":"786512e2-9e0d-44bd-8f29-789f320fe840","tool":"deploy","status":"working"}"#;

    fn search(query: &[(&str, &str)]) -> AuditSearch {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        AuditSearch::of(&query, 50)
    }

    #[test]
    fn filters_select_entries() {
        for (name, hit, miss) in [
            ("action", "task.", "console."),
            ("action", "task.created", "created"),
            ("principal", "al\"ice", "bob"),
            ("task", "786512e2", "86512e2"),
            ("tool", "deploy", "deplo"),
            ("from", "2026-03-02T09:14", "2026-03-02T09:15"),
            ("until", "2026-03-02T09:14", "2026-03-02T09:13"),
            ("until", "2026-03-02", "2026-03-01"),
        ] {
            assert!(search(&[(name, hit)]).has(LINE), "{name}={hit}");
            assert!(!search(&[(name, miss)]).has(LINE), "{name}={miss}");
        }
        assert!(search(&[("tool", "  "), ("task", "")]).has(LINE), "empty filters select all");
        assert!(!search(&[("tool", "deploy"), ("action", "task.ended")]).has(LINE), "all must select it");
        for other in ["", "{}", "half a line"] {
            assert!(!search(&[]).has(other), "{other}");
        }
    }

    #[test]
    fn an_entry_is_read_whole() {
        let entry: AuditEntry<'_> = serde_json::from_str(LINE).expect("an entry");
        assert_eq!((&*entry.action, entry.tool.as_deref()), ("task.created", Some("deploy")));
        assert_eq!(other_members(LINE).keys().collect::<Vec<_>>(), ["id", "status"]);
    }
}
