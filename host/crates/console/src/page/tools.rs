//! The plugins and their tools.

use super::{Rendered, plugin};
use crate::html::{View, empty};
use crate::text::{line, query, segment};
use maud::html;

pub(super) fn page(view: &View<'_>) -> Rendered {
    let plugins = view.console.host.plugins();
    let catalog = view.console.dispatch.catalog().current();
    let content = html! {
        @if plugins.is_empty() {
            (empty(html! {
                "No tools: " code { (line(&view.console.settings.plugins.display().to_string())) }
                " is empty. Put a .wasm file there, or run " code { "toolyard new" } "."
            }))
        }
        @for plugin in &plugins {
            section.plugin {
                h2 { a href={ "/tools/" (segment(&plugin.file)) } { code { (line(&plugin.file)) } } }
                p { (plugin::summary(plugin)) }
                @if let Some(problem) = &plugin.problem { p.bad { (line(problem)) } }
                @let tools: Vec<_> = catalog.tools().filter(|tool| tool.spec().plugin == plugin.file).collect();
                @if !tools.is_empty() {
                    ul.tools {
                        @for tool in tools {
                            li {
                                strong { (line(tool.spec().name())) }
                                @if let Some(text) = &tool.spec().description.description { " " span { (line(text)) } }
                                " " a.muted href={ "/try/" (segment(tool.spec().name())) } { "try" }
                                " " a.muted href={ "/tasks?" (query("tool", tool.spec().name())) } { "its tasks" }
                            }
                        }
                    }
                }
            }
        }
    };
    Rendered { title: "Tools".to_owned(), is_live: false, content }
}
