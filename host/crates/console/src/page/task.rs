//! A task: its state, its approval and its questions, its result, its timeline, its arguments.

use super::{Rendered, approval, content as blocks, json_tree, question, timeline};
use crate::action::Action;
use crate::html::{View, rpc_error, section, state};
use crate::reply::{self, Reply};
use crate::text::{ago, line, query, segment, span};
use http::StatusCode;
use maud::{Markup, html};
use toolyard_dispatch::{Caller, Fault, Outcome, Summary, Task, name_of};

/// The longest arguments that an address holds (bytes).
const LONGEST_AGAIN: usize = 4 << 10;

pub(super) async fn page(view: &View<'_>, id: &str) -> Result<Rendered, Fault> {
    let dispatch = &view.console.dispatch;
    let task = dispatch.tasks().await?.task(&Caller::operator(), id).await?;
    let timeline = timeline::read(dispatch, id).await?;
    // Those about an approval are for the person who calls.
    let questions: Vec<_> = task.open_questions().filter(|_| task.open_approval().is_none()).collect();
    let shows = view.session.sees_contents;
    let content = html! {
        (head(view, &task))
        @if let Some(approval) = task.open_approval() {
            (section("approval", "Waits for an approval", approval::form(view, &task, approval)))
        }
        @if !questions.is_empty() {
            (section("questions", "Waits for an answer", html! {
                @for question in questions { (question::form(view, &task, question)) }
            }))
        }
        (section("result", "Result", if shows { outcome(&task) } else { view.hidden() }))
        (section("timeline", "Timeline", timeline::section(&timeline, dispatch.now(), task.is_live(), shows)))
        (section("arguments", "Arguments", if shows { json_tree::of(&task.arguments) } else { view.hidden() }))
        @if shows && let Some(again) = again(view, &task) {
            p { a href=(again) { "Run again with the same arguments" } }
        }
        @if task.is_live() {
            section aria-label="Actions" {
                (view.form(Action::Cancel(&task.id.to_string()), html! { button.danger { "Cancel this task" } }))
            }
        }
    };
    Ok(Rendered { title: format!("Task {}", &task.id.to_string()[..8]), is_live: true, content })
}

/// The page that calls the tool with the same arguments, if it is still served and they fit into an address.
fn again(view: &View<'_>, task: &Task) -> Option<String> {
    let arguments = task.arguments.as_str();
    let is_offered = arguments.len() <= LONGEST_AGAIN
        && view.console.dispatch.catalog().current().get(&task.tool).is_some();
    is_offered.then(|| format!("/try/{}?{}", segment(&task.tool), query("arguments", arguments)))
}

fn head(view: &View<'_>, task: &Task) -> Markup {
    let now = view.console.dispatch.now();
    let summary = Summary::of(task);
    let left = task.due_at().0.saturating_sub(now.0).max(0);
    html! {
        p.lead {
            (state(summary.status, summary.has_started)) " "
            @if let Some(message) = task.status_message.as_ref().filter(|_| view.session.sees_contents) {
                span { (line(message)) }
            }
        }
        dl.facts {
            dt { "Tool" } dd { a href={ "/tasks?" (query("tool", &task.tool)) } { (line(&task.tool)) } }
            dt { "Task" } dd { code { (task.id) } }
            dt { "Component" } dd { code { (line(&task.digest.to_string())) } }
            dt { "Owner" } dd { (line(&name_of(&task.owner))) }
            dt { "Created" } dd { (ago(task.created_at, now)) }
            dt { "Started" } dd {
                @match task.started_at { Some(at) => (ago(at, now)), None => "not yet" }
            }
            @if !task.is_live() { dt { "Ended" } dd { (ago(task.updated_at, now)) } }
            dt { "Attempt" } dd { (task.fence.attempt) }
            dt { "Kept for" } dd { (span(left)) " more" }
        }
    }
}

fn outcome(task: &Task) -> Markup {
    match &task.outcome {
        None => html! { p.muted { "It has not ended yet." } },
        Some(Outcome::Result { result, .. }) => {
            blocks::result(result, Some(&format!("/tasks/{}/content", task.id)))
        }
        Some(Outcome::Error(error)) => rpc_error(error),
        Some(Outcome::Cancelled) => html! { p { "It was cancelled." } },
        Some(Outcome::Expired) => html! { p { "Its ttl passed before it ended." } },
    }
}

/// A block of a result that is not text.
pub(crate) async fn content(view: &View<'_>, id: &str, number: &str) -> Reply {
    let task = async { view.console.dispatch.tasks().await?.task(&Caller::operator(), id).await }.await;
    let found = match (&task, number.parse()) {
        _ if !view.session.sees_contents => None,
        (Ok(Task { outcome: Some(Outcome::Result { result, .. }), .. }), Ok(number)) => {
            blocks::file(result, number)
        }
        _ => None,
    };
    match found {
        Some(file) => reply::content(file.kind, file.bytes, file.is_image),
        None => reply::text(StatusCode::NOT_FOUND, "there is no such content\n"),
    }
}
