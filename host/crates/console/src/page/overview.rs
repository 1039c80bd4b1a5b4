//! The overview: is it healthy, what runs, what failed, what waits.

use super::{Rendered, tasks};
use crate::html::{View, empty, section};
use crate::text::count;
use maud::{Markup, html};
use toolyard_dispatch::search::{Direction, Filter};
use toolyard_dispatch::{Caller, Fault, Load, Summary, TaskStatus};

/// The failures that are shown.
const FAILURES: u32 = 5;

pub(super) async fn page(view: &View<'_>, waiting: &[Summary]) -> Result<Rendered, Fault> {
    let console = view.console;
    let unready = console.host.unready().await;
    let filter = Filter { statuses: Some(vec![TaskStatus::Failed]), ..Filter::default() };
    let operator = Caller::operator();
    let tasks = console.dispatch.tasks().await?;
    let failed = tasks.find_tasks(&operator, filter, Direction::Descending, None, FAILURES).await?.tasks;
    let waits = match waiting.len() {
        0 => empty(html! { "Nothing waits for you." }),
        tasks => html! {
            p { a href="/waiting" { (count(tasks, "task", "tasks")) " with a question or a call to approve" } }
        },
    };
    let failures = match failed.as_slice() {
        [] => empty(html! { "No task has failed. Tasks are kept until their ttl has passed." }),
        failed => tasks::table(view, failed),
    };
    let content = html! {
        (section("health", "Health", health(&unready)))
        (section("now", "Now", load(&console.dispatch.load())))
        (section("waits", "Waits for you", waits))
        (section("failures", "Latest failures", failures))
        (section("plugins", "Plugins", plugins(view)))
    };
    Ok(Rendered { title: "Overview".to_owned(), is_live: true, content })
}

fn health(unready: &[&str]) -> Markup {
    html! {
        @if unready.is_empty() {
            p.state.ok { span aria-hidden="true" { "✓" } " ready: the plugins are loaded and the store answers" }
        } @else {
            p.state.bad { span aria-hidden="true" { "✕" } " not ready" }
            ul { @for check in unready { li { (sentence(check)) } } }
        }
    }
}

/// A failed health check in words.
fn sentence(check: &str) -> &'static str {
    match check {
        "stopping" => "The host is stopping.",
        "plugins" => "The plugins are not loaded yet.",
        "store" => "The store does not answer.",
        _ => "A check of the host fails; its log says why.",
    }
}

fn load(now: &Load) -> Markup {
    let live = now.working as u64 + now.waiting as u64 + now.asking as u64;
    let meters = [
        ("Running calls", u64::from(now.runs), u64::from(now.bounds.running), "calls.running"),
        ("Live tasks", live, u64::from(now.live_tasks), "tasks.live"),
    ];
    html! {
        dl.meters {
            @for (name, value, most, setting) in meters {
                dt { (name) }
                dd {
                    meter min="0" max=(most) value=(value) high=(most * 9 / 10) aria-label=(name) {}
                    " " (value) " of " (most) " " code.muted { (setting) }
                }
            }
        }
        p {
            (count(now.working, "task works", "tasks work")) ", "
            (now.waiting) " queued, "
            (count(now.asking, "asks", "ask")) "."
        }
    }
}

fn plugins(view: &View<'_>) -> Markup {
    let plugins = view.console.host.plugins();
    let served = plugins.iter().filter(|plugin| plugin.tools.is_some()).count();
    let problems: Vec<_> = plugins.iter().filter(|plugin| plugin.problem.is_some()).collect();
    html! {
        p { a href="/tools" { (count(served, "plugin is served", "plugins are served")) } "." }
        @for plugin in problems {
            p.bad { code { (crate::text::line(&plugin.file)) } ": " (crate::text::line(plugin.problem.as_deref().unwrap_or_default())) }
        }
    }
}
