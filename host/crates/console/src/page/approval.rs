//! A call that waits for an approval, with everything that the approver decides about. The page marks who
//! wrote which text.

use super::json_tree;
use crate::action::Action;
use crate::form::value;
use crate::html::View;
use crate::text::{ago, line, span};
use maud::{Markup, html};
use toolyard_dispatch::{Approval, MAX_NOTE, Task, name_of};
use toolyard_protocol::visible;

/// Longer arguments are shown on a page of their own, before there is a button (bytes).
const SHOWN_AT_ONCE: usize = 16 << 10;

pub(super) fn form(view: &View<'_>, task: &Task, approval: &Approval) -> Markup {
    let now = view.console.dispatch.now();
    let left = i64::try_from(approval.expires_at(task).since(now)).unwrap_or(i64::MAX);
    let id = task.id.to_string();
    let catalog = view.console.dispatch.catalog().current();
    let tool = catalog.tools().find(|tool| tool.spec().name() == task.tool);
    let described = tool.as_ref().and_then(|tool| tool.spec().description.description.as_deref());
    // An approver must see the call.
    let may_decide = view.session.role >= Action::Approve(&id).facts().role;
    let is_whole =
        task.arguments.as_str().len() <= SHOWN_AT_ONCE || value(view.query, "arguments") == Some("all");
    let shown = html! { input type="hidden" name="fingerprint" value=(approval.fingerprint); };
    html! {
        div.approval {
            p { strong { "May this call run?" } " Nothing of it has run yet. " span.muted { (span(left)) " left" } }
            @if let Some(message) = &approval.message {
                p.muted { "The operator's configuration says:" }
                p.said { (visible::text(message)) }
            }
            dl.facts {
                dt { "Tool" } dd { (line(&task.tool)) }
                dt { "Component" } dd { code { (line(&task.digest.to_string())) } }
                dt { "Called by" } dd { (line(&name_of(&task.owner))) ", " (ago(task.created_at, now)) }
            }
            @if view.session.sees_contents || may_decide {
                p.muted { "Arguments of the call, which the caller wrote:" }
                @if is_whole { (json_tree::whole(&task.arguments)) } @else { (json_tree::of(&task.arguments)) }
            } @else {
                (view.hidden())
            }
            @if let Some(described) = described {
                details { summary { "The tool's own description" } p.said { (visible::text(described)) } }
            }
            @if !may_decide {
                p.muted { "Your login may not decide." }
            } @else if approval.is_for_operator() && !is_whole {
                p {
                    "The arguments are long. "
                    a href={ "/tasks/" (id) "?arguments=all" } { "Read them to their end, and then decide" } "."
                }
            } @else if approval.is_for_operator() {
                div.decide {
                    (view.form(Action::Deny(&id), html! {
                        (shown)
                        label for={ "note-" (id) } { "Note for the caller " span.muted { "(optional)" } }
                        input id={ "note-" (id) } name="note" maxlength=(MAX_NOTE);
                        button.danger { "Deny" }
                    }))
                    (view.form(Action::Approve(&id), html! { (shown) button data-guarded { "Approve" } }))
                }
            } @else {
                p { "Only the person who called decides (" code { "confirm-by = \"person\"" } ")." }
            }
        }
    }
}
