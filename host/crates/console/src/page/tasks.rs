//! The list of tasks.

use super::Rendered;
use crate::form::value;
use crate::html::{self, View, empty, state};
use crate::text::{self, ago, line, short_id, span};
use maud::{Markup, html};
use toolyard_dispatch::search::{Direction, Filter, Position};
use toolyard_dispatch::{Caller, Fault, Summary, TaskId, TaskStatus, Timestamp, name_of};

/// The rows of a page.
const ROWS: u32 = 50;
/// The states that can be chosen, by their names on the wire.
const STATES: [(&str, TaskStatus, &str); 5] = [
    ("working", TaskStatus::Working, "working or queued"),
    ("input_required", TaskStatus::InputRequired, "asks"),
    ("completed", TaskStatus::Completed, "completed"),
    ("failed", TaskStatus::Failed, "failed"),
    ("cancelled", TaskStatus::Cancelled, "cancelled"),
];

pub(super) async fn page(view: &View<'_>) -> Result<Rendered, Fault> {
    let wanted = value(view.query, "state").unwrap_or_default();
    let tool = value(view.query, "tool").map(str::trim).filter(|tool| !tool.is_empty());
    let filter = Filter {
        statuses: STATES.iter().find(|(name, ..)| *name == wanted).map(|(_, status, _)| vec![*status]),
        tool: tool.map(str::to_owned),
        ..Filter::default()
    };
    let is_filtered = filter != Filter::default();
    let after = value(view.query, "after").and_then(position);
    let tasks = view.console.dispatch.tasks().await?;
    let found = tasks.find_tasks(&Caller::operator(), filter, Direction::Descending, after, ROWS).await?;
    let content = html! {
        (filters(wanted, tool))
        div #rows {
            @if found.tasks.is_empty() && found.next.is_none() {
                @if is_filtered || after.is_some() {
                    (empty(html! { "No task matches. " a href="/tasks" { "Clear filters" } }))
                } @else {
                    (empty(html! { "No tasks yet. A long call becomes one; try " code { "toolyard call TOOL --task" } "." }))
                }
            } @else {
                (table(view, &found.tasks))
            }
        }
        p.pages {
            @if after.is_some() { a href=(address(wanted, tool, None)) { "Newest" } " " }
            @if let Some(next) = found.next { a href=(address(wanted, tool, Some(next))) rel="next" { "Older" } }
        }
    };
    Ok(Rendered { title: "Tasks".to_owned(), is_live: after.is_none(), content })
}

fn filters(wanted: &str, tool: Option<&str>) -> Markup {
    html! {
        form.filters method="get" action="/tasks" role="search" {
            label { "State "
                select name="state" {
                    option value="" { "all" }
                    @for (name, _, words) in STATES {
                        option value=(name) selected[name == wanted] { (words) }
                    }
                }
            }
            label { "Tool " input name="tool" value=[tool] spellcheck="false" data-filter; }
            button { "Filter" }
            @if wanted != "failed" { a href="/tasks?state=failed" { "Only failed" } }
            @if !wanted.is_empty() || tool.is_some() { a href="/tasks" { "Clear filters" } }
        }
    }
}

fn address(wanted: &str, tool: Option<&str>, after: Option<Position>) -> String {
    let after = after.map(|after| format!("{}:{}", after.at.0, after.id));
    text::address("/tasks", &[("state", Some(wanted)), ("tool", tool), ("after", after.as_deref())])
}

/// Reads the position of a page from its address.
fn position(text: &str) -> Option<Position> {
    let (at, id) = text.split_once(':')?;
    let id = TaskId::parse(id)?;
    Some(Position { at: Timestamp(at.parse().ok()?), id, until: None })
}

/// A table of tasks.
pub(super) fn table(view: &View<'_>, tasks: &[Summary]) -> Markup {
    let now = view.console.dispatch.now();
    let heads = ["State", "Tool", "Task", "Created", "Took", "Owner", "Message"];
    let rows = html! {
        @for task in tasks {
            tr id={ "t-" (task.id) } {
                td { (state(task.status, task.has_started)) }
                td { (line(&task.tool)) }
                td { a href={ "/tasks/" (task.id) } { (short_id(&task.id.to_string())) } }
                td { (ago(task.created_at, now)) }
                td { (took(task, now)) }
                td { (line(&name_of(&task.owner))) }
                td.long { @if view.session.sees_contents { (line(task.status_message.as_deref().unwrap_or_default())) } }
            }
        }
    };
    html::table("Tasks", &heads, rows)
}

/// How long a task has taken so far, or took until it ended.
fn took(task: &Summary, now: Timestamp) -> String {
    let end = match task.status {
        TaskStatus::Working | TaskStatus::InputRequired => now,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => task.updated_at,
    };
    span(end.0.saturating_sub(task.created_at.0).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_again_by_its_address() {
        let id = TaskId::parse("0193e0a0-0000-7000-8000-000000000001").expect("an id");
        let at = Position { at: Timestamp(7), id, until: None };
        let address = address("failed", Some("a&b"), Some(at));
        assert_eq!(address, "/tasks?state=failed&tool=a%26b&after=7%3A0193e0a0-0000-7000-8000-000000000001");
        assert_eq!(position("7:0193e0a0-0000-7000-8000-000000000001"), Some(at));
        for text in ["", "7", "x:0193e0a0-0000-7000-8000-000000000001", "7:x"] {
            assert_eq!(position(text), None, "{text}");
        }
    }
}
