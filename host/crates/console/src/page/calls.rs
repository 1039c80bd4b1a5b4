//! The list of plain calls.

use super::Rendered;
use crate::form::value;
use crate::html::{self, View, badge, empty};
use crate::text::{self, ago, line, micros};
use maud::{Markup, html};
use std::time::Duration;
use toolyard_dispatch::{CallEnd, CallOrder, CallPosition, CallRecord};

/// The rows of a page.
const ROWS: usize = 50;
/// The orders, by their names in the address.
const ORDERS: [(&str, CallOrder, &str); 3] = [
    ("", CallOrder::Newest, "newest"),
    ("failed", CallOrder::Failed, "only failed"),
    ("slowest", CallOrder::Slowest, "slowest"),
];

pub(super) fn page(view: &View<'_>) -> Rendered {
    let wanted = value(view.query, "show").unwrap_or_default();
    let (wanted, order, _) = *ORDERS.iter().find(|(name, ..)| *name == wanted).unwrap_or(&ORDERS[0]);
    let tool = value(view.query, "tool").map(str::trim).filter(|tool| !tool.is_empty());
    let after = value(view.query, "after").and_then(position);
    let history = view.console.dispatch.observers().history.get();
    let (calls, more) = history.map(|history| history.list(order, tool, after, ROWS)).unwrap_or_default();
    let is_filtered = !wanted.is_empty() || tool.is_some() || after.is_some();
    let content = html! {
        p.muted {
            "Plain calls of this host only, kept in memory since it started: the newest 2,000, the last 500 that failed, "
            "the slowest 200. Calls that became tasks are under " a href="/tasks" { "Tasks" } "."
        }
        (filters(wanted, tool))
        div #rows {
            @if calls.is_empty() {
                @if is_filtered {
                    (empty(html! { "No call matches. " a href="/calls" { "Clear filters" } }))
                } @else {
                    (empty(html! { "No calls yet. Try " code { "toolyard call TOOL" } ", or connect a client." }))
                }
            } @else {
                (table(view, &calls))
            }
        }
        p.pages {
            @if after.is_some() { a href=(address(wanted, tool, None)) { "First page" } " " }
            @if more && let Some(last) = calls.last() {
                a href=(address(wanted, tool, Some(last.position()))) rel="next" { "Next page" }
            }
        }
    };
    Rendered { title: "Calls".to_owned(), is_live: after.is_none(), content }
}

fn filters(wanted: &str, tool: Option<&str>) -> Markup {
    html! {
        form.filters method="get" action="/calls" role="search" {
            label { "Show "
                select name="show" {
                    @for (name, _, words) in ORDERS {
                        option value=(name) selected[name == wanted] { (words) }
                    }
                }
            }
            label { "Tool " input name="tool" value=[tool] spellcheck="false" data-filter; }
            button { "Filter" }
            @if wanted != "failed" { a href="/calls?show=failed" { "Only failed" } }
            @if wanted != "slowest" { a href="/calls?show=slowest" { "Slowest" } }
            @if !wanted.is_empty() || tool.is_some() { a href="/calls" { "Clear filters" } }
        }
    }
}

fn table(view: &View<'_>, calls: &[std::sync::Arc<CallRecord>]) -> Markup {
    let now = view.console.dispatch.now();
    let heads = ["Outcome", "Tool", "Call", "Began", "Took", "Waited", "CPU", "Memory", "Principal"];
    let rows = html! {
        @for call in calls {
            tr id={ "c-" (call.number) } {
                td { (outcome(call.end)) }
                td { (line(&call.tool)) }
                td { a href={ "/calls/" (call.number) } { (call.number) } }
                td { (ago(call.began, now)) }
                td { (micros(call.took)) }
                td { (micros(call.waited)) }
                td { @match call.usage { Some(usage) => (micros(usage.cpu)), None => "–" } }
                td { (memory(call)) }
                td.long { (line(&call.principal)) }
            }
        }
    };
    html::table("Calls", &heads, rows)
}

/// The peak memory of the guest.
pub(super) fn memory(call: &CallRecord) -> String {
    match call.usage.and_then(|usage| usage.memory) {
        Some(bytes) => format!("{} KiB", bytes >> 10),
        None => "–".to_owned(),
    }
}

/// How a call ended, by shape, colour and word.
pub(super) fn outcome(end: CallEnd) -> Markup {
    let (class, shape, word) = match end {
        CallEnd::Ok => ("ok", "✓", "completed".to_owned()),
        CallEnd::ToolError => ("bad", "✕", "tool error".to_owned()),
        CallEnd::Error(code) => ("bad", "✕", format!("error {code}")),
        CallEnd::InputRequired => ("asks", "?", "asks".to_owned()),
        CallEnd::Stopped => ("cancelled", "–", "stopped".to_owned()),
    };
    badge(class, shape, &word)
}

fn address(wanted: &str, tool: Option<&str>, after: Option<CallPosition>) -> String {
    let after = after.map(|after| format!("{}:{}", after.took.as_nanos(), after.number));
    text::address("/calls", &[("show", Some(wanted)), ("tool", tool), ("after", after.as_deref())])
}

/// Reads the position of a page from its address.
fn position(text: &str) -> Option<CallPosition> {
    let (took, number) = text.split_once(':')?;
    Some(CallPosition { took: Duration::from_nanos(took.parse().ok()?), number: number.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_again_by_its_address() {
        let at = CallPosition { took: Duration::from_nanos(1_501), number: 7 };
        let address = address("slowest", Some("a&b"), Some(at));
        assert_eq!(address, "/calls?show=slowest&tool=a%26b&after=1501%3A7");
        assert_eq!(position("1501:7"), Some(at));
        for text in ["", "7", "x:7", "7:x", "-1:7"] {
            assert_eq!(position(text), None, "{text}");
        }
    }
}
