//! The hosts that share the store.

use super::Rendered;
use crate::html::{self, View, section};
use crate::text::{ago, count, digest, line, span};
use maud::{Markup, html};
use toolyard_dispatch::{Fault, Neighbour, lacked_components};

/// The hosts and the components that are shown.
const ROWS: usize = 100;

pub(super) async fn page(view: &View<'_>) -> Result<Rendered, Fault> {
    let dispatch = &view.console.dispatch;
    let hosts = if dispatch.node().is_shared { dispatch.hosts().await? } else { Vec::new() };
    let others = html! {
        @if dispatch.node().is_shared {
            (listed(view, &hosts))
        } @else {
            p {
                "No other host shares this store. Hosts on several machines share a PostgreSQL database ("
                code { "store" } ")."
            }
        }
    };
    let content = html! {
        (section("this", "This host", own(view)))
        (section("others", "Hosts of the database", others))
    };
    Ok(Rendered { title: "Hosts".to_owned(), is_live: true, content })
}

fn own(view: &View<'_>) -> Markup {
    let dispatch = &view.console.dispatch;
    let load = dispatch.load();
    let lease = dispatch.node().lease();
    html! {
        dl.facts {
            dt { "Version" } dd { (view.console.settings.version) }
            dt { "Endpoint" } dd { code { (line(&view.console.settings.endpoint)) } }
            dt { "Incarnation" }
            dd {
                @match lease { Some(lease) => (lease.incarnation), None => "none yet: a host registers before its first task" }
            }
            dt { "Lease" }
            dd {
                @match lease.map(|lease| lease.left) {
                    Some(Some(left)) => { (span(i64::try_from(left.as_millis()).unwrap_or(i64::MAX))) " left; the host renews it" },
                    Some(None) => "none: it counts as alive as long as its process",
                    None => "none",
                }
            }
            dt { "Load" }
            dd {
                (load.runs) " of " (load.bounds.running) " calls run, "
                (count(load.working, "task works", "tasks work")) ", " (load.waiting) " queued, "
                (count(load.asking, "asks", "ask"))
            }
        }
    }
}

fn listed(view: &View<'_>, hosts: &[Neighbour]) -> Markup {
    let now = view.console.dispatch.now();
    let own = view.console.dispatch.node().lease().map(|lease| lease.incarnation);
    let lacked = lacked_components(hosts);
    let heads = ["Host", "Incarnation", "Registered", "Components"];
    let rows = html! {
        @for host in hosts.iter().take(ROWS) {
            tr {
                td { (line(&host.name)) @if own == Some(host.incarnation.0) { span.muted { " (this host)" } } }
                td { (host.incarnation) }
                td { (ago(host.since, now)) }
                td { (host.components.len()) }
            }
        }
    };
    html! {
        @if hosts.is_empty() { p.muted { "No host has registered: each does before its first task." } }
        @else {
            (html::table("Hosts", &heads, rows))
            @if hosts.len() > ROWS { p.muted { (hosts.len() - ROWS) " more hosts." } }
            p.muted { "A host that misses a renewal of its lease is not here. The database knows no load and no version of other hosts; each console shows its own." }
            @if lacked.is_empty() {
                p { "All have the same components." }
            } @else {
                h3 { "Components that some hosts lack" }
                ul.tools {
                    @for (component, by) in lacked.iter().take(ROWS) {
                        li { (digest(&component.0)) " is not on " (by.iter().map(|host| line(&host.name)).collect::<Vec<_>>().join(", ")) }
                    }
                }
            }
        }
    }
}
