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

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page<'a> {
    Overview,
    Tasks,
    Task(&'a str),
    Waiting,
    Tools,
    Calls,
    Call(u64),
    /// A plugin, by its file as a segment of the path.
    Plugin(&'a str),
    /// A tool to try, by its name as a segment of the path.
    Try(&'a str),
    Permissions,
    Clients,
    Hosts,
    Audit,
}

impl<'a> Page<'a> {
    /// The page at this path.
    pub fn of(path: &'a str) -> Option<Self> {
        Some(match path {
            "/" => Self::Overview,
            "/tasks" => Self::Tasks,
            "/waiting" => Self::Waiting,
            "/tools" => Self::Tools,
            "/calls" => Self::Calls,
            "/permissions" => Self::Permissions,
            "/clients" => Self::Clients,
            "/hosts" => Self::Hosts,
            "/audit" => Self::Audit,
            _ => match path.strip_prefix('/')?.split_once('/')? {
                (_, rest) if rest.contains('/') => return None,
                ("tasks", id) => Self::Task(id),
                ("tools", file) => Self::Plugin(file),
                ("try", tool) => Self::Try(tool),
                ("calls", number) => Self::Call(number.parse().ok()?),
                _ => return None,
            },
        })
    }
}

/// Renders a page.
pub(crate) async fn render(view: &View<'_>, page: Page<'_>) -> Reply {
    let waiting = match waiting_tasks(view).await {
        Ok(waiting) => waiting,
        Err(fault) => return broken(view, &fault),
    };
    let rendered = match page {
        Page::Overview => overview::page(view, &waiting).await,
        Page::Tasks => tasks::page(view).await,
        Page::Task(id) => task::page(view, id).await,
        Page::Waiting => waiting::page(view, &waiting).await,
        Page::Tools => Ok(tools::page(view)),
        Page::Calls => Ok(calls::page(view)),
        Page::Call(number) => match call::page(view, number) {
            Some(rendered) => Ok(rendered),
            None => return unknown_call(view, waiting.len()),
        },
        Page::Plugin(file) => match plugin::page(view, file) {
            Some(rendered) => Ok(rendered),
            None => return not_found(view).await,
        },
        Page::Try(tool) => match try_tool::page(view, tool) {
            Some(rendered) => Ok(rendered),
            None => return not_found(view).await,
        },
        Page::Permissions => permissions::page(view).await,
        Page::Clients => clients::page(view).await,
        Page::Hosts => hosts::page(view).await,
        Page::Audit => Ok(audit::page(view).await),
    };
    match rendered {
        Ok(Rendered { title, is_live, content }) => {
            reply::page(StatusCode::OK, view.page(&title, waiting.len(), is_live, content))
        }
        Err(Fault::UnknownTask) => {
            let content = html! {
                p { "There is no task of this id any more. Tasks are kept until their ttl has passed." }
                p { a href="/tasks" { "All tasks" } }
            };
            reply::page(StatusCode::NOT_FOUND, view.page("Unknown task", waiting.len(), false, content))
        }
        Err(fault) => broken(view, &fault),
    }
}

fn unknown_call(view: &View<'_>, waiting: usize) -> Reply {
    let content = html! {
        p { "There is no call of this number any more. Newer, slower and failed calls have taken its place." }
        p { a href="/calls" { "All calls" } }
    };
    reply::page(StatusCode::NOT_FOUND, view.page("Unknown call", waiting, false, content))
}

/// A page that is the answer to an action.
async fn framed(view: &View<'_>, status: StatusCode, page: Rendered) -> Reply {
    let waiting = waiting_tasks(view).await.map_or(0, |waiting| waiting.len());
    reply::page(status, view.page(&page.title, waiting, page.is_live, page.content))
}

pub(crate) async fn not_found(view: &View<'_>) -> Reply {
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
    let found = view
        .console
        .dispatch
        .find_tasks(&Caller::operator(), filter, Direction::Ascending, None, COUNTED)
        .await?;
    Ok(found.tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_page_or_nothing() {
        assert_eq!(Page::of("/"), Some(Page::Overview));
        assert_eq!(Page::of("/tasks/0193"), Some(Page::Task("0193")));
        assert_eq!(Page::of("/calls/7"), Some(Page::Call(7)));
        assert_eq!(Page::of("/tools/a+b.wasm"), Some(Page::Plugin("a+b.wasm")));
        let strange = ["/tasks/0193/cancel", "/task", "//", "/../tasks", "/calls/", "/calls/x", "/calls/7/8"];
        for path in strange.into_iter().chain(["/audit/x", "/tools/a/b"]) {
            assert_eq!(Page::of(path), None, "{path}");
        }
    }
}
