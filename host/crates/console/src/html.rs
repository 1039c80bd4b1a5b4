//! The frame of all pages, and the parts that several pages have.

use crate::action::{Action, Facts};
use crate::asset;
use crate::console::Console;
use crate::form::Pairs;
use crate::session::Session;
use crate::text::block;
use maud::{DOCTYPE, Markup, html};
use toolyard_dispatch::{RpcError, TaskStatus};

/// The request that a page answers.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub console: &'a Console,
    pub session: &'a Session,
    pub query: &'a Pairs,
    pub path: &'a str,
    /// The chosen theme; `None` follows the system.
    pub is_dark: Option<bool>,
}

/// The entries of the menu: address, the beginning of the addresses below it, and name. Tools are tried from the list
/// of tools.
const MENU: [(&str, &str, &str); 10] = [
    ("/", "/", "Overview"),
    ("/tasks", "/tasks", "Tasks"),
    ("/waiting", "/waiting", "Waiting"),
    ("/tools", "/tools", "Tools"),
    ("/tools", "/try", "Try"),
    ("/calls", "/calls", "Calls"),
    ("/permissions", "/permissions", "Permissions"),
    ("/clients", "/clients", "Clients"),
    ("/hosts", "/hosts", "Hosts"),
    ("/audit", "/audit", "Audit"),
];

/// A whole document.
pub(crate) fn document(
    title: &str,
    is_dark: Option<bool>,
    head: Option<Markup>,
    body: Markup,
    version: &str,
) -> Markup {
    let theme = is_dark.map(|is_dark| if is_dark { "dark" } else { "light" });
    html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "Toolyard " (version) };
                title { (title) " – toolyard" }
                link rel="icon" href=(asset::ICON.path);
                link rel="stylesheet" href=(asset::STYLE.path);
                script src=(asset::MORPH.path) defer {}
                script src=(asset::CODE.path) defer {}
                @if let Some(head) = head { (head) }
            }
            body { (body) }
        }
    }
}

impl View<'_> {
    /// A page with the menu. `waiting` is the number of tasks that wait for a person; `is_live` pages
    /// follow changes.
    pub fn page(&self, title: &str, waiting: usize, is_live: bool, content: Markup) -> Markup {
        let console = self.console;
        let head = html! {
            @if is_live { noscript { meta http-equiv="refresh" content="10"; } }
        };
        let shown = if waiting > 0 { format!("({waiting}) {title}") } else { title.to_owned() };
        let body = html! {
            a.skip href="#main" { "Skip to the content" }
            header.top {
                p.host { strong { "Toolyard" } " " span.muted { (console.settings.version) } }
                p.endpoint { code { (console.settings.endpoint) } }
                p.live #live aria-live="off" { @if is_live { "live" } @else { "" } }
                (self.theme_form())
                (self.form(Action::Logout, html! { button.plain { "Log out" } }))
            }
            div.frame {
                nav.side aria-label="Pages" {
                    details open {
                        summary { "Menu" }
                        ul {
                            @for (path, below, name) in MENU {
                                li { a href=(path) aria-current=[self.is_current(below).then_some("page")] {
                                    (name)
                                    @if path == "/waiting" { " " span.badge #waiting-count aria-live="polite" {
                                        @if waiting > 0 { (waiting) }
                                    } }
                                } }
                            }
                        }
                    }
                }
                main #main tabindex="-1" data-live=[is_live.then_some("")] {
                    h1 { (title) }
                    (content)
                }
            }
        };
        document(&shown, self.is_dark, Some(head), body, console.settings.version)
    }

    fn is_current(&self, path: &str) -> bool {
        match path {
            "/" => self.path == "/",
            path => self.path.starts_with(path),
        }
    }

    /// Both themes; the style shows the other one than is in force.
    fn theme_form(&self) -> Markup {
        self.form(
            Action::Theme,
            html! {
                button.plain.to-light name="theme" value="light" { "Light" }
                button.plain.to-dark name="theme" value="dark" { "Dark" }
            },
        )
    }

    /// The words in place of content that this login does not see.
    pub fn hidden(&self) -> Markup {
        html! { p.muted { "Your login does not show contents (" code { "contents" } " of " code { "[[console.users]]" } ")." } }
    }

    /// A form that does an action and leads back to this page; nothing, if this login may not do it.
    pub fn form(&self, action: Action<'_>, fields: Markup) -> Markup {
        let Facts { name, target, role, .. } = action.facts();
        if self.session.role < role {
            return html! {};
        }
        let token = self.console.sessions.form_token(self.session, name, target);
        html! {
            form method="post" action=(action.path()) data-action=(name) {
                input type="hidden" name="token" value=(token);
                input type="hidden" name="back" value=(self.path);
                (fields)
            }
        }
    }
}

/// A state by shape, colour and word.
pub(crate) fn state(status: TaskStatus, has_started: bool) -> Markup {
    let (class, shape, word) = match status {
        TaskStatus::Working if has_started => ("working", "●", "working"),
        TaskStatus::Working => ("queued", "◐", "queued"),
        TaskStatus::InputRequired => ("asks", "?", "asks"),
        TaskStatus::Completed => ("ok", "✓", "completed"),
        TaskStatus::Failed => ("bad", "✕", "failed"),
        TaskStatus::Cancelled => ("cancelled", "–", "cancelled"),
    };
    badge(class, shape, word)
}

/// A shape with words, in the colour of a class.
pub(crate) fn badge(class: &str, shape: &str, words: &str) -> Markup {
    html! { span class={ "state " (class) } { span aria-hidden="true" { (shape) } " " (words) } }
}

/// A table of `tr` elements that scrolls by itself. `label` names it to screen readers.
pub(crate) fn table(label: &str, heads: &[&str], rows: Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// A section with its heading.
pub(crate) fn section(id: &str, heading: &str, content: Markup) -> Markup {
    html! { section aria-labelledby=(id) { h2 id=(id) { (heading) } (content) } }
}

/// A failure of a call.
pub(crate) fn error(content: Markup) -> Markup {
    html! { div.error role="group" aria-label="Error" { (content) } }
}

/// The error of JSON-RPC that a call ended with.
pub(crate) fn rpc_error(error: &RpcError) -> Markup {
    self::error(
        html! { p { strong { "The call ended with the error " (error.code) } } (block(&error.message)) },
    )
}

/// Says that there is nothing, and what to do next.
pub(crate) fn empty(text: Markup) -> Markup {
    html! { p.empty { (text) } }
}
