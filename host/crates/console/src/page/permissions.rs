//! The permissions that people gave plugins for all time.

use super::Rendered;
use crate::action::Action;
use crate::form::value;
use crate::html::{self, View, badge, empty, section};
use crate::text::{ago, count, digest, line, query, segment};
use maud::{Markup, html};
use toolyard_dispatch::{AfterGrant, Fault, Grant, GrantFilter, GrantId, Timestamp, Verdict, owner_name};

/// The rows of a page.
const ROWS: usize = 50;

pub(super) async fn page(view: &View<'_>) -> Result<Rendered, Fault> {
    let wanted = |name: &str| value(view.query, name).filter(|text| !text.is_empty()).map(str::to_owned);
    let filter = GrantFilter { plugin: wanted("plugin"), principal: wanted("principal") };
    let is_filtered = filter != GrantFilter::default();
    let after = value(view.query, "after").and_then(position);
    let dispatch = &view.console.dispatch;
    let grants = if is_filtered {
        dispatch.access().find_grants(&filter).await?
    } else {
        dispatch.access().list_grants(after, ROWS as u32 + 1).await?
    };
    let next = grants.get(ROWS).and_then(|_| grants.get(ROWS - 1)).filter(|_| !is_filtered);
    let shown = &grants[..grants.len().min(ROWS)];
    let content = html! {
        p {
            "A plugin asks a person where its manifest says " code { "grant = \"ask\"" }
            ". These are the answers that are kept: for all time, or until the session of an anonymous client ends. After a revocation, the next use asks again."
        }
        @if is_filtered {
            p {
                (count(grants.len(), "permission", "permissions"))
                @if let Some(plugin) = &filter.plugin { " of the plugin " code { (line(plugin)) } }
                @if let Some(principal) = &filter.principal { " of the principal " code { (line(principal)) } }
                ". " a href="/permissions" { "Clear filters" }
            }
            @if grants.len() > ROWS { p.muted { "The first " (ROWS) " are shown." } }
            (revoke_all(view, &filter, grants.len()))
        }
        @if shown.is_empty() {
            (empty(html! { @if is_filtered || after.is_some() { "No permission matches." } @else { "No permission is kept yet." } }))
        } @else {
            (table(view, shown))
        }
        p.pages {
            @if after.is_some() { a href="/permissions" { "Oldest" } " " }
            @if let Some(last) = next {
                a href={ "/permissions?" (query("after", &format!("{}:{}", last.given_at.0, last.id))) } rel="next" { "Newer" }
            }
        }
        (asked(view))
    };
    Ok(Rendered { title: "Permissions".to_owned(), is_live: false, content })
}

/// The position of a page, from its address.
fn position(text: &str) -> Option<AfterGrant> {
    let (at, id) = text.split_once(':')?;
    Some(AfterGrant { given_at: Timestamp(at.parse().ok()?), id: GrantId::parse(id)? })
}

/// Only a filter for one thing revokes all: the button says exactly what it does.
fn revoke_all(view: &View<'_>, filter: &GrantFilter, number: usize) -> Markup {
    let button = |of: &str| html! { button.danger { "Revoke all of this " (of) } };
    match (&filter.plugin, &filter.principal) {
        _ if number == 0 => html! {},
        (Some(plugin), None) => view.form(Action::RevokePlugin(&segment(plugin)), button("plugin")),
        (None, Some(name)) => view.form(Action::RevokePrincipal(&segment(name)), button("principal")),
        _ => html! {},
    }
}

fn table(view: &View<'_>, grants: &[Grant]) -> Markup {
    let now = view.console.dispatch.now();
    let heads = ["Verdict", "What", "Plugin", "Component", "Principal", "Given", "Action"];
    let rows = html! {
        @for grant in grants {
            @let owner = owner_name(&grant.owner);
            tr id={ "g-" (grant.id) } {
                td { (verdict(grant.verdict)) }
                td.long { (line(&grant.wanted.to_string())) }
                td { a href={ "/permissions?" (query("plugin", &grant.plugin)) } { (line(&grant.plugin)) } }
                td { (digest(&grant.digest.0)) }
                td { a href={ "/permissions?" (query("principal", &owner)) } { (line(&owner)) } }
                td { (ago(grant.given_at, now)) }
                td {
                    (view.form(Action::RevokeGrant(&grant.id.to_string()), html! {
                        button.small aria-label={ "Revoke: " (line(&grant.wanted.to_string())) } { "Revoke" }
                    }))
                }
            }
        }
    };
    html::table("Permissions", &heads, rows)
}

fn verdict(verdict: Verdict) -> Markup {
    match verdict {
        Verdict::Allow => badge("ok", "✓", "allow"),
        Verdict::Deny => badge("bad", "✕", "deny"),
    }
}

/// The folders and hosts that manifests leave to the person who calls.
fn asked(view: &View<'_>) -> Markup {
    let plugins = view.console.host.plugins();
    let asking: Vec<_> = plugins.iter().filter(|plugin| !plugin.asks.is_empty()).collect();
    let content = html! {
        @if asking.is_empty() {
            p.muted { "No manifest says " code { "grant = \"ask\"" } "." }
        }
        @for plugin in asking {
            h3 { a href={ "/tools/" (segment(&plugin.file)) } { code { (line(&plugin.file)) } } }
            ul.tools { @for asked in &plugin.asks { li { (line(asked)) } } }
        }
    };
    section("asked", "Left to the person who calls", content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_again_by_its_address() {
        let id = "0193e0a0-0000-4000-8000-000000000001";
        let found = position(&format!("7:{id}")).expect("a position");
        assert_eq!((found.given_at, found.id.to_string().as_str()), (Timestamp(7), id));
        for text in ["", "7", &format!("x:{id}"), "7:x"] {
            assert_eq!(position(text), None, "{text}");
        }
    }
}
