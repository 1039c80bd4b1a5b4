//! The sessions of MCP clients.

use super::Rendered;
use crate::action::Action;
use crate::html::{self, View, empty};
use crate::text::{ago, line};
use maud::{Markup, html};
use toolyard_dispatch::{Fault, Session, owner_name};
use toolyard_protocol::ClientCapabilities;

/// The sessions that are shown.
const ROWS: usize = 100;

pub(super) async fn page(view: &View<'_>) -> Result<Rendered, Fault> {
    let sessions = view.console.dispatch.sessions(ROWS as u32 + 1).await?;
    let content = html! {
        p {
            "The sessions of the store, the latest used first. Clients of revision 2026-07-28 have no session, and are not here."
        }
        @if sessions.is_empty() {
            (empty(html! { "No client has a session. Connect one to " code { (view.console.settings.endpoint) } ", or run " code { "toolyard connect" } "." }))
        } @else {
            (table(view, &sessions[..sessions.len().min(ROWS)]))
        }
        @if sessions.len() > ROWS { p.muted { "The " (ROWS) " that were used last are shown." } }
    };
    Ok(Rendered { title: "Clients".to_owned(), is_live: true, content })
}

fn table(view: &View<'_>, sessions: &[Session]) -> Markup {
    let now = view.console.dispatch.now();
    let heads = ["Client", "Revision", "Principal", "Since", "Last seen", "Capabilities", "Action"];
    let rows = html! {
        @for session in sessions {
            @let digest = session.id.digest().to_string();
            tr id={ "s-" (digest) } {
                td.long { strong { (line(&session.client)) } }
                td { (line(&session.revision)) }
                td { (line(&owner_name(&session.owner))) }
                td { (ago(session.created_at, now)) }
                td { (ago(session.seen_at, now)) }
                td.long { (capability_names(session, view.console.dispatch.is_bridged(session)).join(", ")) }
                td {
                    (view.form(Action::EndSession(&digest), html! {
                        button.small aria-label={ "End the session of " (line(&session.client)) } { "End session" }
                    }))
                }
            }
        }
    };
    html::table("Clients", &heads, rows)
}

/// The capabilities of a client in words.
fn capability_names(session: &Session, is_bridged: bool) -> Vec<&'static str> {
    let can = ClientCapabilities::of(&session.client_capabilities);
    let asked = match (can.form, can.url) {
        (true, true) => "can be asked by form and by page",
        (true, false) => "can be asked by form",
        (false, true) => "can be asked by page",
        (false, false) => "cannot be asked",
    };
    let tasks = match is_bridged {
        true => Some("knows no tasks: its long calls are handed off"),
        false => (can.tasks || session.task_aware).then_some("speaks tasks"),
    };
    let samples = can.sampling.then_some("can sample a model");
    let roots = can.roots.then_some("names its roots");
    [Some(asked), samples, roots, tasks].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_dispatch::{Owner, RawJson, SessionId, Timestamp};

    #[test]
    fn capabilities_are_shown_in_words() {
        let session = |capabilities: &'static str, task_aware| Session {
            id: SessionId("s".into()),
            owner: Owner::Local,
            revision: String::new(),
            client_capabilities: RawJson::trusted(capabilities),
            client: String::new(),
            log_level: None,
            subscriptions: Default::default(),
            task_aware,
            created_at: Timestamp(0),
            seen_at: Timestamp(0),
        };
        let words = |capabilities, task_aware, is_bridged| {
            capability_names(&session(capabilities, task_aware), is_bridged)
        };
        assert_eq!(words("{}", false, false), ["cannot be asked"]);
        assert_eq!(
            words("{}", false, true),
            ["cannot be asked", "knows no tasks: its long calls are handed off"]
        );
        assert_eq!(words("{}", true, false), ["cannot be asked", "speaks tasks"]);
        let all = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},"tasks":{}}"#;
        let expected =
            ["can be asked by form and by page", "can sample a model", "names its roots", "speaks tasks"];
        assert_eq!(words(all, false, false), expected);
    }
}
