//! Approvals and open questions of tasks, the oldest first.

use super::{Rendered, approval, json_tree, question};
use crate::html::{View, empty};
use crate::text::{ago, line};
use maud::html;
use toolyard_dispatch::{Caller, Fault, Summary, name_of};

/// The tasks whose questions are shown at once.
const SHOWN: usize = 20;

pub(super) async fn page(view: &View<'_>, waiting: &[Summary]) -> Result<Rendered, Fault> {
    let mut tasks = Vec::new();
    for summary in waiting.iter().take(SHOWN) {
        match view.console.dispatch.tasks().await?.task(&Caller::operator(), &summary.id.to_string()).await {
            Ok(task) => tasks.push(task),
            // It has ended meanwhile.
            Err(Fault::UnknownTask) => {}
            Err(fault) => return Err(fault),
        }
    }
    let now = view.console.dispatch.now();
    let content = html! {
        @if tasks.is_empty() { (empty(html! { "Nothing waits for you." })) }
        @for task in &tasks {
            article.waits id={ "t-" (task.id) } {
                h2 { a href={ "/tasks/" (task.id) } { (line(&task.tool)) } }
                @if let Some(approval) = task.open_approval() { (approval::form(view, task, approval)) } @else {
                p.muted { "called by " (line(&name_of(&task.owner))) ", " (ago(task.created_at, now)) }
                @for question in task.open_questions() { (question::form(view, task, question)) }
                @if view.session.sees_contents { details { summary { "Arguments of the call" } (json_tree::of(&task.arguments)) } }
                }
            }
        }
        @if waiting.len() > SHOWN {
            p.muted { (waiting.len() - SHOWN) " more tasks wait. Answer these first." }
        }
    };
    Ok(Rendered { title: "Waiting".to_owned(), is_live: true, content })
}
