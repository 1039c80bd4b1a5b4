//! A plugin: its state, its tools, its grants, its limits.

use super::Rendered;
use crate::host::{PluginDetail, PluginState};
use crate::html::{View, badge, section};
use crate::text::{count, digest, line, named, query, segment};
use maud::{Markup, html};
use toolyard_dispatch::{TaskSupport, ToolSpec, visible};

/// The page of a file of the plugin folder. `None` if there is none: no other text of the address is shown.
pub(super) fn page(view: &View<'_>, file: &str) -> Option<Rendered> {
    let plugin = view.console.host.plugin(&named(file))?;
    let state = &plugin.state;
    let manifest = format!("{}.toml", state.file.strip_suffix(".wasm").unwrap_or(&state.file));
    let catalog = view.console.dispatch.catalog().current();
    let tools: Vec<_> = catalog.tools().filter(|tool| tool.spec().plugin == state.file).collect();
    let content = html! {
        p.lead { (summary(state)) }
        @if plugin.locked.as_ref().is_some_and(|locked| locked.is_held) {
            p.bad { "A new version waits, because it changes what the plugin says or reaches. " code { "toolyard accept " (line(state.file.strip_suffix(".wasm").unwrap_or(&state.file))) } " shows the changes and takes it." }
        }
        @if let Some(problem) = &state.problem { p.bad { (visible::text(problem)) } }
        dl.facts {
            dt { "Component" } dd { @match &state.digest { Some(of) => (digest(of)), None => "none is served" } }
            dt { "Manifest" } dd { code { (line(&manifest)) } }
            @if let Some(locked) = &plugin.locked {
                dt { "Source" } dd { code { (line(&locked.source)) } }
                dt { "Signer" } dd { @match &locked.signer { Some(signer) => code { (line(signer)) }, None => "none: the digest alone is pinned" } }
            }
            @if let (Some(most), _) = plugin.bounds { dt { "Concurrent runs" } dd { (most) } }
            @if let (_, Some(most)) = plugin.bounds { dt { "Waiting tasks" } dd { (most) } }
        }
        (grants(&plugin))
        (section("tools", "Tools", html! {
            @if tools.is_empty() { p.muted { "It serves no tool." } }
            @for tool in &tools { (tool_of(tool.spec(), &manifest)) }
            @for left_out in &plugin.left_out { p.bad { (line(left_out)) } }
        }))
        (limits(&plugin))
        (section("off", "Switch it off", html! {
            p { "This line of " code { (line(&manifest)) } " disables the plugin. It stands above all tables." }
            pre.text { "enabled = false" }
        }))
    };
    Some(Rendered { title: line(&state.file), is_live: false, content })
}

/// Whether a plugin is served, in words.
pub(super) fn summary(plugin: &PluginState) -> Markup {
    let counted = |tools| count(tools, "tool", "tools");
    match (plugin.tools, &plugin.problem) {
        (Some(tools), None) => badge("ok", "✓", &counted(tools)),
        (Some(tools), Some(_)) => badge("asks", "◐", &format!("{} of the version before", counted(tools))),
        (None, _) => badge("bad", "✕", "not served"),
    }
}

fn grants(plugin: &PluginDetail) -> Markup {
    let lists = [
        ("Granted", &plugin.granted, "Nothing is granted."),
        ("Missing", &plugin.missing, "Everything that it imports is granted."),
        ("Unused", &plugin.unused, "No grant is unused."),
    ];
    let content = html! {
        @if plugin.state.digest.is_none() {
            p.muted { "No component is served. " code { "toolyard check FILE" } " describes the file." }
        } @else {
            dl.facts {
                @for (title, lines, none) in lists {
                    dt { (title) }
                    dd {
                        @if lines.is_empty() { span.muted { (none) } }
                        @for one in lines { div { (line(one)) } }
                    }
                }
            }
            p.muted { "Imports are found by the functions that the component imports. The runtime of a language may import more than a tool uses." }
        }
    };
    section("grants", "Grants and imports", content)
}

fn tool_of(tool: &ToolSpec, manifest: &str) -> Markup {
    let name = tool.name();
    let tasks = match tool.task_support {
        TaskSupport::Forbidden => "cannot be called as a task",
        TaskSupport::Optional => "can be called as a task",
        TaskSupport::Required => "is always called as a task",
    };
    html! {
        article.tool {
            h3 { code { (line(name)) } @if let Some(title) = &tool.description.title { " " span.muted { (line(title)) } } }
            p {
                "It " (tasks) ". " a href={ "/try/" (segment(name)) } { "Try" } " · "
                a href={ "/tasks?" (query("tool", name)) } { "Its tasks" }
            }
            @if let Some(description) = &tool.description.description {
                p.muted { "The tool says:" }
                p.said { (visible::text(&description[..description.floor_char_boundary(4 << 10)])) }
            }
            details {
                summary { "Switch it off" }
                p { "In " code { (line(manifest)) } ":" }
                pre.text { "[tools." (toml_key(name)) "]\nenabled = false" }
            }
        }
    }
}

/// A name as a key of TOML.
fn toml_key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { name.to_owned() } else { visible::line(&format!("{name:?}")).into_owned() }
}

fn limits(plugin: &PluginDetail) -> Markup {
    let are_same = plugin.limits.windows(2).all(|pair| pair[0].1 == pair[1].1);
    let shown = if are_same { &plugin.limits[..plugin.limits.len().min(1)] } else { &plugin.limits };
    let content = html! {
        @for (tool, rows) in shown {
            details {
                summary { @if are_same { "All tools" } @else { code { (line(tool)) } } }
                dl.facts { @for (key, value) in rows { dt { code { (key) } } dd { (value) } } }
            }
        }
    };
    html! { @if !shown.is_empty() { (section("limits", "Limits of a run", content)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_where_toml_needs_it() {
        assert_eq!(["a_b-1", "a.b", "a\"b", ""].map(toml_key), ["a_b-1", "\"a.b\"", "\"a\\\"b\"", "\"\""]);
    }
}
