//! Which page or action a request means, and the checks that come before it.

use crate::action::{Action, Facts};
use crate::console::Console;
use crate::form::{Pairs, pairs, value};
use crate::html::View;
use crate::reply::{self, Reply};
use crate::request_check::{ActionRefusal, check_origin, cookie, is_from_https, named_host};
use crate::session::Session;
use crate::{asset, live, login, page};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The largest form (bytes).
const MAX_FORM: usize = 1 << 20;
/// How long a form may take to arrive.
const FORM_TIME: Duration = Duration::from_secs(10);

/// Answers a request.
pub(crate) async fn answer(
    console: &Arc<Console>,
    request: Request<Incoming>,
    stop: CancellationToken,
) -> Reply {
    let Some(host) = named_host(&request, &console.name, &console.settings.names) else {
        return reply::text(StatusCode::MISDIRECTED_REQUEST, "the Host header does not name this console\n");
    };
    let path = request.uri().path().to_owned();
    let query = pairs(request.uri().query().unwrap_or_default().as_bytes());
    let secret = cookie(request.headers(), &console.cookie_name());
    let session = secret.and_then(|secret| console.sessions.find(secret));
    let is_dark = cookie(request.headers(), "theme").map(|theme| theme == "dark");
    if request.method() == Method::POST {
        return post(console, request, &path, &host, session, is_dark).await;
    }
    if request.method() != Method::GET {
        return reply::text(StatusCode::METHOD_NOT_ALLOWED, "GET or POST\n");
    }
    if let Some(asset) = asset::find(&path) {
        return reply::asset(asset.kind, asset.body);
    }
    if let Some(id) = path.strip_prefix("/q/") {
        // Texts for models name this address, which grants nothing.
        return reply::see(&console.task_address(id, &host));
    }
    let Some(session) = session else {
        return match path.as_str() {
            "/login" => login::page(console, is_dark, None),
            _ => reply::see("/login"),
        };
    };
    if path == "/events" {
        return match console.streams.clone().try_acquire_owned() {
            Ok(permit) => reply::events(live::events(console, stop, permit)),
            Err(_) => reply::text(StatusCode::SERVICE_UNAVAILABLE, "too many pages follow changes\n"),
        };
    }
    let Ok(_permit) = console.rendering.acquire().await else {
        return reply::text(StatusCode::SERVICE_UNAVAILABLE, "the host stops\n");
    };
    let view = View { console, session: &session, query: &query, path: &path, is_dark };
    let content = path.strip_prefix("/tasks/").and_then(|rest| rest.split_once("/content/"));
    let reply = match content {
        Some((id, number)) => page::task::content(&view, id, number).await,
        None if path == "/audit/export" => page::audit::export(&view).await,
        None => page::render(&view).await,
    };
    console.counted(&session, reply)
}

/// Checks the origin, the form, the session, the token and the role of an action, then runs it. If a check fails,
/// nothing has changed.
async fn post(
    console: &Arc<Console>,
    request: Request<Incoming>,
    path: &str,
    host: &str,
    session: Option<Session>,
    is_dark: Option<bool>,
) -> Reply {
    let headers = request.headers().clone();
    if let Err(refusal) = check_origin(&headers, host) {
        return refused(console, refusal);
    }
    let Some(form) = form(request).await else { return refused(console, ActionRefusal::Form) };
    if path == "/login" {
        let is_encrypted = is_from_https(&headers);
        return login::redeem(console, &form, is_encrypted);
    }
    let Some(session) = session else { return reply::see("/login") };
    let Some(action) = Action::of(path) else {
        return reply::text(StatusCode::NOT_FOUND, "there is no such action\n");
    };
    let token = value(&form, "token").unwrap_or_default();
    let Facts { name, target, role, .. } = action.facts();
    if !console.sessions.accepts(token, &session, name, target) {
        return refused(console, ActionRefusal::Token);
    }
    if session.role < role {
        return refused(console, ActionRefusal::Role);
    }
    let view = View { console, session: &session, query: &Pairs::new(), path, is_dark };
    action.act(&view, &form).await
}

fn refused(console: &Console, refusal: ActionRefusal) -> Reply {
    console.note_refused(refusal.reason());
    reply::text(
        StatusCode::FORBIDDEN,
        "refused: send this from a page of the console, and reload the page first\n",
    )
}

/// The pairs of a form. `None` if it is too large or too slow.
async fn form(request: Request<Incoming>) -> Option<Pairs> {
    let body = Limited::new(request.into_body(), MAX_FORM).collect();
    let body: Bytes = tokio::time::timeout(FORM_TIME, body).await.ok()?.ok()?.to_bytes();
    Some(pairs(&body))
}
