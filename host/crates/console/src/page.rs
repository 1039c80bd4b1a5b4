//! The pages.

mod approval;
pub(crate) mod audit;
mod call;
mod calls;
mod clients;
mod content;
mod hosts;
mod json_tree;
mod markdown;
mod overview;
mod permissions;
mod plugin;
mod question;
pub(crate) mod task;
mod tasks;
mod timeline;
mod tools;
pub(crate) mod try_tool;
mod waiting;

use crate::html::View;
use crate::reply::{self, Reply};
use http::StatusCode;
use maud::{Markup, html};
use toolyard_dispatch::search::{Direction, Filter};
use toolyard_dispatch::{Caller, Fault, Summary, TaskStatus};

/// The most tasks that the menu counts as waiting for a person.
const COUNTED: u32 = 100;

/// The name of a page, and what it is about: `/tasks/0193` is the page of one task. `None` if no page is there.
fn place(path: &str) -> Option<(&str, Option<&str>)> {
    let path = path.strip_prefix('/')?;
    match path.split_once('/') {
        None => Some((path, None)),
        Some((name, about)) if !about.is_empty() && !about.contains('/') => Some((name, Some(about))),
        Some(_) => None,
    }
}

/// Renders the page at the path of the view.
pub(crate) async fn render(view: &View<'_>) -> Reply {
    let waiting = match waiting_tasks(view).await {
        Ok(waiting) => waiting,
        Err(fault) => return broken(view, &fault),
    };
    let rendered = match place(view.path) {
        Some(("", None)) => overview::page(view, &waiting).await.map(Some),
        Some(("tasks", None)) => tasks::page(view).await.map(Some),
        Some(("tasks", Some(id))) => task::page(view, id).await.map(Some),
        Some(("waiting", None)) => waiting::page(view, &waiting).await.map(Some),
        Some(("tools", None)) => Ok(Some(tools::page(view))),
        Some(("tools", Some(file))) => Ok(plugin::page(view, file)),
        Some(("try", Some(tool))) => Ok(try_tool::page(view, tool)),
        Some(("calls", None)) => Ok(Some(calls::page(view))),
        Some(("calls", Some(number))) => {
            match number.parse().ok().and_then(|number| call::page(view, number)) {
                None => return gone(view, waiting.len(), &UNKNOWN_CALL),
                rendered => Ok(rendered),
            }
        }
        Some(("permissions", None)) => permissions::page(view).await.map(Some),
        Some(("clients", None)) => clients::page(view).await.map(Some),
        Some(("hosts", None)) => hosts::page(view).await.map(Some),
        Some(("audit", None)) => Ok(Some(audit::page(view).await)),
        _ => Ok(None),
    };
    match rendered {
        Ok(Some(Rendered { title, is_live, content })) => {
            reply::page(StatusCode::OK, view.page(&title, waiting.len(), is_live, content))
        }
        Ok(None) => not_found(view),
        Err(Fault::UnknownTask) => gone(view, waiting.len(), &UNKNOWN_TASK),
        Err(fault) => broken(view, &fault),
    }
}

/// The title, the text, the list and the name of the list of a page whose object is gone.
type Gone = [&'static str; 4];

const UNKNOWN_TASK: Gone = [
    "Unknown task",
    "There is no task of this id any more. Tasks are kept until their ttl has passed.",
    "/tasks",
    "All tasks",
];
const UNKNOWN_CALL: Gone = [
    "Unknown call",
    "There is no call of this number any more. Newer, slower and failed calls have taken its place.",
    "/calls",
    "All calls",
];

fn gone(view: &View<'_>, waiting: usize, [title, text, list, name]: &Gone) -> Reply {
    let content = html! { p { (text) } p { a href=(list) { (name) } } };
    reply::page(StatusCode::NOT_FOUND, view.page(title, waiting, false, content))
}

/// A page that is the answer to an action.
async fn framed(view: &View<'_>, status: StatusCode, page: Rendered) -> Reply {
    let waiting = waiting_tasks(view).await.map_or(0, |waiting| waiting.len());
    reply::page(status, view.page(&page.title, waiting, page.is_live, page.content))
}

fn not_found(view: &View<'_>) -> Reply {
    let content = html! { p { "There is no such page. " a href="/" { "Overview" } } };
    reply::page(StatusCode::NOT_FOUND, view.page("Not found", 0, false, content))
}

fn broken(view: &View<'_>, fault: &Fault) -> Reply {
    tracing::warn!(
        event = "console.page_failed",
        error = fault as &dyn std::error::Error,
        path = view.path,
        "cannot show a page of the console"
    );
    let content = html! { p.bad role="alert" { "The host cannot read its store now. Its log says why." } };
    reply::page(StatusCode::SERVICE_UNAVAILABLE, view.page("Not available", 0, true, content))
}

/// A page without its frame.
struct Rendered {
    title: String,
    /// Whether it follows changes.
    is_live: bool,
    content: Markup,
}

/// The tasks that wait for a person, the oldest first.
async fn waiting_tasks(view: &View<'_>) -> Result<Vec<Summary>, Fault> {
    let filter = Filter { statuses: Some(vec![TaskStatus::InputRequired]), ..Filter::default() };
    let tasks = view.console.dispatch.tasks().await?;
    Ok(tasks.find_tasks(&Caller::operator(), filter, Direction::Ascending, None, COUNTED).await?.tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_page_or_nothing() {
        assert_eq!(place("/"), Some(("", None)));
        assert_eq!(place("/tasks"), Some(("tasks", None)));
        assert_eq!(place("/tools/a+b.wasm"), Some(("tools", Some("a+b.wasm"))));
        for strange in ["", "tasks", "//", "/../tasks/x", "/calls/", "/calls/7/8", "/tasks/0193/cancel"] {
            assert_eq!(place(strange), None, "{strange}");
        }
    }
}
