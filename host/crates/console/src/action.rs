//! The actions of pages. Each is a POST with a token of its form; a new one is one more variant.

use crate::Console;
use crate::reply::{self, Reply};
use crate::route::{Pairs, value};
use crate::session::Session;
use http::StatusCode;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use toolyard_dispatch::{ApprovalDecision, Caller, Fault, Form, MAX_NOTE, RawJson, Task, name_of};
use toolyard_protocol::question::form::misfit;

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// Ends the login.
    Logout,
    /// Chooses light or dark pages.
    Theme,
    /// Cancels a task.
    Cancel(&'a str),
    /// Answers a question of a task.
    Answer(&'a str),
    /// Lets a call run.
    Approve(&'a str),
    /// Ends a call that has not run.
    Deny(&'a str),
}

impl<'a> Action<'a> {
    /// The action at this path.
    pub fn of(path: &'a str) -> Option<Self> {
        match path {
            "/logout" => Some(Self::Logout),
            "/theme" => Some(Self::Theme),
            _ => match path.strip_prefix("/tasks/")?.split_once('/')? {
                (id, "cancel") => Some(Self::Cancel(id)),
                (id, "answer") => Some(Self::Answer(id)),
                (id, "approve") => Some(Self::Approve(id)),
                (id, "deny") => Some(Self::Deny(id)),
                _ => None,
            },
        }
    }

    pub fn path(self) -> String {
        match self {
            Self::Logout => "/logout".to_owned(),
            Self::Theme => "/theme".to_owned(),
            Self::Cancel(id) => format!("/tasks/{id}/cancel"),
            Self::Answer(id) => format!("/tasks/{id}/answer"),
            Self::Approve(id) => format!("/tasks/{id}/approve"),
            Self::Deny(id) => format!("/tasks/{id}/deny"),
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Logout => "logout",
            Self::Theme => "theme",
            Self::Cancel(_) => "cancel",
            Self::Answer(_) => "answer",
            Self::Approve(_) => "approve",
            Self::Deny(_) => "deny",
        }
    }

    /// The task that it changes.
    pub const fn target(self) -> &'a str {
        match self {
            Self::Logout | Self::Theme => "",
            Self::Cancel(id) | Self::Answer(id) | Self::Approve(id) | Self::Deny(id) => id,
        }
    }

    /// Does it, and sends the browser to a page that shows the outcome.
    pub async fn act(self, console: &Console, session: &Session, form: &Pairs) -> Reply {
        let back = || reply::see(value(form, "back").filter(|back| is_own_path(back)).unwrap_or("/"));
        match self {
            Self::Logout => {
                console.sessions.end(session);
                console.note_logout(session);
                reply::with_cookie(reply::see("/login"), &console.cookie("", 0))
            }
            Self::Theme => {
                let theme = if value(form, "theme") == Some("dark") { "dark" } else { "light" };
                let cookie = format!("theme={theme}; Path=/; SameSite=Strict; HttpOnly; Max-Age=31536000");
                reply::with_cookie(back(), &cookie)
            }
            Self::Cancel(id) => match console.dispatch.cancel_task(&console.caller(session), id).await {
                // It has ended meanwhile, which the page shows.
                Ok(_) | Err(Fault::AlreadyOver(_)) => back(),
                Err(fault) => failed(&fault),
            },
            Self::Answer(id) => answer(console, &console.caller(session), id, form).await,
            Self::Approve(id) | Self::Deny(id) => {
                let decision = match self {
                    Self::Approve(_) => ApprovalDecision::Approve,
                    _ => ApprovalDecision::Deny { note: note(form) },
                };
                if console.settings.not_own && is_own_call(console, session, id).await {
                    let text = "you made this call, so another person decides about it (`console.not-own`)\n";
                    return reply::text(StatusCode::FORBIDDEN, text);
                }
                let fingerprint = value(form, "fingerprint").unwrap_or_default();
                let decided =
                    console.dispatch.decide(&console.caller(session), id, fingerprint, decision).await;
                match decided {
                    // Another decision came first, or the call has changed; the page shows it.
                    Ok(_) | Err(Fault::AlreadyOver(_) | Fault::NotDecided(_)) => back(),
                    Err(fault) => failed(&fault),
                }
            }
        }
    }
}

/// Whether the caller of a task has the name of this user.
async fn is_own_call(console: &Console, session: &Session, id: &str) -> bool {
    let Some(user) = &session.user else { return false };
    let Ok(task) = console.dispatch.task(&console.caller(session), id).await else { return false };
    let owner = name_of(&task.owner);
    owner == *user
        || owner.strip_prefix("token:") == Some(user)
        || owner.rsplit_once('#').is_some_and(|(_, name)| name == user)
}

/// The note to the caller of a denied call.
fn note(form: &Pairs) -> Option<String> {
    let note = value(form, "note").unwrap_or_default().trim();
    (!note.is_empty()).then(|| note.chars().take(MAX_NOTE).collect())
}

/// Whether a path stays within this console.
fn is_own_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

fn failed(fault: &Fault) -> Reply {
    match fault {
        Fault::UnknownTask => reply::text(StatusCode::NOT_FOUND, "there is no such task any more\n"),
        fault => {
            tracing::warn!(
                event = "console.action_failed",
                error = fault as &dyn std::error::Error,
                "cannot do what the console was asked to"
            );
            reply::text(StatusCode::INTERNAL_SERVER_ERROR, "the host could not do this; its log says why\n")
        }
    }
}

async fn answer(console: &Console, caller: &Caller, id: &str, form: &Pairs) -> Reply {
    let task: Task = match console.dispatch.task(caller, id).await {
        Ok(task) => task,
        Err(fault) => return failed(&fault),
    };
    let key = value(form, "key").unwrap_or_default();
    let page = format!("/tasks/{id}");
    // Another answer may have come first; the page shows it.
    let Some(question) = task.open_questions().find(|question| question.wire_key() == key) else {
        return reply::see(&page);
    };
    let answer = match value(form, "do") {
        Some("accept") => {
            let content = match Form::read(&question.params) {
                Ok(form_shown) => content(&form_shown, form),
                Err(_) => Map::new(),
            };
            let content = RawJson::of(&content);
            if let Some(fault) = misfit(&question.params, &content) {
                let mut query = form_urlencoded::Serializer::new(String::new());
                query.append_pair("misfit", &fault).append_pair("key", key);
                for (name, value) in form.iter().filter(|(name, _)| name.starts_with(FIELD)) {
                    query.append_pair(name, value);
                }
                return reply::see(&format!("{page}?{}", query.finish()));
            }
            json!({"action": "accept", "content": content})
        }
        Some("decline") => json!({"action": "decline"}),
        _ => return reply::see(&page),
    };
    let responses = HashMap::from([(key.to_owned(), RawJson::of(&answer))]);
    match console.dispatch.update_task(caller, id, responses).await {
        Ok(()) => reply::see(value(form, "back").filter(|back| is_own_path(back)).unwrap_or(&page)),
        Err(fault) => failed(&fault),
    }
}

/// The prefix of the fields of a question, so that they never clash with those of the page.
pub(crate) const FIELD: &str = "f.";

/// The content of an answer. A field without a text is left out, unless it is a required text.
fn content(shown: &Form, form: &Pairs) -> Map<String, Value> {
    let mut content = Map::new();
    for field in &shown.fields {
        let name = format!("{FIELD}{}", field.name);
        let mut given = form.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        let value = match field.type_name() {
            Some("boolean") => match given.next() {
                Some("true") => Some(Value::Bool(true)),
                Some("false") => Some(Value::Bool(false)),
                _ => None,
            },
            Some("array") => {
                let chosen: Vec<_> = given.filter(|text| !text.is_empty()).map(Value::from).collect();
                (!chosen.is_empty() || field.required).then_some(Value::Array(chosen))
            }
            Some("integer" | "number") => given.next().filter(|text| !text.trim().is_empty()).map(|text| {
                // Text that is not a number stays a text, so that the misfit names it.
                serde_json::from_str::<serde_json::Number>(text.trim())
                    .map_or_else(|_| text.into(), Value::Number)
            }),
            _ => given.next().filter(|text| !text.is_empty() || field.required).map(Value::from),
        };
        if let Some(value) = value {
            content.insert(field.name.clone(), value);
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_its_own_path() {
        let of_task = [Action::Cancel("7"), Action::Answer("7"), Action::Approve("7"), Action::Deny("7")];
        let all = [Action::Logout, Action::Theme].into_iter().chain(of_task);
        for action in all {
            assert_eq!(Action::of(&action.path()), Some(action));
        }
        for path in ["/tasks/7", "/tasks/7/delete", "/", "/login"] {
            assert_eq!(Action::of(path), None, "{path}");
        }
    }

    #[test]
    fn a_browser_is_sent_to_pages_of_this_console_only() {
        assert!(is_own_path("/tasks/7?state=failed"));
        for path in ["//evil.example", "/\\evil.example", "https://evil.example", "", "/a b", "/a\r\nx"] {
            assert!(!is_own_path(path), "{path}");
        }
    }

    #[test]
    fn fields_become_values_of_their_types() {
        let params =
            RawJson::of(&json!({"message": "m", "requestedSchema": {"type": "object", "properties": {
            "name": {"type": "string"}, "note": {"type": "string"}, "count": {"type": "integer"},
            "share": {"type": "number"}, "odd": {"type": "integer"}, "ok": {"type": "boolean"},
            "unset": {"type": "boolean"}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        }, "required": ["name"]}}));
        let form: Pairs = [
            ("f.name", ""),
            ("f.note", ""),
            ("f.count", " 7 "),
            ("f.share", "0.5"),
            ("f.odd", "x"),
            ("f.ok", "true"),
            ("f.unset", ""),
            ("f.tags", "a"),
            ("f.tags", "b"),
            ("other", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let shown = Form::read(&params).expect("a form");
        let expected = json!({
            "name": "", "count": 7, "share": 0.5, "odd": "x", "ok": true, "tags": ["a", "b"],
        });
        assert_eq!(Value::Object(content(&shown, &form)), expected);
    }
}
