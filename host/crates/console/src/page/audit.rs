//! The search of the audit log.

use super::Rendered;
use crate::audit::{AuditEntry, AuditHits, AuditSearch, other_members};
use crate::html::{self, View, empty};
use crate::reply::{self, Reply};
use crate::text::{self, line, short_id};
use maud::{Markup, html};
use serde_json::Value;

/// The rows of a page.
const ROWS: usize = 50;
/// The most hits of an export.
const MAX_EXPORTED: usize = 200_000;

pub(super) async fn page(view: &View<'_>) -> Rendered {
    let search = AuditSearch::of(view.query, ROWS);
    let hits = view.console.host.search_audit(search.clone()).await;
    let is_filtered = search.filters().iter().any(Option::is_some);
    let content = html! {
        (filters(&search, is_filtered))
        @if let Some(why) = &hits.incomplete { p.bad role="status" { (line(why)) } }
        @if hits.lines.is_empty() {
            (empty(html! { @if is_filtered || search.skip > 0 { "No entry matches. " a href="/audit" { "Clear filters" } } @else { "The audit log is empty." } }))
        } @else {
            (table(&hits.lines))
        }
        p.pages {
            @if search.skip > 0 { a href=(address("/audit", &search, None)) { "Newest" } " " }
            @if hits.has_more { a href=(older(&search, &hits)) rel="next" { "Older" } " " }
            @if !hits.lines.is_empty() { a href=(address("/audit/export", &search, None)) download { "Export as JSON lines" } }
        }
    };
    Rendered { title: "Audit".to_owned(), is_live: false, content }
}

/// The hits as a file. Its last line says if the search is not complete.
pub(crate) async fn export(view: &View<'_>) -> Reply {
    let search = AuditSearch { skip: 0, ..AuditSearch::of(view.query, MAX_EXPORTED) };
    let AuditHits { mut lines, has_more, incomplete } = view.console.host.search_audit(search).await;
    let incomplete = incomplete.or_else(|| has_more.then(|| format!("the first {MAX_EXPORTED} hits")));
    lines.extend(incomplete.map(|why| serde_json::json!({"incomplete": why}).to_string()));
    lines.push(String::new());
    let disposition = "attachment; filename=\"audit-hits.jsonl\"";
    reply::download("application/x-ndjson", disposition, lines.join("\n"))
}

fn filters(search: &AuditSearch, is_filtered: bool) -> Markup {
    let titles = ["Action", "Principal", "Task", "Tool", "From", "Until"];
    let hints = ["task.cancelled", "", "", "", "2026-11-27T09:00", "2026-11-27"];
    let names = AuditSearch::FILTERS.iter().zip(titles).zip(hints);
    html! {
        form.filters method="get" action="/audit" role="search" {
            @for (((name, title), hint), value) in names.zip(search.filters()) {
                label { (title) " " input name=(name) value=[value] placeholder=(hint) size="16" spellcheck="false" data-filter[*name == "action"]; }
            }
            button { "Search" }
            @if is_filtered { a href="/audit" { "Clear filters" } }
        }
        p.muted { "An action or a task by its beginning, a principal by a part of its name, times in UTC." }
    }
}

/// The address of the same search.
fn address(path: &str, search: &AuditSearch, page: Option<(usize, &str)>) -> String {
    let skip = page.map(|(skip, _)| skip.to_string());
    let newest = |name| page.map(|(_, newest)| newest).filter(|_| name == "until");
    let filters = AuditSearch::FILTERS.into_iter().zip(search.filters());
    let mut pairs: Vec<_> = filters.map(|(name, value)| (name, value.or_else(|| newest(name)))).collect();
    pairs.push(("skip", skip.as_deref()));
    text::address(path, &pairs)
}

/// The next page. It begins at the newest entry of the first page, so that entries that come meanwhile move nothing.
fn older(search: &AuditSearch, hits: &AuditHits) -> String {
    let newest = hits.lines.first().and_then(|line| serde_json::from_str::<AuditEntry<'_>>(line).ok());
    let newest = newest.map(|entry| entry.at.into_owned()).unwrap_or_default();
    address("/audit", search, Some((search.skip.saturating_add(ROWS), &newest)))
}

fn table(lines: &[String]) -> Markup {
    let heads = ["Time", "Action", "Principal", "Task", "Tool", "More"];
    let rows = html! {
        @for (text, entry) in lines.iter().filter_map(|text| Some((text, serde_json::from_str::<AuditEntry<'_>>(text).ok()?))) {
            tr {
                td { time datetime=(line(&entry.at)) { (shown_time(&entry.at)) } }
                td { (line(&entry.action)) }
                td { (line(&entry.principal)) }
                td { @if let Some(task) = &entry.task { a href={ "/tasks/" (text::segment(task)) } { (short_id(&line(task))) } } }
                td { (line(entry.tool.as_deref().unwrap_or_default())) }
                td.long { (more(text)) }
            }
        }
    };
    html::table("Entries", &heads, rows)
}

/// A time to the second.
fn shown_time(at: &str) -> String {
    let text = at.get(..19).unwrap_or(at).replacen('T', " ", 1);
    line(&text)
}

/// The other members of an entry, in a line.
fn more(entry: &str) -> String {
    let members = other_members(entry).into_iter().filter(|(name, _)| *name != "id");
    let shown = members.map(|(name, value)| match (name.as_str(), value) {
        ("digest", Value::String(text)) => format!("digest={}", text.get(..12).unwrap_or(&text)),
        (name, Value::String(text)) => format!("{name}={text}"),
        (name, other) => format!("{name}={other}"),
    });
    line(&shown.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_begins_at_the_newest_entry() {
        let line = r#"{"at":"2026-03-02T09:14:07.321Z","action":"task.created","principal":"local"}"#;
        let hits = AuditHits { lines: vec![line.to_owned()], ..AuditHits::default() };
        let search =
            AuditSearch { tool: Some("a&b".to_owned()), skip: 0, limit: ROWS, ..AuditSearch::default() };
        let next = older(&search, &hits);
        assert_eq!(next, "/audit?tool=a%26b&until=2026-03-02T09%3A14%3A07.321Z&skip=50");
        let again = AuditSearch { until: Some("2026-03".to_owned()), skip: 50, ..search };
        assert_eq!(older(&again, &hits), "/audit?tool=a%26b&until=2026-03&skip=100", "a given time stays");
    }
}
