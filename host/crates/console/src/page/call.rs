//! A plain call: its figures, its waterfall, its arguments and its result.

use super::calls::{memory, outcome};
use super::{Rendered, json_tree};
use crate::html::{self, View, section};
use crate::text::{ago, block, count, line, micros, query};
use maud::{Markup, html};
use std::time::Duration;
use toolyard_dispatch::host_call::{HostAction, HttpRequest};
use toolyard_dispatch::{CallDetails, CallRecord, CapturedText, HostCalls, RawJson};

/// The width of a bar's picture, in its own units.
const WIDTH: u64 = 1_000;

/// The page; `None` if the call is no longer kept.
pub(super) fn page(view: &View<'_>, number: u64) -> Option<Rendered> {
    let (call, details) = view.console.dispatch.observers().history.get()?.get(number)?;
    let none = CallDetails::default();
    let details = details.as_deref().unwrap_or(&none);
    let content = html! {
        (head(view, &call))
        (section("waterfall", "Time of each part", waterfall(&call, &details.host_calls)))
        (section("arguments", "Arguments", contents(view, details.arguments.as_ref())))
        (section("result", "Result", contents(view, details.result.as_ref())))
    };
    Some(Rendered { title: format!("Call {number}"), is_live: false, content })
}

fn contents(view: &View<'_>, text: Option<&CapturedText>) -> Markup {
    if view.session.sees_contents { captured(text) } else { view.hidden() }
}

fn head(view: &View<'_>, call: &CallRecord) -> Markup {
    html! {
        p.lead { (outcome(call.end)) }
        dl.facts {
            dt { "Tool" } dd { a href={ "/calls?" (query("tool", &call.tool)) } { (line(&call.tool)) } }
            dt { "Principal" } dd { (line(&call.principal)) }
            dt { "Began" } dd { (ago(call.began, view.console.dispatch.now())) }
            dt { "Took" } dd { (micros(call.took)) }
            dt { "Waited for a slot" } dd { (micros(call.waited)) }
            @if let Some(usage) = call.usage { dt { "CPU" } dd { (micros(usage.cpu)) } }
            dt { "Peak memory" } dd { (memory(call)) }
        }
        p.muted { "A call of this host only. It is in memory, and gone after a restart." }
    }
}

/// A row of the waterfall.
struct Row {
    name: String,
    begins: Duration,
    took: Duration,
    details: String,
    class: &'static str,
}

/// The waits and host calls of a call, as a table with a bar in each row. The numbers say the same as the bars.
fn waterfall(call: &CallRecord, host_calls: &HostCalls) -> Markup {
    let row = |(name, details), begins, took, class| Row { name, begins, took, details, class };
    let part = |name: &str| (name.to_owned(), String::new());
    let mut rows = vec![
        row(part("waited for a slot"), Duration::ZERO, call.waited, "bar-wait"),
        row(part("guest"), call.waited, call.took.saturating_sub(call.waited), "bar-guest"),
    ];
    rows.extend(host_calls.listed.iter().map(|timed| {
        let begins = call.took.saturating_sub(timed.before_end);
        row(described(&timed.call.what), begins, timed.call.took, "bar-host")
    }));
    rows[2..].sort_by_key(|row| row.begins);
    let heads = ["Part", "Began at", "Took", "Of the call", "Details"];
    let rows = html! {
        @for row in &rows {
            tr {
                td { (line(&row.name)) }
                td { (micros(row.begins)) }
                td { (micros(row.took)) }
                td { (bar(row, call.took)) }
                td.long { (line(&row.details)) }
            }
        }
    };
    html! {
        (html::table("Time of each part", &heads, rows))
        @if !host_calls.further.is_empty() {
            p.muted {
                "Not listed: "
                @for (kind, count) in host_calls.further.iter() { (count) " " (kind) "; " }
                "a call lists 200."
            }
        } @else if host_calls.listed.is_empty() {
            p.muted { "The host did nothing outside the sandbox for this call that is kept." }
        }
    }
}

/// A bar by presentation attributes only; the policy of the page allows no inline style.
fn bar(row: &Row, all: Duration) -> Markup {
    let (from, width) = extent(row.begins, row.took, all);
    html! {
        svg.bar viewBox={ "0 0 " (WIDTH) " 12" } width="160" height="12" preserveAspectRatio="none" aria-hidden="true" {
            rect class=(row.class) x=(from) y="0" width=(width) height="12" {}
        }
    }
}

/// The beginning and the width of a bar. Even the shortest one is visible.
fn extent(begins: Duration, took: Duration, all: Duration) -> (u64, u64) {
    const LEAST: u64 = 6;
    let scaled = |time: Duration| match all.as_nanos() {
        0 => 0,
        all => {
            u64::try_from(time.as_nanos().saturating_mul(u128::from(WIDTH)) / all).unwrap_or(WIDTH).min(WIDTH)
        }
    };
    let from = scaled(begins).min(WIDTH - LEAST);
    (from, scaled(took).clamp(LEAST, WIDTH - from))
}

fn described(what: &HostAction) -> (String, String) {
    match what {
        HostAction::Http(request) => http(request),
        HostAction::Socket { protocol, peer, is_allowed } => {
            let allowed = if *is_allowed { "allowed" } else { "refused by the manifest" };
            (format!("{protocol} {peer}"), allowed.to_owned())
        }
        HostAction::Sleep => ("sleep".to_owned(), String::new()),
        HostAction::Question { count: asked, is_answered } => {
            let answered = if *is_answered { "answered" } else { "not answered" };
            ("question".to_owned(), format!("{}, {answered}", count(*asked, "question", "questions")))
        }
        HostAction::Permission { is_given } => {
            ("permission".to_owned(), if *is_given { "given" } else { "not given" }.to_owned())
        }
    }
}

fn http(request: &HttpRequest) -> (String, String) {
    let HttpRequest { method, scheme, host, port, status, error, sent, received, first_byte } = request;
    let mut details = Vec::new();
    details.extend(status.map(|status| format!("status {status}")));
    details.extend(error.map(str::to_owned));
    details.extend(first_byte.map(|time| format!("first byte after {}", micros(time))));
    details.push(format!("sent {sent} B, received {received} B"));
    (format!("{method} {scheme}://{host}:{port}"), details.join(", "))
}

fn captured(text: Option<&CapturedText>) -> Markup {
    let Some(text) = text else {
        return html! {
            p.muted {
                "Not kept. " code { "console.capture = \"all\"" } " keeps those of all calls, " code { "\"errors\"" }
                " those of calls that fail; the oldest make room."
            }
        };
    };
    let json = text.is_whole.then(|| RawJson::parse(text.text.clone()).ok()).flatten();
    html! {
        @if let Some(json) = json {
            (json_tree::of(&json))
        } @else {
            (block(&text.text))
            p.muted { "Only the first 16 KiB are kept." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_within_its_picture_and_visible() {
        let ms = Duration::from_millis;
        assert_eq!(extent(ms(0), ms(10), ms(10)), (0, 1_000));
        assert_eq!(extent(ms(5), ms(5), ms(10)), (500, 500));
        assert_eq!(extent(ms(10), ms(0), ms(10)), (994, 6));
        assert_eq!(extent(ms(90), ms(90), ms(10)), (994, 6), "longer than the call");
        assert_eq!(extent(ms(0), ms(0), ms(0)), (0, 6));
    }
}
