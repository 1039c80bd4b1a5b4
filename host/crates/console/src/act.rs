//! The actions of pages.

use crate::action::Action;
use crate::console::Console;
use crate::fields::{FIELD, Reading, read};
use crate::form::{Pairs, value};
use crate::html::View;
use crate::page::try_tool;
use crate::reply::{self, Reply};
use crate::session::Session;
use crate::text::named;
use http::StatusCode;
use serde_json::{Map, json};
use std::collections::HashMap;
use toolyard_dispatch::{
    ApprovalDecision, Caller, Fault, Form, GrantFilter, GrantId, MAX_NOTE, Owner, RawJson, Tasks, name_of,
};
use toolyard_protocol::question::form::misfit;

impl Action<'_> {
    /// Does it, and sends the browser to a page that shows the outcome.
    pub async fn act(self, view: &View<'_>, form: &Pairs) -> Reply {
        self.outcome(view, form).await.unwrap_or_else(|fault| failed(&fault))
    }

    async fn outcome(self, view: &View<'_>, form: &Pairs) -> Result<Reply, Fault> {
        let (console, session) = (view.console, view.session);
        let back = || reply::see(value(form, "back").filter(|back| is_own_path(back)).unwrap_or("/"));
        Ok(match self {
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
            Self::Cancel(id) => {
                match console.dispatch.tasks().await?.cancel_task(&console.caller(session), id).await {
                    // It has ended meanwhile, which the page shows.
                    Ok(_) | Err(Fault::AlreadyOver(_)) => back(),
                    Err(fault) => return Err(fault),
                }
            }
            Self::Answer(id) => answer(console, &console.caller(session), id, form).await?,
            Self::Approve(id) | Self::Deny(id) => {
                let decision = match self {
                    Self::Approve(_) => ApprovalDecision::Approve,
                    _ => ApprovalDecision::Deny { note: note(form) },
                };
                let (tasks, caller) = (console.dispatch.tasks().await?, console.caller(session));
                if console.settings.not_own && is_own_call(tasks, &caller, session, id).await {
                    let text = "you made this call, so another person decides about it (`console.not-own`)\n";
                    return Ok(reply::text(StatusCode::FORBIDDEN, text));
                }
                let fingerprint = value(form, "fingerprint").unwrap_or_default();
                match tasks.decide(&caller, id, fingerprint, decision).await {
                    // Another decision came first, or the call has changed; the page shows it.
                    Ok(_) | Err(Fault::AlreadyOver(_) | Fault::NotDecided(_)) => back(),
                    Err(fault) => return Err(fault),
                }
            }
            Self::RevokeGrant(id) => {
                let Some(id) = GrantId::parse(id) else { return Ok(back()) };
                // If another revoked it first, the page shows that as well.
                console.dispatch.access().revoke_grant(&console.caller(session), id).await?;
                back()
            }
            Self::RevokePlugin(name) | Self::RevokePrincipal(name) => {
                let filter = match self {
                    Self::RevokePlugin(_) => GrantFilter { plugin: Some(named(name)), principal: None },
                    _ => GrantFilter { plugin: None, principal: Some(named(name)) },
                };
                console.dispatch.access().revoke_grants(&console.caller(session), &filter).await?;
                back()
            }
            Self::Try(tool) => try_tool::call(view, tool, form).await,
            Self::EndSession(digest) => {
                console.dispatch.end_session(&console.caller(session), digest).await?;
                back()
            }
        })
    }
}

/// Whether this login, or its person, made the call: by the console, as the principal of the same name, or, for a login
/// without a name, as the user of this machine.
async fn is_own_call(tasks: &Tasks, caller: &Caller, session: &Session, id: &str) -> bool {
    let Ok(task) = tasks.task(caller, id).await else { return true };
    let owner = name_of(&task.owner);
    if let Some(login) = task.approval.as_ref().and_then(|approval| approval.login.as_deref()) {
        let user = login.rsplit_once('-').map(|(user, _)| user);
        return login == session.id || user == session.user.as_deref();
    }
    let Some(user) = &session.user else { return owner == name_of(&Owner::Local) };
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

async fn answer(console: &Console, caller: &Caller, id: &str, form: &Pairs) -> Result<Reply, Fault> {
    let tasks = console.dispatch.tasks().await?;
    let task = tasks.task(caller, id).await?;
    let key = value(form, "key").unwrap_or_default();
    let page = format!("/tasks/{id}");
    // Another answer may have come first; the page shows it.
    let Some(question) = task.open_questions().find(|question| question.wire_key() == key) else {
        return Ok(reply::see(&page));
    };
    let answer = match value(form, "do") {
        Some("accept") => {
            let content = match Form::read(&question.params) {
                Ok(shown) => read(&shown.fields, form, Reading::Answer).0,
                Err(_) => Map::new(),
            };
            let content = RawJson::of(&content);
            if let Some(fault) = misfit(&question.params, &content) {
                let mut query = form_urlencoded::Serializer::new(String::new());
                query.append_pair("misfit", &fault).append_pair("key", key);
                for (name, value) in form.iter().filter(|(name, _)| name.starts_with(FIELD)) {
                    query.append_pair(name, value);
                }
                return Ok(reply::see(&format!("{page}?{}", query.finish())));
            }
            json!({"action": "accept", "content": content})
        }
        Some("decline") => json!({"action": "decline"}),
        _ => return Ok(reply::see(&page)),
    };
    let responses = HashMap::from([(key.to_owned(), RawJson::of(&answer))]);
    tasks.update_task(caller, id, responses).await?;
    Ok(reply::see(value(form, "back").filter(|back| is_own_path(back)).unwrap_or(&page)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_sent_to_pages_of_this_console_only() {
        assert!(is_own_path("/tasks/7?state=failed"));
        for path in ["//evil.example", "/\\evil.example", "https://evil.example", "", "/a b", "/a\r\nx"] {
            assert!(!is_own_path(path), "{path}");
        }
    }
}
